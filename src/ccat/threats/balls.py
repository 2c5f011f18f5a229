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
        walls = wall(x, delta) if self.boxed else torch.full_like(delta, math.inf)
        # Divided by the peak, squares of large entries do not overflow.
        peak = delta.abs().amax(IMAGE).clamp_min(1)
        stopped = torch.zeros_like(delta, dtype=torch.bool)
        # Each round stops the entries that reach their wall. The others then grow a little, so
        # that few rounds suffice.
        while True:
            used = self.size(torch.where(stopped, walls, 0))
            left = ((self.epsilon - used).clamp_min(0) * (self.epsilon + used)).sqrt()
            rest = peak * self.size(torch.where(stopped, 0, delta) / per_image(peak))
            scale = (left / rest.clamp_min(tiny(rest))).clamp_max(1)
            grown = per_image(scale) * delta
            beyond = ~stopped & (grown.abs() > walls)
            if not beyond.any():
                return into_box(x, torch.where(stopped, walls.copysign(delta), grown))
            stopped = stopped | beyond

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return ∇/‖∇‖₂, with the norm over the entries that can move."""
        gradient, movable = scaled(gradient, image, self.boxed)
        return unit_step(gradient, self.size(movable))

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a random direction of a size uniform in [0, ε]."""
        return random_direction(self, x, generator)


_HALVINGS = 40  # the last one is below what float32 can tell apart


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

        See Duchi et al. 2008 and, with walls, Croce & Hein 2021. The size falls steadily with θ:
        halving finds θ in less time than sorting where entries start and stop.
        """
        length = delta.abs()
        walls = torch.minimum(length, wall(x, delta)) if self.boxed else length

        def shrunk(theta: Tensor) -> Tensor:
            return torch.minimum(length - per_image(theta), walls).clamp_min(0)

        feasible = torch.where(self.size(walls) > self.epsilon, length.amax(IMAGE), 0)
        infeasible = torch.zeros_like(feasible)
        for _ in range(_HALVINGS):
            theta = (feasible + infeasible) / 2
            inside = self.size(shrunk(theta)) <= self.epsilon
            feasible = torch.where(inside, theta, feasible)
            infeasible = torch.where(inside, infeasible, theta)
        return into_box(x, shrunk(feasible).copysign(delta))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return ∇ where it is largest, divided by its L1 norm there, and zero elsewhere."""
        gradient, movable = scaled(gradient, image, self.boxed)
        count = math.ceil(self.density * movable[0].numel() - 1e-9)
        least = movable.abs().flatten(1).topk(count).values[:, -1]
        chosen = per_image(least.clamp_min(tiny(gradient)))
        return unit_step(
            torch.where(gradient.abs() >= chosen, gradient, 0),
            self.size(torch.where(movable.abs() >= chosen, movable, 0)),
        )

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a random direction of a size uniform in [0, ε]."""
        return random_direction(self, x, generator)
