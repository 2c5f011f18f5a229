"""Models of a user: built by a function or class of theirs, `package.module:factory`."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ccat.extensions import is_name, resolve

SHAPE = ("channels", "size", "classes")
OTHER_NAMES = {"channels": "in_chans", "size": "img_size", "classes": "num_classes"}  # as in timm


def build_external(name: str, arguments: Mapping[str, Any], seed: int) -> nn.Module:
    """Call a user's factory and return its module, with the initial weights that it chose.

    PyTorch's global CPU generator is seeded while the factory runs and restored afterwards. The
    module remembers how it was made in `architecture` (the name) and `arguments` (the keywords).

    Args:
        name: `package.module:factory`, which has to be trusted (see `ccat.extensions`).
        arguments: Keywords for the factory. `channels`, `size` and `classes` are passed as
            `in_chans`, `img_size` and `num_classes` where it has only such a parameter, and left
            out where it has neither.
        seed: Decides the initial weights.

    Raises:
        UntrustedError: If nobody has trusted the name.
        ValueError: If the name cannot be imported, or its factory does not return a module.
    """
    factory = resolve(name)
    if isinstance(factory, nn.Module) or not callable(factory):
        raise ValueError(
            f"{name} is an object of type {type(factory).__name__}: name a function or class that "
            "returns the model"
        )
    passed = _accepted(name, factory, arguments)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            model = factory(**passed)
        except (Exception, SystemExit) as failed:  # a user's code may raise anything
            raise ValueError(
                f"{name}({_written(passed)}) raised {type(failed).__name__}: {failed}"
            ) from failed
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"{name}({_written(passed)}) returned an object of type {type(model).__name__}: it has "
            "to return an nn.Module that maps images (N, C, H, W) in [0,1] to logits (N, K)"
        )
    _remember(model, name, passed)
    return model


def require_shapes(name: str, model: nn.Module) -> None:
    """Raise ValueError if lazy layers of the model have no weights before the first image."""
    lazy = [key for key, weight in model.named_parameters() if is_lazy(weight)]
    if lazy:
        raise ValueError(
            f"{name} returned a model with lazy layers, whose weights ({lazy[0]}) do not exist "
            "before the first image and would not depend on the seed: give these layers their sizes"
        )


def _accepted(
    name: str, factory: Callable[..., object], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the factory has parameters for; raise ValueError if the rest cannot fit."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # of functions written in C
        return {key: value for key, value in arguments.items() if key not in SHAPE}
    by_keyword = {
        key
        for key, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_all = any(one.kind == one.VAR_KEYWORD for one in signature.parameters.values())
    passed = {}
    for key, value in arguments.items():
        other = OTHER_NAMES.get(key)
        if other in by_keyword and key not in by_keyword:
            passed[other] = value
        elif takes_all or key in by_keyword or key not in SHAPE:
            passed[key] = value
    try:
        signature.bind(**passed)
    except TypeError as wrong:
        raise ValueError(
            f"{name} cannot be called with ({_written(passed)}): {wrong}. ccat passes channels, "
            "classes and, for square images, size, by keyword and where the factory has such a "
            "parameter (or in_chans, num_classes, img_size); other parameters need defaults"
        ) from wrong
    return passed


def _remember(model: nn.Module, name: str, arguments: dict[str, Any]) -> None:
    """Set `architecture` and `arguments` on the instance, unless it has other uses for them."""
    if not _has_ours(model):
        for key in ("architecture", "arguments"):
            if hasattr(type(model), key) or hasattr(model, key):
                raise ValueError(
                    f"{name} returned a {type(model).__name__} that has an attribute `{key}` of "
                    "its own, which is where ccat remembers how a model was made: rename it"
                )
    model.architecture, model.arguments = name, arguments  # type: ignore[assignment]


def _has_ours(model: nn.Module) -> bool:
    """Return True if these attributes are ccat's: of its own networks, or set here before."""
    architecture = inspect.getattr_static(model, "architecture", None)  # calls no property
    arguments = inspect.getattr_static(model, "arguments", None)
    if not (isinstance(architecture, str) and isinstance(arguments, dict)):
        return False
    networks = (base.__module__.startswith("ccat.models.") for base in type(model).__mro__)
    return is_name(architecture) or any(networks)


def _written(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
