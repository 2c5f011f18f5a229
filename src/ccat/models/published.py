"""Weights of others: published checkpoints of architectures that are here too, and modules that are not.

A checkpoint is a safetensors file, or one of PyTorch's, of which only tensors are read: nothing in it is executed. Names of weights are
turned into ours by the table of the architecture, each entry a pattern of theirs and our name for it.
"""

import importlib
import json
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from ccat.models.errors import ModelFileError
from ccat.models.table import MODELS, create_model

_INSIDE = ("state_dict", "model_state_dict", "model", "net")  # where checkpoints keep weights among other things
_WRAPPERS = (r"module\.|_orig_mod\.", r"module\.|_orig_mod\.|model\.")  # before names, by parallel training, compilation and others
_UNUSED = re.compile(r"sub_block1\.")  # TRADES' wide network has it and does not use it
_PREACTIVATION = [(r"\bbn(\d)\.", r"norm\1."), (r"\bconv(\d)\.", r"convolution\1."), (r"\b(shortcut\.0|convShortcut)\.", "shortcut.")]
_FIRST_OF_STAGE = list(accumulate((0, 3, 4, 6)))


def _residual(match: re.Match[str]) -> str:
    """layer2.0.bn1. is blocks.3.residual.1. with us: stages are not nested, and there are three modules to a convolution."""
    stage, block, kind, number = int(match[1]), int(match[2]), match[3], int(match[4] or 1)
    name = f"blocks.{_FIRST_OF_STAGE[stage - 1] + block}"
    return f"{name}.shortcut." if kind in ("shortcut", "downsample") else f"{name}.residual.{3 * (number - 1) + (kind == 'bn')}."


_RESNET: list[tuple[str, Any]] = [
    (r"^layer(\d)\.(\d+)\.(conv|bn|shortcut|downsample)(\d?)\.", _residual),
    (r"^conv1\.", "stem.0."), (r"^bn1\.", "stem.1."), (r"^(linear|fc)\.", "classifier."),
]  # fmt: skip
_WIDE: list[tuple[str, Any]] = [
    (r"^conv1\.", "stem."), (r"^bn1\.", "norm."), (r"^(fc|logits)\.", "classifier."),
    (r"^block(\d)\.layer\.", lambda match: f"stages.{int(match[1]) - 1}."), *_PREACTIVATION,
]  # fmt: skip
KEYS: dict[str, list[tuple[str, Any]]] = {
    "trades-cnn": [(rf"^feature_extractor\.conv{n}\.", f"features.{ours}.") for n, ours in ((1, 0), (2, 2), (3, 5), (4, 7))]
    + [(rf"^classifier\.fc{n}\.", f"classifier.{ours}.") for n, ours in ((1, 0), (2, 3), (3, 5))],
    "msd-lenet": [(r"^([03])\.", r"features.\1."), (r"^7\.", "classifier.0."), (r"^9\.", "classifier.2.")],
    "preact-resnet18": [
        (r"^conv1\.", "stem."), (r"^bn\.", "norm."), (r"^(linear|fc)\.", "classifier."),
        (r"^layer(\d)\.", lambda match: f"stages.{int(match[1]) - 1}."), *_PREACTIVATION,
    ],
    "resnet34": _RESNET, "resnet50": _RESNET, "wrn-28-10": _WIDE, "wrn-34-10": _WIDE,
}  # fmt: skip


def bring_model(name: str, weights: str | os.PathLike[str] | None, **arguments: int) -> nn.Module:
    """A model of the table, or `package.module:factory` of one's own, with the weights of a file (without one as the factory gives it)."""
    if ":" in name:
        model = foreign(name)
    else:
        model = create_model(name, torch.Generator().manual_seed(0), **arguments)
        if weights is None:
            raise ModelFileError(f"which weights? {name} has none of its own")
    if weights is not None:
        _fill(model, read_weights(Path(weights)), KEYS.get(name, []), f"{weights} does not fit {name}")
    return model.eval()


def foreign(name: str) -> nn.Module:
    """What `package.module:factory` gives, called without arguments; the current directory is looked in too."""
    module, _, factory = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        model = getattr(importlib.import_module(module), factory)()
    except (ImportError, AttributeError, TypeError, ValueError) as wrong:
        raise ModelFileError(f"{name} cannot be made: {wrong}; it has to be package.module:factory, called without arguments") from wrong
    if not isinstance(model, nn.Module):
        raise ModelFileError(f"{name} gives a {type(model).__name__}, not an nn.Module")
    model.architecture, model.arguments = name, {}  # type: ignore[assignment]
    return model


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, wherever in it they are."""
    try:
        if path.suffix == ".safetensors":
            _tell_normalisation(path)
        loaded: Any = load_file(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ModelFileError(f"there is no weights file {path}") from None
    except (SafetensorError, OSError, EOFError, RuntimeError, ValueError, KeyError) as broken:
        raise ModelFileError(f"{path} is damaged or no checkpoint ({str(broken).splitlines()[0][:200]})") from broken
    except Exception as refused:  # pickle.UnpicklingError, and whatever else a hostile file provokes
        raise ModelFileError(
            f"{path} holds more than tensors, which is not loaded: save model.state_dict() on its own ({type(refused).__name__})"
        ) from refused
    for _ in range(3):  # so deep, at most, weights lie
        inner = [loaded[key] for key in _INSIDE if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping)]
        loaded = inner[0] if inner else loaded
    found = _tensors(loaded) if isinstance(loaded, Mapping) else {}
    if not found:
        raise ModelFileError(f"{path} holds no weights by name")
    return found


def _tell_normalisation(path: Path) -> None:
    """Files of ours may carry a normalisation, which tensors alone do not tell."""
    with safe_open(path, framework="pt") as file:
        about = json.loads((file.metadata() or {}).get("ccat", "{}"))
    if "mean" in about:
        mean, std = (",".join(f"{value:g}" for value in about[name]) for name in ("mean", "std"))
        warnings.warn(f"{path} is of a model with normalisation: --mean {mean} --std {std} would give it the same", stacklevel=2)


def _tensors(loaded: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: value for name, value in loaded.items() if isinstance(value, Tensor)}


def _fill(model: nn.Module, theirs: Mapping[str, Tensor], keys: Sequence[tuple[str, Any]], wrong: str) -> None:
    ours = model.state_dict()
    unwrapped, bare = ({re.sub(f"^({names})+", "", name): value for name, value in theirs.items()} for names in _WRAPPERS)
    named = {_renamed(name, keys): value for name, value in bare.items() if not _UNUSED.match(name)}
    renamed = next((one for one in (dict(theirs), unwrapped, bare) if set(ours) <= set(one)), named)
    counters = {name for name in ours if name.endswith("num_batches_tracked")}
    missing = [name for name in ours if name not in renamed and name not in counters]
    other = [f"{name} {tuple(value.shape)}" for name, value in renamed.items() if name not in ours]
    shapes = [
        f"{n} is {tuple(renamed[n].shape)}, not {tuple(v.shape)}" for n, v in ours.items() if n in renamed and renamed[n].shape != v.shape
    ]
    norms = [name for name in renamed if name not in ours and re.search(r"(^|\.)(mean|std|mu|sigma)$", name)]
    if norms:
        values = ", ".join(f"{name} = {[round(v, 4) for v in renamed[name].flatten().tolist()]}" for name in norms)
        warnings.warn(f"the weights come with {values}: images may have to be normalised, with --mean and --std", stacklevel=2)
    extra = [name for name in other if name.split(" ")[0] not in norms]
    if missing or shapes or extra:
        parts = {"it lacks": missing, "it has besides": extra, "of another shape:": shapes}
        raise ModelFileError(f"{wrong}: " + "; ".join(f"{what} {_few(names)}" for what, names in parts.items() if names))
    model.load_state_dict({name: renamed.get(name, value) for name, value in ours.items()})


def _renamed(name: str, keys: Sequence[tuple[str, Any]]) -> str:
    return reduce(lambda text, key: re.sub(key[0], key[1], text), keys, name)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def known(name: str) -> bool:
    """Whether a name stands for a model: one of the table, or something of the form package.module:factory."""
    return name in MODELS or bool(re.fullmatch(r"[\w.]+:\w+", name))
