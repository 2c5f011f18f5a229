"""What each known layer makes of an interval: `RULES`, by its type, function or method.

To bound a layer of your own, write it of these, or add its rule here. A type is matched exactly: a
subclass may compute something else, and is looked into instead.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccat.bounds.interval import Interval, affine, gamma, monotone, rectified

Statistics = Mapping[nn.Module, tuple[Tensor, Tensor]]
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True)
class Arithmetic:
    """How a model computes.

    Attributes:
        unit: The unit roundoff of its precision; 0 for exact arithmetic.
        statistics: The mean and variance that batch normalisation uses instead of its running ones.
    """

    unit: float = 0.0
    statistics: Statistics = field(default_factory=dict)

    def error(self, count: int) -> float:
        """Return γ(count + 2): of a sum of so many products, a bias and a conversion."""
        return gamma(count + 2, self.unit)


Rule = Callable[..., Any]  # (Arithmetic, what is called, its arguments) -> Interval or Product
FOLDED = {*NORMS}  # what takes a Product as it is; everything else takes it computed


@dataclass(frozen=True, eq=False)
class Product:
    """A linear or convolutional layer that is not computed yet: what follows may be folded into it.

    Attributes:
        function: Called with an input, the weight and the bias, or None.
        x: The input.
        weight: (outputs, …), the magnitudes of which bound the radius.
        bias: (outputs,), if there is one.
        error: The relative error of its sums.
    """

    function: Callable[..., Tensor]
    x: Interval
    weight: Tensor
    bias: Tensor | None
    error: float

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
        bias = _per_channel(self.bias.abs(), out.radius.ndim)
        return Interval(out.centre, out.radius + self.error * bias)


def _linear(how: Arithmetic, layer: nn.Linear, x: Interval) -> Product:
    return _product(how, functional.linear, x, layer.weight, layer.bias)


def _convolution(how: Arithmetic, layer: Any, x: Interval) -> Product:
    return _product(how, layer._conv_forward, x, layer.weight, layer.bias)


def _product(
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

    return Product(call, x, weight, bias, how.error(weight[0].numel()))


def _normalisation(how: Arithmetic, layer: Any, x: Interval | Product) -> Interval | Product:
    """Bound a batch normalisation, which is folded into the layer before it."""
    mean, variance = how.statistics.get(layer, (layer.running_mean, layer.running_var))
    if mean is None:
        raise ValueError(
            "without running statistics it answers differently in every batch: no bound holds"
        )
    scale = (variance + layer.eps).rsqrt()
    shift = -mean * scale
    if layer.affine:
        scale, shift = layer.weight * scale, layer.bias + layer.weight * shift
    if how.unit == 0 and isinstance(x, Product):
        weight = x.weight * scale.view(-1, *(1,) * (x.weight.ndim - 1))
        return replace(x, weight=weight, bias=shift if x.bias is None else shift + x.bias * scale)
    given: Interval = computed(x)
    scale, shift, mean = (_per_channel(one, given.centre.ndim) for one in (scale, shift, mean))
    # The model may subtract, divide, multiply and add, each with an error of its own.
    size = (given.centre.abs() + given.radius + mean.abs()) * scale.abs() + shift.abs()
    radius = given.radius * scale.abs() + how.error(6) * size
    return Interval(torch.addcmul(shift, given.centre, scale), radius)


def _per_channel(values: Tensor, ndim: int) -> Tensor:
    """Return values (C,) in a form that fits (N, C, …)."""
    return values.view(-1, *(1,) * (ndim - 2))


def computed(value: Any) -> Any:
    """Return a value, computed if it is a `Product`."""
    return value.interval() if isinstance(value, Product) else value


def _sum(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound a sum of inputs with positive weights, such as an average."""
    call = partial(_called, layer, a, b)
    terms = 4 * x.centre[0].numel() // max(1, call(x.centre)[0].numel())  # windows may overlap
    return affine(x, call, call, how.error(terms))


def _rises(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound a function that rises with its input; the functions of curves round a little."""
    return monotone(x, partial(_called, layer, a, b)).widened(how.error(8))


def _picks(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound a function that returns some of its inputs, the largest ones or all in another form."""
    return monotone(x, partial(_called, layer, a, b))


def _moves(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound a function that only moves entries elsewhere."""
    return Interval(_called(layer, a, b, x.centre), _called(layer, a, b, x.radius))


def _called(layer: Callable[..., Tensor], a: Any, b: Any, value: Tensor) -> Tensor:
    return layer(value, *a, **b)


def _relu(how: Arithmetic, layer: object, x: Interval, *_: Any, **__: Any) -> Interval:
    return rectified(x)


def _identity(how: Arithmetic, layer: object, x: Interval, *_: Any, **__: Any) -> Interval:
    return x


def _dropped(
    how: Arithmetic,
    layer: object,
    x: Interval,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Interval:
    if training:
        raise ValueError("a dropout that is never switched off makes the answer random")
    return x


def _joined(
    how: Arithmetic, layer: Callable[..., Tensor], parts: Sequence[Any], dim: int = 0
) -> Interval:
    found = [_interval(part) for part in parts]
    columns = ([one.centre for one in found], [one.radius for one in found])
    return Interval(*(layer(column, dim) for column in columns))


def _leaky(how: Arithmetic, layer: nn.LeakyReLU, x: Interval) -> Interval:
    if not 0 <= layer.negative_slope <= 1:
        raise ValueError(f"a LeakyReLU of slope {layer.negative_slope} does not rise")
    return monotone(x, layer).widened(how.error(1))


def _add(how: Arithmetic, function: object, one: Any, other: Any, sign: int = 1) -> Interval:
    """Bound the sum, or the difference, of intervals or constants."""
    first, second = _interval(one), _interval(other)
    centre = first.centre + sign * second.centre
    return Interval(centre, first.radius + second.radius).widened(how.error(1))


def _scale(how: Arithmetic, function: object, one: Any, other: Any) -> Interval:
    """Bound the product of an interval and a constant."""
    if isinstance(one, Interval) and isinstance(other, Interval):
        raise ValueError("a product of two intermediate results has no rule")
    x, by = (one, other) if isinstance(one, Interval) else (other, one)
    by = torch.as_tensor(by, dtype=x.centre.dtype, device=x.centre.device)
    return Interval(x.centre * by, x.radius * by.abs()).widened(how.error(1))


def _divide(how: Arithmetic, function: object, one: Any, other: Any) -> Interval:
    if isinstance(other, Interval):
        raise ValueError("a division by an intermediate result has no rule")
    return _scale(how, function, one, 1 / torch.as_tensor(other, dtype=one.centre.dtype))


def _negated(how: Arithmetic, function: object, x: Interval) -> Interval:
    return Interval(-x.centre, x.radius)


def _interval(value: Any) -> Interval:
    if isinstance(value, Interval):
        return value
    constant = torch.as_tensor(value)
    return Interval(constant, torch.zeros_like(constant))


def _asked(how: Arithmetic, function: Callable[..., Any], x: Interval, *a: Any) -> Any:
    """Answer what a shape is."""
    return function(x.centre, *a)


_FLAT: tuple[Any, ...] = (nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle)
_FLAT += (torch.flatten, torch.reshape, torch.permute, torch.transpose, torch.squeeze)
_SAME = (nn.Dropout, nn.Dropout2d, nn.Identity, "contiguous", "detach")
_MAXIMA = (nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveMaxPool2d, functional.max_pool2d, torch.clamp)
_SUMS: tuple[Any, ...] = (nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, torch.mean, torch.sum)
_SUMS += (functional.avg_pool2d, functional.adaptive_avg_pool2d)
_RISING = (nn.Sigmoid, nn.Tanh, nn.Softplus, nn.ELU, torch.sigmoid, torch.tanh, functional.softplus)

RULES: dict[Any, Rule] = {
    nn.Linear: _linear,
    functional.linear: _product,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution),
    **dict.fromkeys((functional.conv1d, functional.conv2d, functional.conv3d), _product),
    **dict.fromkeys(NORMS, _normalisation),
    **dict.fromkeys((nn.ReLU, functional.relu, torch.relu, torch.relu_, "relu", "relu_"), _relu),
    nn.LeakyReLU: _leaky,
    **dict.fromkeys(_RISING, _rises),
    **dict.fromkeys((*_MAXIMA, nn.Hardtanh, nn.ReLU6, "clamp"), _picks),
    **dict.fromkeys((*_SUMS, "mean", "sum"), _sum),
    **dict.fromkeys((*_FLAT, "flatten", "view", "reshape", "permute", "transpose"), _moves),
    **dict.fromkeys(_SAME, _identity),
    **dict.fromkeys((functional.dropout, functional.dropout2d), _dropped),
    **dict.fromkeys((torch.cat, torch.stack), _joined),
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), _add),
    **dict.fromkeys((operator.sub, torch.sub, "sub"), partial(_add, sign=-1)),
    **dict.fromkeys((operator.mul, torch.mul, "mul"), _scale),
    **dict.fromkeys((operator.truediv, torch.div, "div"), _divide),
    **dict.fromkeys((operator.neg, torch.neg, "neg"), _negated),
    **dict.fromkeys((getattr, "size", "dim"), _asked),
}

# Of these rules, linear bounds are made.
AFFINE = {_linear, _convolution, _product, _normalisation, _sum, _moves, _identity, _dropped}
RECTIFIERS = {_relu}
