"""The walk of an interval through a model, layer by layer, as torch.fx traces it."""

import copy
import operator
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn
from torch.nn.modules import module as modules

from ccat.bounds.interval import Interval
from ccat.bounds.layers import Arithmetic, Product, computed
from ccat.bounds.rules import FOLDED, RULES, VIEWS
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
        _require_plain(model)
        name, twin = type(model).__name__, copy.deepcopy(model).eval()
        try:
            graph = _Tracer().trace(twin)
        except (fx.proxy.TraceError, TypeError, ValueError, RuntimeError, AttributeError) as why:
            first = str(why).splitlines()[0] if str(why) else type(why).__name__
            raise NoBoundError(
                f"the layers of {name} cannot be followed, because its forward decides by values "
                f"that only an image has ({first}): write it without such decisions"
            ) from why
        _require_no_overwriting(model, graph)
        for constant in [key for key in vars(twin) if key.startswith("_tensor_constant")]:
            setattr(model, constant, getattr(twin, constant))  # made while tracing
        _graphs[model] = graph
    return _graphs[model]


def _require_plain(model: nn.Module) -> None:
    """Raise a NoBoundError if calling a module may do something else than its forward says."""
    if modules._global_forward_hooks or modules._global_forward_pre_hooks:
        raise NoBoundError("hooks on all modules may change what they compute: remove them")
    for name, module in model.named_modules():
        where = f"layer {name} of {type(model).__name__}" if name else type(model).__name__
        if isinstance(module, torch.jit.ScriptModule):
            raise NoBoundError(f"{where} is compiled to TorchScript: give the original module")
        if module._forward_hooks or module._forward_pre_hooks:
            raise NoBoundError(f"{where} has hooks, which may change what it computes: remove them")
        if "forward" in vars(module) or type(module).__call__ is not nn.Module.__call__:
            raise NoBoundError(
                f"{where} has a forward or a call of its own beside that of its class: its layers "
                f"cannot be followed"
            )


def _require_no_overwriting(model: nn.Module, graph: fx.Graph) -> None:
    """Raise a NoBoundError if an operation in place changes what another layer still reads."""
    for node in graph.nodes:
        source = node.args[0] if node.args else None
        if not _in_place(model, node) or not isinstance(source, fx.Node):
            continue
        while isinstance(source, fx.Node):
            if len(source.users) > 1 or not node.users:
                raise NoBoundError(
                    f"{node} of {type(model).__name__} works in place on what is read elsewhere: "
                    f"write it without that"
                )
            parent = source.args[0] if source.args and key_of(model, source) in VIEWS else None
            source = parent if isinstance(parent, fx.Node) else None


def _in_place(model: nn.Module, node: fx.Node) -> bool:
    if node.op == "call_module":
        return bool(vars(model.get_submodule(str(node.target))).get("inplace"))
    named = node.op == "call_method" and str(node.target).endswith("_")
    function = node.target in (operator.iadd, operator.isub, operator.imul, torch.relu_)
    return named or function or bool(node.kwargs.get("inplace"))


def key_of(model: nn.Module, node: fx.Node) -> object:
    """Return what the rule of a node is known by: a type, a function, or the name of a method."""
    if node.op == "call_module":
        return type(model.get_submodule(str(node.target)))
    return node.target


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
        try:
            if key not in FOLDED:
                args, kwargs = (fx.node.map_aggregate(part, computed) for part in (args, kwargs))  # type: ignore[assignment]
            return RULES[key](self.how, called, *args, **kwargs)
        except (TypeError, ValueError, AttributeError, RuntimeError, IndexError) as wrong:
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
