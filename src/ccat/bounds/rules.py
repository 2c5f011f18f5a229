"""What each known layer makes of an interval: `RULES`, by its type, function or method.

To bound a layer of your own, write it of these, or add its rule here. A type is matched exactly: a
subclass may compute something else, and is looked into instead.
"""

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccat.bounds.interval import Interval, affine, monotone, rectified
from ccat.bounds.layers import (
    NORMS,
    Arithmetic,
    batch_norm,
    convolution,
    linear,
    product,
)

Rule = Callable[..., Any]  # (Arithmetic, what is called, its arguments) -> Interval or Product
FOLDED = {*NORMS}  # what takes a Product as it is; everything else takes it computed


def _pool(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound an average over windows."""
    named = vars(layer) if isinstance(layer, nn.Module) else b
    if (named.get("divisor_override") or 1) < 0 or len(a) > 5:
        raise ValueError("its divisor is negative, or not given by name")
    call = partial(_called, layer, a, b)
    return affine(x, call, call, how.error(x.centre[0, 0].numel()))


def _sum(
    how: Arithmetic,
    layer: Callable[..., Tensor],
    x: Interval,
    dim: Any = None,
    keepdim: bool = False,
) -> Interval:
    """Bound a sum or a mean over axes, none of which is that of the images."""
    axes = [dim] if isinstance(dim, int) else list(dim or [0])
    if any(axis % x.centre.ndim == 0 for axis in axes):
        raise ValueError("it mixes the images of a batch: no bound holds for one of them")

    def call(value: Tensor) -> Tensor:
        return layer(value, dim, keepdim)

    return affine(x, call, call, how.error(x.centre[0].numel()))


def _rises(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound a function that rises with its input; the functions of curves round a little."""
    if isinstance(layer, nn.ELU) and layer.alpha < 0:
        raise ValueError(f"with alpha {layer.alpha} it does not rise")
    softplus = isinstance(layer, nn.Softplus) or layer is functional.softplus
    if softplus and (a or b or (isinstance(layer, nn.Softplus) and _odd(layer))):
        raise ValueError("with a beta or threshold of its own it may fall")
    return monotone(x, partial(_called, layer, a, b)).widened(how.error(8))


def _odd(layer: nn.Softplus) -> bool:
    return layer.beta != 1 or layer.threshold < 20


def _picks(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound a function that returns some of its inputs, or limits them by constants."""
    return monotone(x, partial(_called, layer, a, b)).widened(how.unit)


def _moves(how: Arithmetic, layer: Callable[..., Tensor], x: Interval, *a: Any, **b: Any) -> Any:
    """Bound a function that only moves entries elsewhere."""
    return Interval(_called(layer, a, b, x.centre), _called(layer, a, b, x.radius))


def _called(layer: Callable[..., Tensor], a: Any, b: Any, value: Tensor) -> Tensor:
    return layer(value, *a, **b)


def _relu(how: Arithmetic, layer: object, x: Interval, *_: Any, **__: Any) -> Interval:
    return rectified(x)


def _identity(how: Arithmetic, layer: object, x: Interval, *_: Any, **__: Any) -> Interval:
    return x


def _dropout(how: Arithmetic, layer: nn.Module, x: Interval) -> Interval:
    return _dropped(how, layer, x, training=layer.training)


def _dropped(
    how: Arithmetic,
    layer: object,
    x: Interval,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Interval:
    if training and not how.training:
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
    constant = torch.as_tensor(value, dtype=torch.float64) if isinstance(value, float) else value
    constant = torch.as_tensor(constant)
    return Interval(constant, torch.zeros_like(constant))


def _asked(how: Arithmetic, function: Callable[..., Any], x: Interval, *a: Any) -> Any:
    """Answer what a shape is."""
    found = function(x.centre, *a)
    if isinstance(found, Tensor):
        raise ValueError(f"{a[0]} is a value, not a shape")
    return found


_FLAT: tuple[Any, ...] = (nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle)
_FLAT += (torch.flatten, torch.reshape, torch.permute, torch.transpose, torch.squeeze)
_MOVING = ("flatten", "view", "reshape", "permute", "transpose", "detach")
_SAME = (nn.Identity, "contiguous")
_MAXIMA = (nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveMaxPool2d, functional.max_pool2d, torch.clamp)
_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
_POOLS += (functional.avg_pool2d, functional.adaptive_avg_pool2d)  # type: ignore[assignment]
_RISING = (nn.Sigmoid, nn.Tanh, nn.Softplus, nn.ELU, torch.sigmoid, torch.tanh, functional.softplus)

RULES: dict[Any, Rule] = {
    nn.Linear: linear,
    functional.linear: product,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), convolution),
    **dict.fromkeys((functional.conv1d, functional.conv2d, functional.conv3d), product),
    **dict.fromkeys(NORMS, batch_norm),
    **dict.fromkeys((nn.ReLU, functional.relu, torch.relu, torch.relu_, "relu", "relu_"), _relu),
    nn.LeakyReLU: _leaky,
    **dict.fromkeys(_RISING, _rises),
    **dict.fromkeys((*_MAXIMA, nn.Hardtanh, nn.ReLU6, "clamp"), _picks),
    **dict.fromkeys(_POOLS, _pool),
    **dict.fromkeys((torch.mean, torch.sum, "mean", "sum"), _sum),
    **dict.fromkeys((*_FLAT, *_MOVING), _moves),
    **dict.fromkeys(_SAME, _identity),
    **dict.fromkeys((nn.Dropout, nn.Dropout2d), _dropout),
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
AFFINE = {linear, convolution, product, batch_norm, _pool, _sum, _moves, _identity}
AFFINE |= {_dropout, _dropped}
RECTIFIERS = {_relu}

# These may return a view of their input.
VIEWS = {key for key, rule in RULES.items() if rule in (_moves, _identity, _dropout, _dropped)}
