"""Weights on disk: safetensors that also hold the architecture and the arguments of the model."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ccat import sealed
from ccat.extensions import is_name
from ccat.files import write_whole
from ccat.models.errors import ModelFileError
from ccat.models.normalised import Normalised
from ccat.models.registry import MODELS, build_model, is_model_name

SCHEMA = 2


def save_model(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write the weights of a model, its architecture, arguments and normalisation to one file.

    The file is written as a whole or not at all, and equal models make equal files.

    Args:
        model: A model of `create_model`, `load_model` or `import_model`, or `Normalised` of one.
        path: Usually ends in `.safetensors`.

    Raises:
        ValueError: If the model does not know how it was made.
    """
    write_whole(Path(path), sealed.pack(*described(model)))


def described(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights of a model, and what has to be known to build it again.

    Raises:
        ValueError: If the model does not know how it was made.
    """
    normalised = isinstance(model, Normalised) and not hasattr(model, "architecture")
    inside: nn.Module = model.model if normalised else model  # type: ignore[assignment]
    name: Any = getattr(inside, "architecture", None)
    if not (isinstance(name, str) and is_model_name(name) and hasattr(inside, "arguments")):
        raise ValueError(
            f"save_model stores models that create_model, load_model or import_model made, "
            f"not this {type(inside).__name__}: use torch.save, or make it with "
            "create_model('package.module:factory', ...)"
        )
    about = {"schema": SCHEMA, "architecture": name, "arguments": inside.arguments}
    if normalised:
        about |= {key: getattr(model, key).flatten().tolist() for key in ("mean", "std")}
    return inside.state_dict(), about


def weights_sha256(model: nn.Module) -> str:
    """Return the SHA-256 of the file that `save_model` makes of a model.

    Of a model that `save_model` does not store, it is that of a file of its tensors alone.
    """
    try:
        weights, about = described(model)
    except ValueError:
        weights, about = {**dict(model.named_parameters()), **dict(model.named_buffers())}, {}
    return sha256(sealed.pack(weights, about)).hexdigest()


def load_model(path: str | os.PathLike[str], factory: str | None = None) -> nn.Module:
    """Load a model as `save_model` stored it, on the CPU and in evaluation mode.

    Weights are data, and reading them runs no code: a file that names a factory of a user is loaded
    only if that factory is given here too, and trusted.

    Args:
        path: A file of `save_model`.
        factory: The `package.module:factory` that the file may name.

    Raises:
        ModelFileError: If the file is missing, damaged, of another version, or does not fit.
        UntrustedError: If nobody has trusted the factory (`ccat.extensions.trust`).
    """
    about, tensors = read_weights(path)
    if "classifier" in about:
        raise ModelFileError(f"{path} holds a classifier that rejects: ccat.load(path) loads it")
    return built(path, about, tensors, factory)


def built(
    path: str | os.PathLike[str],
    about: dict[str, Any],
    tensors: dict[str, Tensor],
    factory: str | None,
) -> nn.Module:
    """Build the model that `described` described, in evaluation mode; see `load_model`."""
    name = about.get("architecture", "")
    if isinstance(name, str) and is_name(name) and name != factory:
        raise ModelFileError(
            f"{path} needs {name}, which is not part of ccat: "
            f"load_model(path, factory={name!r}) calls it"
        )
    if not (isinstance(name, str) and is_model_name(name)):
        raise ModelFileError(
            f"{path} holds the architecture {name!r}; ccat knows {', '.join(MODELS)}"
        )
    try:
        model = build_model(name, dict(about["arguments"]))
    except (KeyError, TypeError, ValueError) as wrong:
        raise ModelFileError(
            f"{path} holds a {name} that cannot be built: {_first_lines(wrong)}"
        ) from wrong
    try:
        dtype = next(value.dtype for value in tensors.values() if value.is_floating_point())
        model.to(dtype).load_state_dict(tensors)
        if "mean" in about:
            model = Normalised(model, about["mean"], about["std"])
    except (KeyError, TypeError, ValueError, RuntimeError, StopIteration) as wrong:
        raise ModelFileError(
            f"the weights in {path} do not fit the {name} it says it holds ({_first_lines(wrong)})"
        ) from wrong
    return model.eval()


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the metadata and the tensors of a file of this version."""
    try:
        tensors, about = sealed.unpack(sealed.read_plain(Path(path).resolve()))
        schema = about.get("schema")
    except FileNotFoundError:
        raise ModelFileError(f"there is no weights file {path}") from None
    except sealed.NotSealedError as other:
        schema = other.schema
    except (OSError, ValueError) as broken:
        raise ModelFileError(
            f"{path} is damaged or not a safetensors file ({broken}); save or copy it again"
        ) from broken
    else:
        if schema == SCHEMA:
            return about, tensors
    if not isinstance(schema, int) or schema == SCHEMA:
        raise ModelFileError(
            f"{path} was not written by ccat: `ccat import` reads weights from elsewhere"
        )
    if schema < SCHEMA:
        raise ModelFileError(
            f"{path} was written by an older version of ccat (schema {schema}, this version reads "
            f"{SCHEMA}): train the model again, or import its original weights again"
        )
    raise ModelFileError(
        f"{path} was written by a newer version of ccat (schema {schema}, this version reads "
        f"{SCHEMA}): upgrade ccat"
    )


def _first_lines(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines()[:3])
