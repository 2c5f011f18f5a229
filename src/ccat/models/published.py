"""Weights from elsewhere: published checkpoints of networks that ccat has too, or of your own.

A checkpoint is a safetensors file or one of PyTorch's, of which only tensors are read: nothing in
it is executed. Our layers have the names of the published ones; `SYNONYMS` translates the rest.
"""

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ccat.models.errors import ModelFileError
from ccat.models.registry import MODELS, build_model

SYNONYMS: list[tuple[str, str]] = [
    (r"^(linear|logits)\.", "fc."),
    (r"\bdownsample\.", "shortcut."),  # torchvision
    (r"\bconvShortcut\.", "shortcut.0."),  # wide residual networks
    (r"^sub_block1\..*", ""),  # TRADES' wide residual network holds one that it does not use
]
_INSIDE = ("state_dict", "model_state_dict", "model", "net")  # where checkpoints keep weights
_WRAPPERS = (  # prefixes of parallel training and compilation; then also those of other wrappers
    r"^(module\.|_orig_mod\.)+",
    r"^(module\.|_orig_mod\.|model\.)+",
)


def import_model(name: str, weights: str | os.PathLike[str] | None, **arguments: Any) -> nn.Module:
    """Build a model and fill it with weights that were trained elsewhere.

    Warns if the file suggests that images have to be normalised; see `Normalised`.

    Args:
        name: One of `MODELS`, or `package.module:factory` of your own, which has to be trusted
            (`ccat.extensions.trust`).
        weights: A checkpoint, as safetensors or PyTorch's; None keeps those of your factory.
        **arguments: What the network is built from; see `create_model`.

    Returns:
        The model, in evaluation mode.

    Raises:
        ModelFileError: If the file is missing, damaged, holds more than tensors, or does not fit.
        UntrustedError: If nobody has trusted the factory.
        ValueError: If there is no such model, or it cannot be built.
    """
    model = build_model(name, arguments)
    if weights is not None:
        synonyms = SYNONYMS if name in MODELS else []
        _fill(model, read_weights(Path(weights)), synonyms, f"{weights} does not fit {name}")
    elif name in MODELS:
        raise ModelFileError(f"{name} has no weights of its own: name a weights file")
    return model.eval()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint by name, also where they are nested in it.

    Raises:
        ModelFileError: If the file is missing, damaged, or holds anything but tensors.
    """
    loaded = _load(path)
    for _ in range(3):  # weights are not nested more deeply
        if isinstance(loaded, Mapping):
            inner = (loaded[key] for key in _INSIDE if isinstance(loaded.get(key), Mapping))
            loaded = next(inner, loaded)
    named = loaded.items() if isinstance(loaded, Mapping) else ()
    found = {name: value for name, value in named if isinstance(value, Tensor)}
    if not found:
        raise ModelFileError(f"{path} holds no weights by name: save model.state_dict()")
    return found


def _load(path: Path) -> Any:
    if path.exists() and not path.is_file():
        raise ModelFileError(f"{path} is not a file")
    try:
        if path.suffix == ".safetensors":
            _warn_of_normalisation(path)
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ModelFileError(f"there is no weights file {path}") from None
    except (SafetensorError, OSError, EOFError, RuntimeError, ValueError, KeyError) as broken:
        reason = str(broken).splitlines()[0][:200] if str(broken) else type(broken).__name__
        raise ModelFileError(f"{path} is damaged or not a checkpoint ({reason})") from broken
    except Exception as refused:  # pickle.UnpicklingError, or whatever a hostile file provokes
        raise ModelFileError(
            f"{path} holds more than tensors, and ccat loads nothing else: "
            f"save model.state_dict() on its own ({type(refused).__name__})"
        ) from refused


def _warn_of_normalisation(path: Path) -> None:
    """Warn if a file of `save_model` holds a normalisation, which is not among its tensors."""
    with safe_open(path, framework="pt") as file:
        about = json.loads((file.metadata() or {}).get("ccat", "{}"))
    if "mean" in about:
        mean, std = (",".join(f"{value:g}" for value in about[key]) for key in ("mean", "std"))
        warnings.warn(
            f"{path} holds a model with normalisation: pass --mean {mean} --std {std} to keep it",
            stacklevel=2,
        )


def _fill(
    model: nn.Module,
    theirs: Mapping[str, Tensor],
    synonyms: Sequence[tuple[str, str]],
    wrong: str,
) -> None:
    """Load weights into a model; raise ModelFileError, beginning with `wrong`, if they differ."""
    ours = model.state_dict()
    given = _named_like(ours, theirs, synonyms)
    extra = {name: value for name, value in given.items() if name not in ours}
    norms = [name for name in extra if re.search(r"(^|\.)(mean|std|mu|sigma)$", name)]
    if norms:
        values = ", ".join(
            f"{name} = {[round(v, 4) for v in extra.pop(name).flatten().tolist()]}"
            for name in norms
        )
        warnings.warn(
            f"the weights come with {values}: the model may need normalised images, "
            "which --mean and --std give it",
            stacklevel=2,
        )
    differences = {
        "it lacks": [
            name for name in ours if name not in given and not name.endswith("num_batches_tracked")
        ],
        "it also has": [f"{name} {tuple(value.shape)}" for name, value in extra.items()],
        "shapes differ:": [
            f"{name} is {tuple(given[name].shape)}, not {tuple(value.shape)}"
            for name, value in ours.items()
            if name in given and not is_lazy(value) and given[name].shape != value.shape
        ],
    }
    if any(differences.values()):
        parts = (f"{what} {_few(names)}" for what, names in differences.items() if names)
        raise ModelFileError(f"{wrong}: {'; '.join(parts)}")
    model.load_state_dict({name: given.get(name, value) for name, value in ours.items()})


def _named_like(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], synonyms: Sequence[tuple[str, str]]
) -> dict[str, Tensor]:
    """Return their weights under our names, changing as little of theirs as is needed to fit."""
    unwrapped, bare = (
        {re.sub(prefix, "", name): value for name, value in theirs.items()} for prefix in _WRAPPERS
    )
    for candidate in (dict(theirs), unwrapped, bare):
        if set(ours) <= set(candidate):
            return candidate
    translated = {_translated(name, synonyms): value for name, value in bare.items()}
    return {name: value for name, value in translated.items() if name}


def _translated(name: str, synonyms: Sequence[tuple[str, str]]) -> str:
    for pattern, replacement in synonyms:
        name = re.sub(pattern, replacement, name)
    return name


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
