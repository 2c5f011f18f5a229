"""Square Attack (Andriushchenko et al. 2020), for L∞ and L2.

It draws random square windows of shrinking size and keeps them where they score higher.

Shapes: x, delta (N, C, H, W); windows (N, C, h·h), the places of their entries within a channel;
(t, N, ...) of t iterations at once.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, best, improve
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.checks import require_count, require_number
from ccat.threats import L2, Linf, Threat

_HALVED_AT = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # of 10,000 iterations
_AT_ONCE = 20  # iterations at most whose windows are drawn together
_INSIDE = 8  # roundings by which steps stay inside an L2 ball, which spares most projections

Propose = Callable[[Tensor], Tensor]  # of the best δ so far the next to try


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
        threat, draw = problem.threat, _Draws(problem.x, generator)
        if not isinstance(threat, Linf | L2):
            raise ValueError(f"Square is made for Linf and L2, not for {type(threat).__name__}")
        problem = problem.search()
        first, proposals = (
            (_stripes(draw), _squares) if isinstance(threat, Linf) else (_tiles(draw), _moves)
        )
        unmoved = problem.evaluate(torch.zeros_like(problem.x))
        # Begin here even where the image itself scores higher: windows need something to work on.
        found = problem.evaluate(threat.epsilon * first)
        for propose in self._drawn(draw, threat.epsilon, proposals):
            found = improve(found, problem.evaluate(propose(found.delta)))
            if problem.finished:
                break
        return best(unmoved, found)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(2 + self.iterations)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Linf | L2)

    def _drawn(
        self,
        draw: "_Draws",
        epsilon: float,
        proposals: Callable[["_Draws", float, int, int], Iterator[Propose]],
    ) -> Iterator[Propose]:
        """Draw the proposals of all iterations, those of one side a few iterations at once."""
        sides = [self._side(iteration, draw.x) for iteration in range(self.iterations)]
        for side, same in itertools.groupby(sides):
            left, most = len(list(same)), draw.x[0, 0].numel() // side**2  # as much as the images
            while left > 0:
                count = min(left, most, _AT_ONCE)
                yield from proposals(draw, epsilon, side, count)
                left -= count

    def _side(self, iteration: int, x: Tensor) -> int:
        """Return the side of a window, at least 1 and smaller than the image."""
        halvings = sum(iteration / self.iterations * 10_000 > at for at in _HALVED_AT)
        height, width = x.shape[2:]
        side = round(math.sqrt(self.share * 0.5**halvings * height * width))
        return max(1, min(side, min(height, width) - 1))


@dataclass(frozen=True)
class _Draws:
    """Random numbers per example of several iterations at once.

    They go from the generator to the device of the images.
    """

    x: Tensor
    generator: Generator

    def integers(self, high: int, count: int, *shape: int) -> Tensor:
        """Return integers below `high`, (count, N, ...)."""
        return torch.randint(
            high,
            (count, len(self.x), *shape),
            generator=self.generator,
            device=self.generator.device,
        ).to(self.x.device)

    def signs(self, count: int, *shape: int) -> Tensor:
        """Return ±1, (count, N, ...)."""
        return (2 * self.integers(2, count, *shape) - 1).to(self.x)

    def windows(self, count: int, side: int) -> Tensor:
        """Return random windows (count, N, C, h·h), the same in all channels of an image."""
        channels, height, width = self.x.shape[1:]
        inside = torch.arange(side, device=self.x.device)
        row, column = (self.integers(n - side + 1, count, 1, 1) for n in (height, width))
        places = width * row + column + (width * inside[:, None] + inside).flatten()
        return places.expand(-1, -1, channels, -1)


def _stripes(draw: _Draws) -> Tensor:
    """Return the L∞ start: vertical stripes of ±1, one pixel wide."""
    _, channels, _, width = draw.x.shape
    return draw.signs(1, channels, 1, width)[0].expand_as(draw.x)


def _squares(draw: _Draws, epsilon: float, side: int, count: int) -> Iterator[Propose]:
    """Set windows to ±ε, with a sign per channel."""
    windows = draw.windows(count, side)
    values = (epsilon * draw.signs(count, draw.x.shape[1], 1)).expand(windows.shape)
    return (
        partial(_with, window=window, values=of_window)
        for window, of_window in zip(windows, values, strict=True)
    )


def _with(delta: Tensor, window: Tensor, values: Tensor) -> Tensor:
    """Return δ with other values in a window."""
    return delta.flatten(2).scatter(2, window, values).view_as(delta)


def _tiles(draw: _Draws) -> Tensor:
    """Return the L2 start: a grid of 5x5 pyramids of random sign and direction, of norm 1."""
    height, width = draw.x.shape[2:]
    side = max(1, min(height, width) // 5)
    start = torch.zeros_like(draw.x)
    tiles = list(
        itertools.product(range(0, height - side + 1, side), range(0, width - side + 1, side))
    )
    for (row, column), tile in zip(tiles, _pyramids(draw, side, len(tiles)), strict=True):
        start[:, :, row : row + side, column : column + side] = tile
    return start / start.square().sum((1, 2, 3), keepdim=True).sqrt()


def _moves(draw: _Draws, epsilon: float, side: int, count: int) -> Iterator[Propose]:
    """Move the mass of windows to others, which take new shapes."""
    epsilon *= 1 - _INSIDE * torch.finfo(draw.x.dtype).eps
    new, old = draw.windows(count, side), draw.windows(count, side)
    pyramids = _pyramids(draw, side, count).flatten(3)
    return (
        partial(_moved_mass, epsilon=epsilon, new=to, old=source, pyramids=shape)
        for to, source, shape in zip(new, old, pyramids, strict=True)
    )


def _moved_mass(
    delta: Tensor, epsilon: float, new: Tensor, old: Tensor, pyramids: Tensor
) -> Tensor:
    """Move the mass of one window to another, which takes a new shape.

    What the ball still has room for goes there too.
    """
    tiny = torch.finfo(delta.dtype).tiny
    moved = delta.clone()
    entries = moved.flatten(2)  # a view
    room = epsilon**2 - entries.square().sum((1, 2), keepdim=True)
    here = entries.gather(2, new)
    length = here.norm(dim=2, keepdim=True)
    entries.scatter_(2, new, 0)
    # The mass per channel of both windows; what they share counts once.
    mass = entries.gather(2, old).square_().sum(2, keepdim=True).addcmul_(length, length)
    entries.scatter_(2, old, 0)
    shape = torch.addcdiv(pyramids, here, length.clamp_min_(tiny))
    available = mass.add_(room.clamp_min_(0), alpha=1 / delta.shape[1]).sqrt_()
    shape *= available / shape.norm(dim=2, keepdim=True).clamp_min_(tiny)
    entries.scatter_(2, new, shape)
    return moved


def _pyramids(draw: _Draws, side: int, count: int) -> Tensor:
    """Return two pyramids of opposite sign side by side, together of norm 1, (count, N, C, h, h).

    They are upright or turned, with a sign per channel.
    """
    half = side // 2
    upper = torch.cat([_pyramid(half, side, draw.x), -_pyramid(side - half, side, draw.x)])
    upper = upper / upper.norm()
    both = torch.stack([upper, upper.T])
    return both[draw.integers(2, count, 1)] * draw.signs(count, draw.x.shape[1], 1, 1)


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
