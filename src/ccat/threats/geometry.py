"""Geometry that threats share: depth in an image, walls of [0,1], steps and random directions.

Shapes: x, delta, gradient, image (N, C, H, W) with x and image in [0,1]; sizes (N,).
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Generator, Tensor

from ccat.threats.protocol import Threat

IMAGE = (1, 2, 3)  # the dimensions of one image in a batch


def per_image(values: Tensor) -> Tensor:
    """Return values (N,) as (N, 1, 1, 1)."""
    return values[:, None, None, None]


def divisor(size: Tensor) -> Tensor:
    """Return sizes (N,) as (N, 1, 1, 1), to divide by: a zero gradient then stays zero."""
    return per_image(size.clamp_min(tiny(size)))


def tiny(like: Tensor) -> float:
    """Return the smallest normal number of a tensor's type."""
    return torch.finfo(like.dtype).tiny


class Ball(Protocol):
    """A ball of radius ε, which is projected onto together with the box [0,1] if `boxed`."""

    @property
    def epsilon(self) -> float:
        """The radius ε."""

    @property
    def boxed(self) -> bool:
        """True if the projection is the nearest point of ball and box together."""

    def size(self, delta: Tensor) -> Tensor:
        """Return the size (N,) of each perturbation."""


def into_box(x: Tensor, delta: Tensor) -> Tensor:
    """Return δ cut so that x+δ lies in [0,1]."""
    return delta.clamp(-x, 1 - x)


def wall(x: Tensor, delta: Tensor) -> Tensor:
    """Return how far each entry can go in the direction of δ: 1−x upwards, else x."""
    return delta.sign().clamp_min_(0).sub_(x).abs_()


def above(values: Tensor, least: Tensor | float, *, equal: bool = False) -> Tensor:
    """Return 1 where values are larger than `least`, or equal if that counts too, and 0 elsewhere.

    To multiply with these numbers takes a tenth of the time of `torch.where` on a CPU.
    """
    mask = torch.empty_like(values)
    return torch.ge(values, least, out=mask) if equal else torch.gt(values, least, out=mask)


def movable(gradient: Tensor, image: Tensor, margin: float = 0.0) -> Tensor:
    """Return the gradient, and zero where it leaves [0,1] from an entry within a margin of it."""
    most = torch.finfo(gradient.dtype).max
    down, up = above(image, margin).mul_(-most), above(1 - image, margin).mul_(most)
    return gradient.clamp(down, up)


def project_where_needed(
    ball: Ball, x: Tensor, delta: Tensor, nearest: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Return δ cut to the box, or `nearest(x, δ)` where that is larger than ε.

    Most points of a search are small enough already, and only the others pay for `nearest`.
    """
    reached = into_box(x, delta)
    rounding = 2 * torch.finfo(x.dtype).eps
    beyond = ball.size(reached if ball.boxed else delta) > ball.epsilon * (1 + rounding)
    if x.device.type != "cpu":  # choosing rows would wait for the device
        return torch.where(per_image(beyond), nearest(x, delta), reached)
    rows = beyond.nonzero()[:, 0]
    if len(rows) == len(x):
        return nearest(x, delta)
    if len(rows) == 0:
        return reached
    some = nearest(x.index_select(0, rows), delta.index_select(0, rows))
    return reached.index_copy_(0, rows, some)


_ROUNDING = 1e-6  # an entry nearer to 0 or 1 than this counts as being there


def scaled(gradient: Tensor, image: Tensor, boxed: bool) -> tuple[Tensor, Tensor]:
    """Return the gradient and the part of it that does not leave [0,1], both scaled.

    The largest entry of that part becomes ±1, so that squares of small gradients do not underflow.
    """
    inside = movable(gradient, image, _ROUNDING) if boxed else gradient
    largest = divisor(inside.abs().amax(IMAGE))
    return gradient / largest, inside / largest


def unit_step(gradient: Tensor, length: Tensor) -> Tensor:
    """Return the gradient divided by the length (N,) of the part that can move.

    What is held at a wall pushes against it no harder than by a whole step.
    """
    return (gradient / divisor(length)).clamp(-1, 1)


def random_direction(threat: Threat, x: Tensor, generator: Generator) -> Tensor:
    """Return u ε δ'/‖δ'‖ with δ' ~ N(0, I) and u ~ U(0, 1).

    This is the equation "initialization" of the paper's supplement.
    """
    direction = torch.randn(
        x.shape, generator=generator, device=generator.device, dtype=x.dtype
    ).to(x.device)
    share = uniform((len(x), 1, 1, 1), x, generator)
    return direction * (share * threat.epsilon / divisor(threat.size(direction)))


def uniform(shape: tuple[int, ...], like: Tensor, generator: Generator) -> Tensor:
    """Return numbers of U(0, 1) of this shape, of the type and on the device of `like`."""
    return torch.rand(shape, generator=generator, device=generator.device, dtype=like.dtype).to(
        like.device
    )
