"""Layers with weights, and how a model computes: linear, convolution, batch normalisation.

A batch normalisation is folded into the layer before it where that is exact, which training needs
to be fast.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccat.bounds.interval import Interval, affine, gamma

Statistics = Mapping[nn.Module, tuple[Tensor, Tensor]]
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True)
class Arithmetic:
    """How a model computes.

    Attributes:
        unit: The unit roundoff of its precision; 0 for exact arithmetic.
        statistics: The mean and variance that batch normalisation uses instead of its running ones.
        training: True if layers may be in training mode; dropout is left out then.
    """

    unit: float = 0.0
    statistics: Statistics = field(default_factory=dict)
    training: bool = False

    def error(self, count: int) -> float:
        """Return γ(count + 2): of a sum of so many products, a bias and a conversion."""
        return gamma(count + 2, self.unit)


@dataclass(frozen=True, eq=False)
class Product:
    """A linear or convolutional layer that is not computed yet: what follows may be folded into it.

    Attributes:
        function: Called with an input, the weight and the bias, or None.
        x: The input.
        weight: (outputs, …), the magnitudes of which bound the radius.
        bias: (outputs,), if there is one.
        error: The relative error of its sums.
        channels: The axis of its outputs: 1 after a convolution, the last one after a linear layer.
    """

    function: Callable[..., Tensor]
    x: Interval
    weight: Tensor
    bias: Tensor | None
    error: float
    channels: int

    def interval(self) -> Interval:
        """Compute it."""
        magnitudes = self.weight.abs()
        out = affine(
            self.x,
            lambda centre: self.function(centre, self.weight, self.bias),
            lambda radius: self.function(radius, magnitudes, None),
            self.error,
        )
        if self.bias is None or self.error == 0:
            return out
        bias = _along(self.bias.abs(), self.channels, out.radius.ndim)
        return Interval(out.centre, out.radius + self.error * bias)


def linear(how: Arithmetic, layer: nn.Linear, x: Interval) -> Product:
    """Bound a linear layer."""
    return product(how, functional.linear, x, layer.weight, layer.bias)


def convolution(how: Arithmetic, layer: Any, x: Interval) -> Product:
    """Bound a convolution, with whatever padding."""
    return product(how, layer._conv_forward, x, layer.weight, layer.bias)


def product(
    how: Arithmetic,
    function: Callable[..., Tensor],
    x: Interval,
    weight: Tensor,
    bias: Tensor | None = None,
    *more: Any,
    **named: Any,
) -> Product:
    """Bound a function of an input, a weight (outputs, …) and a bias, linear in the first two."""

    def call(value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return function(value, weight, bias, *more, **named)

    channels = x.centre.ndim - 1 if weight.ndim == 2 else 1
    return Product(call, x, weight, bias, how.error(weight[0].numel()), channels)


def batch_norm(how: Arithmetic, layer: Any, x: Interval | Product) -> Interval | Product:
    """Bound a batch normalisation, which is folded into the layer before it."""
    if layer.training and layer.track_running_stats and layer not in how.statistics:
        raise ValueError("it is in training mode, where it answers differently in every batch")
    mean, variance = how.statistics.get(layer, (layer.running_mean, layer.running_var))
    if mean is None:
        raise ValueError(
            "without running statistics it answers differently in every batch: no bound holds"
        )
    scale = (variance + layer.eps).rsqrt()
    shift = -mean * scale
    if layer.affine:
        scale, shift = layer.weight * scale, layer.bias + layer.weight * shift
    if how.unit == 0 and isinstance(x, Product) and x.channels == 1:
        weight = x.weight * scale.view(-1, *(1,) * (x.weight.ndim - 1))
        return replace(x, weight=weight, bias=shift if x.bias is None else shift + x.bias * scale)
    given: Interval = computed(x)
    scale, shift, mean = (_along(one, 1, given.centre.ndim) for one in (scale, shift, mean))
    # The model may subtract, divide, multiply and add, each with an error of its own.
    size = (given.centre.abs() + given.radius + mean.abs()) * scale.abs() + shift.abs()
    radius = given.radius * scale.abs() + how.error(6) * size
    return Interval(torch.addcmul(shift, given.centre, scale), radius)


def _along(values: Tensor, axis: int, ndim: int) -> Tensor:
    """Return values (C,) in a form that lies along an axis of ndim."""
    return values.view(-1, *(1,) * (ndim - 1 - axis))


def computed(value: Any) -> Any:
    """Return a value, computed if it is a `Product`."""
    return value.interval() if isinstance(value, Product) else value
