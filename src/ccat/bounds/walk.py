"""The walk of an interval through a model, layer by layer, as torch.fx traces it."""

import copy
import operator
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from ccat.bounds.interval import Interval
from ccat.bounds.rules import FOLDED, RULES, Arithmetic, Product, computed
from ccat.models.normalised import Normalised


class NoBoundError(ValueError):
    """A model, or one of its layers, has no known bounds; the message names it."""


_graphs: WeakKeyDictionary[nn.Module, fx.Graph] = WeakKeyDictionary()


def graph_of(model: nn.Module) -> fx.Graph:
    """Return the layers of a model in evaluation mode, as torch.fx traces them; traced once.

    Raises:
        NoBoundError: If it cannot be traced, because what it computes depends on values.
    """
    if model not in _graphs:
        name = type(model).__name__
        if isinstance(model, torch.jit.ScriptModule):
            raise NoBoundError(f"{name} is compiled to TorchScript: give the original module")
        try:
            _graphs[model] = _Tracer().trace(copy.deepcopy(model).eval())
        except (fx.proxy.TraceError, TypeError, ValueError, RuntimeError, AttributeError) as why:
            first = str(why).splitlines()[0] if str(why) else type(why).__name__
            raise NoBoundError(
                f"the layers of {name} cannot be followed, because its forward decides by values "
                f"that only an image has ({first}): write it without such decisions"
            ) from why
    return _graphs[model]


class _Tracer(fx.Tracer):
    """Looks into every module but those that have a rule."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        known = type(m) in RULES or type(m) is Normalised
        return known or super().is_leaf_module(m, module_qualified_name)


def bound(model: nn.Module, x: Interval, how: Arithmetic, graph: fx.Graph | None = None) -> Any:
    """Return bounds of what a model answers to every image of an interval.

    Args:
        model: Known layers in any arrangement that torch.fx can follow.
        x: The images, of the precision of the model.
        how: Its arithmetic.
        graph: A part of its layers; by default all of them.

    Raises:
        NoBoundError: Names a layer that is not known.
    """
    if type(model) is Normalised:
        return bound(model.model, normalised(how, x, model), how, graph)
    return computed(_Walk(model, how, graph_of(model) if graph is None else graph).run(x))


class _Walk(fx.Interpreter):
    """Runs a graph on intervals instead of tensors, by the rule of each layer."""

    def __init__(self, model: nn.Module, how: Arithmetic, graph: fx.Graph) -> None:
        super().__init__(model, graph=graph)
        self.how, self.root = how, type(model).__name__
        self.extra_traceback = False  # errors keep their sentence

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self.fetch_attr(target)
        if layer._forward_hooks or layer._forward_pre_hooks:
            raise NoBoundError(
                f"layer {target} of {self.root} has hooks, which may change what it computes: "
                f"remove them"
            )
        if type(layer) is Normalised:
            return bound(layer, computed(args[0]), self.how)
        what = f"layer {target}, a {type(layer).__name__},"
        return self._applied(type(layer), layer, what, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not _has_interval((args, kwargs)):
            return super().call_function(target, args, kwargs)
        return self._applied(target, target, f"the function {target.__name__}", args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not _has_interval((args, kwargs)):
            return super().call_method(target, args, kwargs)
        called: Callable[..., Any] = getattr(Tensor, str(target))
        return self._applied(target, called, f"the method {target}", args, kwargs)

    def _applied(
        self, key: Any, called: Any, what: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Apply the rule of a layer, a function or a method."""
        if key not in RULES:
            raise NoBoundError(f"{what} of {self.root} has no rule for bounds (ccat.bounds.RULES)")
        if key not in FOLDED:
            args = fx.node.map_aggregate(args, computed)
        try:
            return RULES[key](self.how, called, *args, **kwargs)
        except (TypeError, ValueError, AttributeError) as wrong:
            raise NoBoundError(f"{what} of {self.root} has no bounds: {wrong}") from wrong


def normalised(how: Arithmetic, x: Interval, layer: Normalised) -> Interval:
    """Return the bounds of (x − mean) / std."""
    moved: Interval = RULES[operator.sub](how, operator.sub, x, layer.mean)
    scaled: Interval = RULES[operator.truediv](how, operator.truediv, moved, layer.std)
    return scaled


def _has_interval(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_interval, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_has_interval, value))
    return isinstance(value, Interval | Product)
