"""Upper bounds of differences of logits, z_t − z_j, over all images of an interval.

Where the last layer is linear it is merged into the differences, (w_t − w_j)·φ, which is tighter
than the difference of two bounds, and exact for a model of one affine layer.

Shapes: logits (N, K), differences (N, K, K).
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from ccat.bounds.interval import Interval
from ccat.bounds.layers import Arithmetic
from ccat.bounds.walk import NoBoundError, bound, graph_of
from ccat.models.normalised import Normalised


def differences(model: nn.Module, x: Interval, how: Arithmetic) -> Tensor:
    """Return u (N, K, K) with z_t − z_j ≤ u[:, t, j] over the interval; u[:, t, t] = 0.

    Args:
        model: Maps images to logits, by known layers.
        x: The images.
        how: The arithmetic of the model.
    """
    features, last = _before_last(model, x, how)
    if last is None:
        columns = features.upper[:, :, None] - features.lower[:, None, :]
    else:
        rounding = _rounding(features, last, how)
        columns = torch.stack(
            [_towards(features, last, t) + rounding[:, t, None] + rounding for t in _classes(last)],
            1,
        )
    diagonal = torch.arange(columns.shape[1], device=columns.device)
    columns[:, diagonal, diagonal] = 0
    return columns


def against_label(model: nn.Module, x: Interval, y: Tensor, how: Arithmetic) -> Tensor:
    """Return v (N, K) with z_k − z_y ≤ v[:, k] over the interval; v is 0 at the label.

    These are the worst-case logits of interval bound propagation (Gowal et al. 2018, equation 11),
    up to a constant. The gradient reaches the weights.
    """
    features, last = _before_last(model, x, how)
    rows = torch.arange(len(y), device=y.device)
    if last is None:
        worst = features.upper - features.lower[rows, y][:, None]
        return worst.index_put((rows, y), torch.zeros_like(worst[:, 0]))
    logits = functional.linear(features.centre, last.weight, last.bias)
    return logits - logits[rows, y][:, None] + _spread(features.radius, last.weight, y)


def _spread(radius: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    """Return |w_k − w_y| · radius (N, K), class by class, which needs no weights per example."""
    order = y.argsort()
    counts = torch.bincount(y, minlength=len(weight)).tolist()
    of_class = torch.split(radius[order], counts)
    parts = [part @ (weight - own).abs().T for part, own in zip(of_class, weight, strict=True)]
    return torch.cat(parts)[order.argsort()]


def _towards(features: Interval, last: nn.Linear, t: int) -> Tensor:
    """Return upper bounds (N, K) of z_t − z_j, without rounding."""
    weight = last.weight[t] - last.weight
    upper = features.centre @ weight.T + features.radius @ weight.abs().T
    return upper if last.bias is None else upper + last.bias[t] - last.bias


def _rounding(features: Interval, last: nn.Linear, how: Arithmetic) -> Tensor:
    """Return by how much each logit (N, K) may be off through rounding in the last layer."""
    size = (features.centre.abs() + features.radius) @ last.weight.abs().T
    size = size if last.bias is None else size + last.bias.abs()
    return how.error(last.in_features) * size


def _classes(last: nn.Linear) -> range:
    return range(last.out_features)


@dataclass(frozen=True)
class _Split:
    """The layers of a model before its last, linear one, and the name of that; None: all layers."""

    before: fx.Graph
    last: str | None


_splits: WeakKeyDictionary[nn.Module, _Split] = WeakKeyDictionary()


def _before_last(
    model: nn.Module, x: Interval, how: Arithmetic
) -> tuple[Interval, nn.Linear | None]:
    """Return bounds of what goes into the last linear layer, and that layer; else of the logits."""
    inner = model
    while type(inner) is Normalised:
        inner = inner.model
    split = _split(inner)
    out = bound(model, x, how, split.before)
    if not isinstance(out, Interval) or out.centre.ndim != 2:
        raise NoBoundError(f"{type(inner).__name__} does not return logits (N, K) of the images")
    last = None if split.last is None else inner.get_submodule(split.last)
    assert last is None or isinstance(last, nn.Linear)
    return out, last


def _split(model: nn.Module) -> _Split:
    if model not in _splits:
        graph = graph_of(model)
        (output,) = (node for node in graph.nodes if node.op == "output")
        last = output.args[0]
        linear = (
            isinstance(last, fx.Node)
            and last.op == "call_module"
            and type(model.get_submodule(str(last.target))) is nn.Linear
            and len(last.users) == 1
        )
        _splits[model] = (
            _Split(_without(graph, last), str(last.target)) if linear else _Split(graph, None)
        )
    return _splits[model]


def _without(graph: fx.Graph, last: fx.Node) -> fx.Graph:
    """Return a copy of a graph that ends with what goes into its last layer."""
    short, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in graph.nodes:
        if node is not last and node.op != "output":
            copies[node] = short.node_copy(node, lambda one: copies[one])
    short.output(copies[last.args[0]])  # type: ignore[index]
    return short
