"""Square Attack (Andriushchenko et al. 2020), for L∞ and L2.

It draws random square windows of shrinking size and keeps them where they score higher.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, best, improve
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.checks import require_count, require_number
from ccat.threats import L2, Linf, Threat

_HALVED_AT = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # of 10,000 iterations


@dataclass(frozen=True)
class Square(Attack):
    """A search of `iterations` random square windows, for Linf and L2.

    `share` is the share p of the image that the first windows cover. It is halved on the published
    schedule, rescaled to `iterations`.
    """

    iterations: int
    share: float = 0.05

    def __post_init__(self) -> None:
        require_count("Square: iterations", self.iterations)
        require_number("Square: share", self.share, 0, 1, high_too=True)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        draw = _Draws(problem.x, generator)
        if isinstance(problem.threat, Linf):
            first, propose = _stripes(draw), _square
        elif isinstance(problem.threat, L2):
            first, propose = _tiles(draw), _moved_mass
        else:
            raise ValueError(
                f"Square is made for Linf and L2, not for {type(problem.threat).__name__}"
            )
        problem = problem.search()
        epsilon = problem.threat.epsilon
        unmoved = problem.evaluate(torch.zeros_like(problem.x))
        # Begin here even where the image itself scores higher: windows need something to work on.
        found = problem.evaluate(epsilon * first)
        for iteration in range(self.iterations):
            found = improve(
                found,
                problem.evaluate(
                    propose(found.delta, epsilon, self._side(iteration, problem.x), draw)
                ),
            )
            if problem.finished:
                break
        return best(unmoved, found)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(2 + self.iterations)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Linf | L2)

    def _side(self, iteration: int, x: Tensor) -> int:
        """Return the side of a window, at least 1 and smaller than the image."""
        halvings = sum(iteration / self.iterations * 10_000 > at for at in _HALVED_AT)
        height, width = x.shape[2:]
        side = round(math.sqrt(self.share * 0.5**halvings * height * width))
        return max(1, min(side, min(height, width) - 1))


@dataclass(frozen=True)
class _Draws:
    """Random numbers per example, from the generator to the device of the images."""

    x: Tensor
    generator: Generator

    def integers(self, high: int) -> Tensor:
        return torch.randint(
            high, (len(self.x),), generator=self.generator, device=self.generator.device
        ).to(self.x.device)

    def signs(self, *shape: int) -> Tensor:
        coin = torch.randint(
            2, (len(self.x), *shape), generator=self.generator, device=self.generator.device
        )
        return (2 * coin - 1).to(self.x)

    def window(self, side: int) -> Tensor:
        """Return a random window (h, h) per image, as the indices (N, h·h) of its entries."""
        height, width = self.x.shape[2:]
        inside = torch.arange(side, device=self.x.device)
        corner = width * self.integers(height - side + 1) + self.integers(width - side + 1)
        return corner[:, None] + (width * inside[:, None] + inside).flatten()


def _stripes(draw: _Draws) -> Tensor:
    """Return the L∞ start: vertical stripes of ±1, one pixel wide."""
    _, channels, _, width = draw.x.shape
    return draw.signs(channels, 1, width).expand_as(draw.x)


def _square(delta: Tensor, epsilon: float, side: int, draw: _Draws) -> Tensor:
    """Set a window to ±ε, with a sign per channel."""
    return _with(delta, draw.window(side), epsilon * draw.signs(delta.shape[1], 1))


def _of(images: Tensor, window: Tensor) -> Tensor:
    """Return the entries (N, C, h·h) of a window (N, h·h)."""
    return images.flatten(2).gather(2, window[:, None].expand(-1, images.shape[1], -1))


def _with(images: Tensor, window: Tensor, values: Tensor | float) -> Tensor:
    """Return the images with other values in a window (N, h·h)."""
    place = window[:, None].expand(-1, images.shape[1], -1)
    values = torch.as_tensor(values, dtype=images.dtype, device=images.device)
    return images.flatten(2).scatter(2, place, values.expand(place.shape)).view_as(images)


def _tiles(draw: _Draws) -> Tensor:
    """Return the L2 start: a grid of 5x5 pyramids of random sign and direction, of norm 1."""
    height, width = draw.x.shape[2:]
    side = max(1, min(height, width) // 5)
    start = torch.zeros_like(draw.x)
    for row in range(0, height - side + 1, side):
        for column in range(0, width - side + 1, side):
            tile = _pyramids(side, draw) * draw.signs(draw.x.shape[1], 1, 1)
            start[:, :, row : row + side, column : column + side] = tile
    return start / start.square().sum((1, 2, 3), keepdim=True).sqrt()


def _moved_mass(delta: Tensor, epsilon: float, side: int, draw: _Draws) -> Tensor:
    """Move the mass of one window to another, which takes a new shape.

    What the ball still has room for goes there too.
    """
    new, old = draw.window(side), draw.window(side)
    tiny = torch.finfo(delta.dtype).tiny
    unused = (epsilon**2 - delta.flatten(1).norm(dim=1).square()).clamp_min(0)
    here = _of(delta, new)
    rest = _with(delta, new, 0)
    # The mass per channel of both windows; what they share counts once.
    mass = here.square().sum(2) + _of(rest, old).square().sum(2)
    pyramids = _pyramids(side, draw).flatten(2)
    shape = draw.signs(delta.shape[1], 1) * pyramids + here / here.norm(
        dim=2, keepdim=True
    ).clamp_min(tiny)
    shape = shape / shape.norm(dim=2, keepdim=True).clamp_min(tiny)
    available = (mass + unused[:, None] / delta.shape[1]).sqrt()
    return _with(_with(rest, old, 0), new, available[:, :, None] * shape)


def _pyramids(side: int, draw: _Draws) -> Tensor:
    """Return two pyramids (N, 1, h, h) of opposite sign side by side, together of norm 1."""
    half = side // 2
    upper = torch.cat([_pyramid(half, side, draw.x), -_pyramid(side - half, side, draw.x)])
    upper = upper / upper.norm()
    turned = draw.integers(2)[:, None, None, None] > 0
    return torch.where(turned, upper.T, upper)


def _pyramid(height: int, width: int, like: Tensor) -> Tensor:
    """Return a pyramid that is highest in the middle.

    At a distance of k rings from the rim it is the sum of 1/(n+1−i)² for i = 0..k.
    """
    if height == 0:
        return torch.zeros(0, width, dtype=like.dtype, device=like.device)
    n = height // 2
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    ring = (n - torch.maximum((rows - n).abs(), (columns - width // 2).abs())).clamp_min(0)
    sums = torch.cumsum(1 / (n + 1 - torch.arange(n + 1, dtype=torch.float64)) ** 2, 0)
    return sums[ring].to(like)
