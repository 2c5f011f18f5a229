"""Linear bounds: tighter than intervals, for chains of affine layers and rectifiers.

Between −l and u a rectifier lies below the line through its ends and above a line of slope 0 or 1
(CROWN, Zhang et al. 2018; Wong & Kolter 2018). Replacing each rectifier by these lines, from the
last to the first, turns any weighted sum of later values into one of pixels, whose largest value
over a box is known. The bounds before every rectifier come from the same procedure, one layer
after the other, so this takes hundreds of times as long as intervals. What a model does to pixels
before its first affine layer, such as a curve or a normalisation, is bounded by intervals, which
are exact for single pixels.

Images are bounded one at a time. Shapes: a row of weights `rows` (R, …) for each sum that is
bounded, the rest of its shape that of the values that are summed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from ccat.bounds.interval import Interval, rectified
from ccat.bounds.layers import Arithmetic
from ccat.bounds.rules import AFFINE, RECTIFIERS, RULES
from ccat.bounds.walk import NoBoundError, bound, graph_of, key_of, normalised
from ccat.models.normalised import Normalised


def linear_differences(model: nn.Module, x: Interval, how: Arithmetic) -> Tensor:
    """Return u (1, K, K) with z_t − z_j ≤ u[:, t, j] over the box of one image.

    Args:
        model: A chain of affine layers and rectifiers behind what it does to pixels, in float64.
        x: The box, (1, C, H, W).
        how: The arithmetic of the model that is bounded.

    Raises:
        NoBoundError: If the model is something else; names the layer.
    """
    while isinstance(model, Normalised) and type(model) is Normalised:
        x, model = normalised(how, x, model), model.model
    first, *graphs = _chain(model)
    x = bound(model, x, how, first)
    stages = [_stage(model, graph) for graph in graphs]
    bounded: list[_Bounded] = []
    inside = x
    for number, stage in enumerate(stages):
        now = _Bounded.of(stage, inside, how)
        if number == len(stages) - 1:
            return _pairs(model, [*bounded, now], x)
        if number:  # one affine layer is bounded exactly by an interval
            now = now.within(_tightened(bounded, now, x))
        bounded.append(now)
        inside = rectified(now.values)
    raise AssertionError("a chain has a last stage")


@dataclass(frozen=True, eq=False)
class _Bounded:
    """An affine stage, what is known of its outputs, and by how much rounding may move them.

    Attributes:
        call: The stage, on one image.
        given: An input of the stage, of any value.
        values: The interval of its outputs, before a rectifier.
        rounding: The part of it that is due to rounding.
    """

    call: Callable[[Tensor], Tensor]
    given: Tensor
    values: Interval
    rounding: Tensor

    @classmethod
    def of(cls, stage: "_Stage", inside: Interval, how: Arithmetic) -> "_Bounded":
        """Bound a stage by intervals."""
        rounded = stage.interval(inside, how)
        exact = stage.interval(inside, Arithmetic())
        return cls(stage.call, inside.centre, rounded, rounded.radius - exact.radius)

    def within(self, values: Interval) -> "_Bounded":
        """Return the same with the tighter of two bounds of its outputs."""
        lower = torch.maximum(self.values.lower, values.lower)
        upper = torch.minimum(self.values.upper, values.upper)
        return _Bounded(self.call, self.given, Interval.between(lower, upper), self.rounding)

    def before(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return sums of outputs as sums of inputs: their weights, and a constant for each."""
        with torch.enable_grad():
            given = torch.zeros_like(self.given).requires_grad_()
            out = self.call(given)
            (weights,) = torch.autograd.grad(out, given, rows[:, None], is_grads_batched=True)
        constant = _sums(rows, out.detach()) + _sums(rows.abs(), self.rounding)
        return weights[:, 0], constant

    def relaxed(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return upper bounds of sums of rectified outputs as sums of outputs, and a constant."""
        lower, upper = self.values.lower, self.values.upper
        open_ = (lower < 0) & (upper > 0)
        on = (lower >= 0).to(rows.dtype)
        slope = torch.where(open_, upper / (upper - lower).clamp_min(1e-300), on)
        below = torch.where(open_, (upper > -lower).to(rows.dtype), on)
        positive, negative = rows.clamp_min(0), rows.clamp_max(0)
        constant = _sums(positive, torch.where(open_, -lower * slope, 0))
        return positive * slope + negative * below, constant


def _upper(stages: list[_Bounded], rows: Tensor, x: Interval) -> Tensor:
    """Return upper bounds (R,) of sums of the outputs of the last stage."""
    rows, total = stages[-1].before(rows)
    for stage in reversed(stages[:-1]):
        rows, more = stage.relaxed(rows)
        rows, constant = stage.before(rows)
        total = total + more + constant
    return total + _sums(rows, x.centre) + _sums(rows.abs(), x.radius)


def _tightened(before: list[_Bounded], now: _Bounded, x: Interval) -> Interval:
    """Return linear bounds of the outputs that a rectifier may switch on or off."""
    lower, upper = now.values.lower.clone(), now.values.upper.clone()
    open_ = ((lower < 0) & (upper > 0))[0]
    units = torch.eye(int(open_.sum()), dtype=lower.dtype, device=lower.device)
    rows = torch.zeros(len(units), *open_.shape, dtype=lower.dtype, device=lower.device)
    rows[:, open_] = units
    stages = [*before, now]
    if len(units):
        upper[0, open_] = _upper(stages, rows, x)
        lower[0, open_] = -_upper(stages, -rows, x)
    return Interval.between(torch.minimum(lower, upper), upper)


def _pairs(model: nn.Module, stages: list[_Bounded], x: Interval) -> Tensor:
    logits = stages[-1].values.centre
    if logits.ndim != 2:
        raise NoBoundError(f"{type(model).__name__} does not return logits (N, K) of the images")
    units = torch.eye(logits.shape[1], dtype=logits.dtype, device=logits.device)
    rows = (units[:, None] - units[None]).flatten(0, 1)
    return _upper(stages, rows, x).view(1, *units.shape)


def _sums(rows: Tensor, values: Tensor) -> Tensor:
    return (rows * values).flatten(1).sum(1)


@dataclass(frozen=True, eq=False)
class _Stage:
    """Affine layers up to the next rectifier, as a function of tensors and of intervals."""

    call: Callable[[Tensor], Tensor]
    interval: Callable[[Interval, Arithmetic], Interval]


def _stage(model: nn.Module, graph: fx.Graph) -> _Stage:
    return _Stage(
        lambda x: fx.Interpreter(model, graph=graph).run(x),
        lambda x, how: bound(model, x, how, graph),
    )


_chains: WeakKeyDictionary[nn.Module, list[fx.Graph]] = WeakKeyDictionary()


def _chain(model: nn.Module) -> list[fx.Graph]:
    """Return the stages of a model, as graphs that end before each rectifier; found once.

    The first graph has what comes before the first affine layer or rectifier.

    Raises:
        NoBoundError: If the rest is no chain of affine layers and rectifiers.
    """
    if model not in _chains:
        _chains[model] = [_graph_with(nodes) for nodes in _stages(model, graph_of(model))]
    return _chains[model]


def _stages(model: nn.Module, graph: fx.Graph) -> list[list[fx.Node]]:
    name = type(model).__name__
    found: list[list[fx.Node]] = [[]]
    previous: fx.Node | None = None
    for node in graph.nodes:
        second = node.op == "placeholder" and previous is not None
        if second and not node.users:
            continue
        if second or node.op == "get_attr":
            raise NoBoundError(f"linear bounds of {name}: {node.target} is used in a computation")
        if len(node.users) > 1:
            raise NoBoundError(
                f"linear bounds need a chain of layers, and {name} uses the result of {node} twice"
            )
        chained = node.all_input_nodes == [previous]
        if node.op not in ("placeholder", "output"):
            rule = RULES.get(key_of(model, node))
            affine = rule in AFFINE and node.target != "detach"  # which has no gradient
            if len(found) == 1 and (affine or rule in RECTIFIERS):
                found.append([])
            if chained and rule in RECTIFIERS:
                found.append([])
            elif chained and (affine or len(found) == 1) and node.args[:1] == (previous,):
                found[-1].append(node)
            else:
                raise NoBoundError(
                    f"linear bounds know affine layers and rectifiers in a chain; {node} of {name} "
                    f"is neither"
                )
        elif node.op == "output" and not chained:
            raise NoBoundError(f"linear bounds: {name} returns something else than its last layer")
        previous = node
    return found if len(found) > 1 else [*found, []]


def _graph_with(nodes: list[fx.Node]) -> fx.Graph:
    """Return the graph of some nodes of a chain."""
    graph = fx.Graph()
    last = graph.placeholder("x")
    for node in nodes:
        last = graph.node_copy(node, lambda _, last=last: last)  # type: ignore[misc]
    graph.output(last)
    return graph
