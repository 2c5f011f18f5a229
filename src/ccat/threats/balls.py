"""Balls of radius ε: L∞, L2 and L1.

Shapes: x, delta, gradient, image (N, C, H, W) with x and image in [0,1]; sizes (N,).
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.checks import require_number
from ccat.threats.geometry import (
    IMAGE,
    above,
    into_box,
    per_image,
    project_where_needed,
    random_direction,
    scaled,
    tiny,
    unit_step,
    wall,
)


@dataclass(frozen=True)
class Linf:
    """The L∞ ball: ‖δ‖∞ ≤ ε, every entry moves by at most ε.

    Attributes:
        epsilon: The most that an entry moves; 8 grey levels are 8/255.
    """

    epsilon: float

    def __post_init__(self) -> None:
        require_number("Linf: epsilon", self.epsilon, 0)
        if self.epsilon > 1:
            raise ValueError(
                f"Linf: epsilon={self.epsilon} would allow every image, for images are in [0,1]; "
                f"write 8 grey levels as 8/255"
            )

    def size(self, delta: Tensor) -> Tensor:
        """Return ‖δ‖∞ (N,)."""
        return delta.abs().amax(IMAGE)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the least and the largest value that each entry of δ may have."""
        return (-x).clamp_min(-self.epsilon), (1 - x).clamp_max(self.epsilon)

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        """Clamp δ to [−ε, ε] and x+δ to [0,1]."""
        return delta.clamp(*self.bounds(x))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return sign(∇)."""
        return gradient.sign()

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a random direction of a size uniform in [0, ε]."""
        return random_direction(self, x, generator)


@dataclass(frozen=True)
class L2:
    """The L2 ball: ‖δ‖₂ ≤ ε.

    With `boxed=False` it steps and projects as if there were no box and clips at the end, as the
    paper does.

    Attributes:
        epsilon: The largest Euclidean length of a perturbation.
        boxed: Whether steps and projections know that images lie in [0,1].
    """

    epsilon: float
    boxed: bool = True

    def __post_init__(self) -> None:
        require_number("L2: epsilon", self.epsilon, 0)

    def size(self, delta: Tensor) -> Tensor:
        """Return ‖δ‖₂ (N,)."""
        return delta.square().sum(IMAGE).sqrt()

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return the nearest point of ball and box together."""
        return project_where_needed(self, x, delta, self._nearest)

    def _nearest(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return min(s|δ|, wall) with the largest s ≤ 1 that the ball allows."""
        length = delta.abs()
        # Divided by the peak, squares of large entries do not overflow.
        peak = length.amax(IMAGE).clamp_min(1)
        squares = (length / per_image(peak)).square_()
        walls = wall(x, delta) if self.boxed else torch.ones_like(delta)
        reach = walls / length.clamp_min_(tiny(length)) if self.boxed else walls
        walls.square_()
        # Each round stops the entries whose wall the scale reaches, marked by 1. The others then
        # grow a little, so that few rounds suffice.
        stopped, count = torch.zeros_like(delta), 0.0
        while True:
            used = (stopped * walls).sum(IMAGE).sqrt()
            left = ((self.epsilon - used).clamp_min(0) * (self.epsilon + used)).sqrt()
            rest = torch.addcmul(squares, stopped, squares, value=-1).sum(IMAGE).sqrt() * peak
            scale = per_image((left / rest.clamp_min(tiny(rest))).clamp_max(1))
            stopped = torch.maximum(stopped, 1 - above(reach, scale, equal=True))
            if count == (count := stopped.sum().item()):
                return into_box(x, scale * delta)

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return ∇/‖∇‖₂, with the norm over the entries that can move."""
        gradient, movable = scaled(gradient, image, self.boxed)
        return unit_step(gradient, self.size(movable))

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a random direction of a size uniform in [0, ε]."""
        return random_direction(self, x, generator)


_ROUNDS = 60  # of the search for θ; five to ten of them suffice in most cases
_HALVING = (
    8  # every so many rounds the interval is halved, so that no function can stall the search
)


@dataclass(frozen=True)
class L1:
    """The L1 ball: ‖δ‖₁ ≤ ε.

    A step moves the share `density` of entries with the largest gradient, 1 % in the paper. With
    `boxed=False` it steps and projects as if there were no box and clips at the end, as the paper
    does.

    Attributes:
        epsilon: The largest sum of absolute changes.
        density: The share of entries that a step moves.
        boxed: Whether steps and projections know that images lie in [0,1].
    """

    epsilon: float
    density: float = 0.01
    boxed: bool = True

    def __post_init__(self) -> None:
        require_number("L1: epsilon", self.epsilon, 0)
        require_number("L1: density", self.density, 0, 1, high_too=True)

    def size(self, delta: Tensor) -> Tensor:
        """Return ‖δ‖₁ (N,)."""
        return delta.abs().sum(IMAGE)

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return the nearest point of ball and box together."""
        return project_where_needed(self, x, delta, self._nearest)

    def _nearest(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return min(max(|δ|−θ, 0), wall) with the smallest θ ≥ 0 that the ball allows.

        See Duchi et al. 2008 and, with walls, Croce & Hein 2021.
        """
        length = delta.abs()
        walls = torch.minimum(length, wall(x, delta)) if self.boxed else length
        theta = _least_theta(length.flatten(1), walls.flatten(1), self.epsilon)
        shrunk = torch.minimum(length - per_image(theta), walls).clamp_min_(0)
        return into_box(x, shrunk.copysign_(delta))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return ∇ where it is largest, divided by its L1 norm there, and zero elsewhere."""
        gradient, movable = scaled(gradient, image, self.boxed)
        count = math.ceil(self.density * movable[0].numel() - 1e-9)
        least = movable.abs().flatten(1).topk(count).values[:, -1]
        chosen = per_image(least.clamp_min(tiny(gradient)))
        return unit_step(
            above(gradient.abs(), chosen, equal=True).mul_(gradient),
            self.size(above(movable.abs(), chosen, equal=True).mul_(movable)),
        )

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a random direction of a size uniform in [0, ε]."""
        return random_direction(self, x, generator)


def _least_theta(length: Tensor, walls: Tensor, epsilon: float) -> Tensor:
    """Return the smallest θ ≥ 0 (N,) for which Σ min(max(length−θ, 0), walls) is at most ε.

    The sum is piecewise linear and falls with θ, so that Newton's method is exact on the last
    piece; it is not convex, and a step that leaves the interval known to hold θ halves it instead.
    Only values for which the sum is at most ε are returned.

    Args:
        length: |δ| (N, D).
        walls: The most that each entry may change (N, D), at most its length.
        epsilon: The radius ε.
    """
    rounding = torch.finfo(length.dtype).eps
    target, enough = epsilon * (1 - 4 * rounding), epsilon * (1 - 16 * rounding)
    size, sliding = walls.sum(1), (walls == length).sum(1)
    done = size <= epsilon
    low = theta = torch.zeros_like(size)
    high = torch.where(done, 0, length.amax(1))
    for number in range(1, _ROUNDS):
        if done.all():
            break
        next_up = low.nextafter(high)
        ahead = torch.maximum(theta + (size - target) / sliding, next_up)
        middle = (low + high) / 2
        theta = middle if number % _HALVING == 0 else torch.where(ahead < high, ahead, middle)
        shrunk = torch.minimum(length - theta[:, None], walls).clamp_min_(0)
        size, sliding = shrunk.sum(1), above(walls, shrunk).mul_(shrunk.sign_()).sum(1)
        inside = size <= epsilon
        high = torch.where(inside & ~done, theta, high)
        low = torch.where(inside, low, theta)
        done |= (inside & (size >= enough)) | (low.nextafter(high) >= high)
    return high
