"""Features: the outputs of named layers of any model, feature maps averaged over their pixels."""

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ccat.attacks import frozen


def features(model: nn.Module, layers: Sequence[str], x: Tensor) -> list[Tensor]:
    """Return the output (N, D) of each layer in evaluation mode; with a gradient if x has one.

    Raises:
        ValueError: If the model has no such layer, or it puts out neither (N, D) nor feature maps.
    """
    return features_and_logits(model, layers, x)[0]


def features_and_logits(
    model: nn.Module, layers: Sequence[str], x: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Return the outputs of layers and the logits, in one pass."""
    modules = dict(model.named_modules())
    for name in layers:
        if name not in modules or not name:
            near = difflib.get_close_matches(name, modules, n=3, cutoff=0.3)
            there = ", ".join(near or filter(None, modules))
            raise ValueError(f"the model has no layer {name!r}; there are {there}")
    found: dict[str, Tensor] = {}
    with frozen(model), _watching(model, layers, found):
        logits: Tensor = model(x)
    for name in layers:
        if name not in found:
            raise ValueError(f"layer {name!r} is not used when images go through the model")
        if found[name].ndim not in (2, 4):
            shape = tuple(found[name].shape)
            raise ValueError(
                f"layer {name!r} puts out {shape}, which is neither (N, D) nor (N, C, H, W)"
            )
    return [
        found[name].mean((2, 3)) if found[name].ndim == 4 else found[name] for name in layers
    ], logits


def usual_layers(model: nn.Module, x: Tensor) -> tuple[str, ...]:
    """Return the last module of each size of feature map, in the order in which they are used.

    For a model without feature maps, return the layer before the last one.
    """
    names = [name for name, _ in model.named_modules() if name]
    found: dict[str, Tensor] = {}
    with torch.no_grad(), frozen(model), _watching(model, names, found):
        model(x[:1])
    order = [(name, tuple(value.shape)) for name, value in found.items() if value.ndim == 4]
    last = {shape[2:]: name for name, shape in order}
    if last:
        return tuple(last.values())
    flat = [name for name, value in found.items() if value.ndim == 2]
    if not flat:
        raise ValueError(
            "no layer of the model puts out (N, D) or (N, C, H, W): name layers that do"
        )
    return tuple(flat[-2:-1] or flat)


@contextmanager
def _watching(model: nn.Module, layers: Sequence[str], found: dict[str, Tensor]) -> Iterator[None]:
    """Collect outputs by the names of their modules, in the order in which they are computed."""

    def keep(name: str, output: object) -> None:
        if isinstance(output, Tensor):
            found.pop(name, None)
            found[name] = output

    modules = dict(model.named_modules())
    handles = [
        modules[name].register_forward_hook(lambda _, __, output, name=name: keep(name, output))
        for name in layers
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
