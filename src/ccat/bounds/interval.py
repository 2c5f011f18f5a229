"""Intervals: all values between centre − radius and centre + radius, entry by entry.

An affine layer takes the centre as it takes any image, and the radius with its weights made
positive; a monotone layer takes both ends (Gowal et al. 2018). Every function here also allows for
the rounding of the model that is bounded: a sum of n products in floating point of unit roundoff u
is off by at most γ(n) = nu / (1 − nu) times the sum of their magnitudes, in whatever order it is
summed (Higham 2002, section 3.1). A layer that multiplies magnitudes anyway gets this for nothing.

Shapes: centre and radius have the shape of what they bound, (N, ...).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Interval:
    """A box around every example of a batch; the radius is at least 0."""

    centre: Tensor
    radius: Tensor

    @classmethod
    def between(cls, lower: Tensor, upper: Tensor) -> "Interval":
        """Return the interval from a lower to an upper bound."""
        return cls((upper + lower) / 2, (upper - lower) / 2)

    @property
    def lower(self) -> Tensor:
        """The lower bound."""
        return self.centre - self.radius

    @property
    def upper(self) -> Tensor:
        """The upper bound."""
        return self.centre + self.radius

    def widened(self, share: float) -> "Interval":
        """Return the interval with a share of the largest magnitude in it added to its radius."""
        if share == 0:
            return self
        return Interval(self.centre, self.radius + share * (self.centre.abs() + self.radius))


def gamma(count: int, unit: float) -> float:
    """Return γ(n) = nu / (1 − nu), the relative error of a sum of `count` rounded terms.

    Raises:
        ValueError: If the sum is too long for the precision, so that no error can be stated.
    """
    if count * unit >= 1:
        raise ValueError(
            f"a sum of {count} terms in a precision of {unit:.1g} may have any error: no bound "
            f"can be stated; convert the model to float32"
        )
    return count * unit / (1 - count * unit)


def affine(x: Interval, centre: Map, magnitude: Map, error: float) -> Interval:
    """Return the bounds of an affine layer.

    Args:
        x: What goes in.
        centre: The layer.
        magnitude: The layer with the magnitudes of its weights, without a bias.
        error: The relative error γ of its sums; 0 for exact arithmetic.
    """
    return Interval(centre(x.centre), magnitude(x.widened(error).radius))


def monotone(x: Interval, layer: Map) -> Interval:
    """Return the bounds of a layer of which every output rises, or stays, with every input."""
    return Interval.between(layer(x.lower), layer(x.upper))


def rectified(x: Interval) -> Interval:
    """Return the bounds of max(0, x)."""
    centre, radius = _Rectified.apply(x.centre, x.radius)  # type: ignore[no-untyped-call]
    return Interval(centre, radius)


class _Rectified(torch.autograd.Function):
    """Both ends rectified; by hand, because training passes here more often than anywhere."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, *given: Tensor) -> tuple[Tensor, ...]:
        centre, radius = given
        upper = (centre + radius).relu_()
        lower = (centre - radius).relu_()
        context.save_for_backward(lower, upper)
        return (upper + lower).mul_(0.5), (upper - lower).mul_(0.5)

    @staticmethod
    def backward(
        context: torch.autograd.function.FunctionCtx, *given: Tensor
    ) -> tuple[Tensor, ...]:
        lower, upper = context.saved_tensors  # type: ignore[attr-defined]
        of_centre, of_radius = given
        of_upper = torch.ops.aten.threshold_backward(of_centre + of_radius, upper, 0)
        of_lower = torch.ops.aten.threshold_backward(of_centre - of_radius, lower, 0)
        return (of_upper + of_lower).mul_(0.5), of_upper.sub_(of_lower).mul_(0.5)
