"""Smoothed rectifiers, and limits and rounding that pass gradients on where a model's own are dead.

A rectifier max(z, 0) that is off passes no gradient on; where all of a layer are off, nothing can
be climbed. Its smooth version w·softplus(z/w) has a gradient everywhere and tends to the rectifier
as w falls to zero. Beyond a limit (clamp, hardtanh) there is no gradient either: limits are
computed as they are and differentiated with the slope of such smooth rectifiers, σ((z − low)/w)
times σ((high − z)/w). Rounding passes no gradient on anywhere; as in BPDA (Athalye et al. 2018), it
is computed as it is and differentiated as if it were not there.

All are used to find directions only: no result is ever scored by them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_RECTIFIERS = {
    functional.relu,
    functional.relu_,
    torch.relu,
    torch.relu_,
    Tensor.relu,
    Tensor.relu_,
}


def _named(where: Any, *names: str) -> set[Any]:
    """Return functions and their versions in place, as functions and as methods."""
    ends = ("", "_")
    return {
        getattr(where, name + end) for name in names for end in ends if hasattr(where, name + end)
    }


_BOTH = (("min", None), ("max", None))
_LIMITS: dict[Any, tuple[tuple[str, float | None], ...]] = {  # arguments after the input
    **dict.fromkeys(_named(torch, "clamp", "clip") | _named(Tensor, "clamp", "clip"), _BOTH),
    **dict.fromkeys(_named(torch, "clamp_min") | _named(Tensor, "clamp_min"), _BOTH[:1]),
    **dict.fromkeys(_named(torch, "clamp_max") | _named(Tensor, "clamp_max"), _BOTH[1:]),
    **dict.fromkeys(_named(functional, "hardtanh"), (("min_val", -1.0), ("max_val", 1.0))),
    functional.relu6: (),
}
_ROUNDING = {
    getattr(where, f"{name}{end}")
    for name in ("round", "floor", "ceil", "trunc", "fix", "sign")
    for where, end in ((torch, ""), (Tensor, ""), (Tensor, "_"))
}


class _Smoothing(TorchFunctionMode):
    """Replaces every rectifier, limit and rounding of a model, as a module or as a function."""

    def __init__(self, width: float) -> None:
        super().__init__()
        self.width = width

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if function in _RECTIFIERS:
            return _smooth(args[0] if args else named["input"], self.width)
        if function in _LIMITS:
            return _limited(function, args, named, self.width)
        if function in _ROUNDING:
            z = args[0] if args else named.pop("input")
            rounded = function(z.detach().clone(), *args[1:], **named)
            return _PassedThrough.apply(z, rounded)  # type: ignore[no-untyped-call]
        return function(*args, **named)


def _smooth(z: Tensor, width: float) -> Tensor:
    """Return w·softplus(z/w), with w a share of the root mean square of z over each example."""
    out: Tensor = _Softplus.apply(z, width * _size(z.detach()))  # type: ignore[no-untyped-call]
    return out


def _limited(
    function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], width: float
) -> Tensor:
    """Limit an input exactly, with a derivative that is smooth across its limits."""
    z: Tensor = args[0] if args else named.pop("input")
    if "out" in named or not z.requires_grad:
        exact: Tensor = function(z, *args[1:], **named)
        return exact
    given = {**dict(_LIMITS[function]), **named}
    given.update(zip(dict(_LIMITS[function]), args[1:], strict=False))
    if function is functional.relu6:
        given = {"min": 0.0, "max": 6.0}
    values = z.detach().clone()
    scale = width * _size(values)
    slope = torch.ones_like(values)
    for end, sign in (("min", 1), ("max", -1)):
        limit = given.get(end, given.get(f"{end}_val"))
        if limit is not None:
            slope = slope * (sign * (values - limit) / scale).sigmoid()
    limited = function(values, *args[1:], **named)
    in_place = limited is values
    out: Tensor = _Sloped.apply(z, limited, slope)  # type: ignore[no-untyped-call]
    if in_place:
        z.copy_(out)
    return z if in_place else out


def _size(values: Tensor) -> Tensor:
    """Return the root mean square of each example, with as many axes, and above zero."""
    if values.ndim <= 1:
        return values.abs().clamp_min(1e-6)
    places = tuple(range(1, values.ndim))
    length: Tensor = torch.linalg.vector_norm(values, dim=places, keepdim=True)
    return (length / math.sqrt(values[:1].numel())).clamp_min(1e-6)


class _Softplus(torch.autograd.Function):
    """w·softplus(z/w), whose derivative is the logistic function of z/w; w is a constant."""

    @staticmethod
    def forward(context: Any, z: Tensor, scale: Tensor) -> Tensor:
        ratio = z / scale
        context.save_for_backward(ratio)
        return functional.softplus(ratio).mul_(scale)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (ratio,) = context.saved_tensors
        return ratio.sigmoid().mul_(gradients[0]), None


class _Sloped(torch.autograd.Function):
    """What a limit makes of z, with a slope of its own."""

    @staticmethod
    def forward(context: Any, z: Tensor, limited: Tensor, slope: Tensor) -> Tensor:
        context.save_for_backward(slope)
        return limited.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = context.saved_tensors
        return slope * gradients[0], None, None


class _PassedThrough(torch.autograd.Function):
    """What rounding makes of z, with the derivative of z."""

    @staticmethod
    def forward(context: Any, z: Tensor, rounded: Tensor) -> Tensor:
        return rounded

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


@contextmanager
def smoothed(width: float) -> Iterator[None]:
    """Smooth rectifiers and limits, and pass rounding through, inside this context.

    A width of 0 changes nothing.

    Models compiled to TorchScript keep theirs.
    """
    if width == 0:
        yield
        return
    with _Smoothing(width):
        yield
