"""Threat models: which perturbations δ of an image an attacker may choose.

Linf, L2, L1 and L0 are balls of radius ε, Frame is a border of pixels that may take any value. Each is a frozen dataclass with four
methods over a batch, and nothing that happens to one row depends on another.

Pixels at 0 or 1 make or break attacks in L2, L1 and L0. `project` therefore gives the nearest point of ball and box together, and
the length of a step counts only entries that can move: those that the gradient pushes out of [0,1] are held at their wall, not paid for.
`boxed=False` is the paper's plain version, which steps and projects as if there were no box and clips at the end.

Shapes: x, delta, gradient, image (N, C, H, W) with x and image in [0,1]; sizes (N,).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Generator, Tensor

from ccat.checks import require_count, require_number

_IMAGE = (1, 2, 3)  # the dimensions of one image in a batch
_ROUNDING = 1e-6  # nearer to 0 or 1 than this counts as there
_HALVINGS = 40  # the last one is below what float32 can tell apart


class Threat(Protocol):
    """What an attack needs to know of a threat model."""

    @property
    def epsilon(self) -> float:
        """The largest allowed size."""

    def size(self, delta: Tensor) -> Tensor:
        """The size (N,) of each perturbation, at most ε where it is allowed."""

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        """An allowed perturbation with x+δ in [0,1]: δ itself if it is one."""

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """The step along the gradient at `image`, of unit length over the entries that can move."""

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """A random perturbation to start from."""


@dataclass(frozen=True)
class Linf:
    """‖δ‖∞ ≤ ε: every entry moves by at most ε."""

    epsilon: float

    def __post_init__(self) -> None:
        require_number("Linf: epsilon", self.epsilon, 0)
        if self.epsilon > 1:
            raise ValueError(f"Linf: epsilon={self.epsilon} allows every image, which are in [0,1]; 8 grey levels are 8/255")

    def size(self, delta: Tensor) -> Tensor:
        return delta.abs().amax(_IMAGE)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the largest each entry of δ may be."""
        return (-x).clamp_min(-self.epsilon), (1 - x).clamp_max(self.epsilon)

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        return delta.clamp(*self.bounds(x))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        return gradient.sign()

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        return _random_direction(self, x, generator)


@dataclass(frozen=True)
class L2:
    """‖δ‖₂ ≤ ε."""

    epsilon: float
    boxed: bool = True

    def __post_init__(self) -> None:
        require_number("L2: epsilon", self.epsilon, 0)

    def size(self, delta: Tensor) -> Tensor:
        return delta.square().sum(_IMAGE).sqrt()

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        return _where_needed(self, x, delta, self._nearest)

    def _nearest(self, x: Tensor, delta: Tensor) -> Tensor:
        """min(s|δ|, wall) with the largest s ≤ 1 that the ball allows."""
        wall = _wall(x, delta) if self.boxed else torch.full_like(delta, math.inf)
        peak = delta.abs().amax(_IMAGE).clamp_min(1)  # divided by it, squares of large entries do not overflow
        stopped = torch.zeros_like(delta, dtype=torch.bool)
        while True:  # each round stops entries that reach their wall; few rounds suffice, for the rest grows little
            used = self.size(torch.where(stopped, wall, 0))
            left = ((self.epsilon - used).clamp_min(0) * (self.epsilon + used)).sqrt()
            rest = peak * self.size(torch.where(stopped, 0, delta) / _per_image(peak))
            scale = (left / rest.clamp_min(_tiny(rest))).clamp_max(1)
            grown = _per_image(scale) * delta
            beyond = ~stopped & (grown.abs() > wall)
            if not beyond.any():
                return _into_box(x, torch.where(stopped, wall.copysign(delta), grown))
            stopped = stopped | beyond

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """∇/‖∇‖₂."""
        gradient, movable = _scaled(gradient, image, self.boxed)
        return _step(gradient, self.size(movable))

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        return _random_direction(self, x, generator)


@dataclass(frozen=True)
class L1:
    """‖δ‖₁ ≤ ε. A step moves the share `density` of entries with the largest gradient, as the paper's 1 %."""

    epsilon: float
    density: float = 0.01
    boxed: bool = True

    def __post_init__(self) -> None:
        require_number("L1: epsilon", self.epsilon, 0)
        require_number("L1: density", self.density, 0, 1, high_too=True)

    def size(self, delta: Tensor) -> Tensor:
        return delta.abs().sum(_IMAGE)

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        return _where_needed(self, x, delta, self._nearest)

    def _nearest(self, x: Tensor, delta: Tensor) -> Tensor:
        """min(max(|δ|−θ, 0), wall) with the smallest θ ≥ 0 that the ball allows (Duchi et al. 2008; with walls, Croce & Hein 2021)."""
        length = delta.abs()
        wall = torch.minimum(length, _wall(x, delta)) if self.boxed else length
        feasible = torch.where(self.size(wall) > self.epsilon, length.amax(_IMAGE), 0)
        infeasible = torch.zeros_like(feasible)
        for _ in range(
            _HALVINGS
        ):  # the size falls steadily with θ: halving finds it in less time than sorting where entries start and stop
            theta = (feasible + infeasible) / 2
            inside = self.size(torch.minimum(length - _per_image(theta), wall).clamp_min(0)) <= self.epsilon
            feasible, infeasible = torch.where(inside, theta, feasible), torch.where(inside, infeasible, theta)
        return _into_box(x, torch.minimum(length - _per_image(feasible), wall).clamp_min(0).copysign(delta))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """∇ where it is largest, over its L1 norm there."""
        gradient, movable = _scaled(gradient, image, self.boxed)
        count = math.ceil(self.density * movable[0].numel() - 1e-9)
        least = movable.abs().flatten(1).topk(count).values[:, -1]
        chosen = _per_image(least.clamp_min(_tiny(gradient)))
        return _step(torch.where(gradient.abs() >= chosen, gradient, 0), self.size(torch.where(movable.abs() >= chosen, movable, 0)))

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        return _random_direction(self, x, generator)


@dataclass(frozen=True)
class L0:
    """At most ε pixels change, all channels of a pixel together; with `per="entry"` each channel counts on its own, as in the paper."""

    epsilon: int
    per: Literal["pixel", "entry"] = "pixel"
    boxed: bool = True

    def __post_init__(self) -> None:
        require_count("L0: epsilon", self.epsilon)
        if self.per not in ("pixel", "entry"):
            raise ValueError(f"L0: per must be 'pixel' or 'entry', not {self.per!r}")

    def size(self, delta: Tensor) -> Tensor:
        changed = delta != 0 if self.per == "entry" else (delta != 0).any(1)
        return changed.flatten(1).sum(1).to(delta.dtype)

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        return _where_needed(self, x, delta, self._nearest)

    def _nearest(self, x: Tensor, delta: Tensor) -> Tensor:
        """The ε pixels whose change brings the image nearest to x+δ: without walls those of the largest magnitude."""
        reached = _into_box(x, delta)
        towards = reached if self.boxed else delta
        gain = self._units(towards * (2 * delta - towards))  # Σ δ² − (δ − towards)² over the channels
        kept = torch.zeros_like(gain).scatter(1, gain.topk(min(self.epsilon, gain.shape[1])).indices, 1)
        return reached * (kept.view_as(delta) if self.per == "entry" else kept.view_as(delta[:, :1]))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """∇/‖∇‖₁."""
        gradient, movable = _scaled(gradient, image, self.boxed)
        return _step(gradient, movable.abs().sum(_IMAGE))

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Each pixel with probability ⅔ε over the number of pixels, there a colour of U(0,1)."""
        shape = x.shape if self.per == "entry" else x[:, :1].shape
        chosen = _uniform(shape, x, generator) < 2 / 3 * self.epsilon / shape[1:].numel()
        return torch.where(chosen, _uniform(x.shape, x, generator) - x, 0)

    def _units(self, values: Tensor) -> Tensor:
        """What is counted, (N, pixels) or (N, entries)."""
        return values.flatten(1) if self.per == "entry" else values.sum(1).flatten(1)


@dataclass(frozen=True)
class Frame:
    """A border `width` pixels wide takes any values (Zajac et al. 2019); the size of a perturbation is the width of border it needs."""

    width: int

    def __post_init__(self) -> None:
        require_count("Frame: width", self.width)

    @property
    def epsilon(self) -> float:
        return self.width

    def size(self, delta: Tensor) -> Tensor:
        touched = (delta != 0).any(1)
        return torch.where(touched, _depth(delta), 0).amax((1, 2)).to(delta.dtype)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the largest each entry of δ may be."""
        border = self._border(x)
        return -x * border, (1 - x) * border

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        return delta.clamp(*self.bounds(x))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        return gradient.sign() * self._border(gradient)

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """The border replaced by U(0,1)."""
        return (_uniform(x.shape, x, generator) - x) * self._border(x)

    def _border(self, like: Tensor) -> Tensor:
        height, width = like.shape[2:]
        if 2 * self.width >= min(height, width):
            raise ValueError(f"Frame: a border of {self.width} leaves nothing of an image of {height}x{width} pixels inside it")
        return (_depth(like) <= self.width).to(like.dtype)


def _depth(images: Tensor) -> Tensor:
    """(H, W): 1 at the edge of the image, 2 next to it, and so on."""
    height, width = (torch.arange(n, device=images.device) for n in images.shape[2:])
    rows, columns = (torch.minimum(i, i.flip(0)) + 1 for i in (height, width))
    return torch.minimum(rows[:, None], columns)


def _into_box(x: Tensor, delta: Tensor) -> Tensor:
    return delta.clamp(-x, 1 - x)


def _where_needed(threat: "L2 | L1 | L0", x: Tensor, delta: Tensor, nearest: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The nearest allowed point: cut to the box, where that is small enough already; most points of a search are."""
    reached = _into_box(x, delta)
    beyond = threat.size(reached if threat.boxed else delta) > threat.epsilon * (1 + 2 * torch.finfo(x.dtype).eps)  # rounding
    if x.device.type != "cpu":  # choosing would wait for the device
        return torch.where(_per_image(beyond), nearest(x, delta), reached)
    rows = beyond.nonzero()[:, 0]
    if len(rows) == len(x):
        return nearest(x, delta)
    return reached.index_copy_(0, rows, nearest(x[rows], delta[rows])) if len(rows) else reached


def _wall(x: Tensor, delta: Tensor) -> Tensor:
    """How far each entry can go the way δ goes."""
    return torch.where(delta > 0, 1 - x, x)


def _scaled(gradient: Tensor, image: Tensor, boxed: bool) -> tuple[Tensor, Tensor]:
    """The gradient, and the part of it that does not leave [0,1], scaled so that the largest entry of that part is ±1."""
    leaving = ((image <= _ROUNDING) & (gradient < 0)) | ((image >= 1 - _ROUNDING) & (gradient > 0))
    movable = torch.where(leaving, 0, gradient) if boxed else gradient
    largest = _length(movable.abs().amax(_IMAGE))  # so that squares of small gradients do not underflow
    return gradient / largest, movable / largest


def _step(gradient: Tensor, length: Tensor) -> Tensor:
    """Unit length for what can move; what is held at a wall pushes against it no harder than by a whole step."""
    return (gradient / _length(length)).clamp(-1, 1)


def _length(size: Tensor) -> Tensor:
    """As a divisor: a zero gradient is divided by something small and stays zero."""
    return _per_image(size.clamp_min(_tiny(size)))


def _tiny(like: Tensor) -> float:
    return torch.finfo(like.dtype).tiny


def _per_image(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def _random_direction(threat: Threat, x: Tensor, generator: Generator) -> Tensor:
    """u ε δ'/‖δ'‖ with δ' ~ N(0, I) and u ~ U(0, 1) (equation "initialization" of the supplement)."""
    direction = torch.randn(x.shape, generator=generator, device=generator.device, dtype=x.dtype).to(x.device)
    return direction * (_uniform((len(x), 1, 1, 1), x, generator) * threat.epsilon / _length(threat.size(direction)))


def _uniform(shape: tuple[int, ...], like: Tensor, generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device, dtype=like.dtype).to(like.device)
