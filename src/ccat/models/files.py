"""Weights on disk: safetensors with architecture and arguments inside, so that a file can be loaded without knowing either."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from ccat.files import write_whole
from ccat.models.errors import ModelFileError
from ccat.models.normalised import Normalised
from ccat.models.published import foreign
from ccat.models.table import MODELS

SCHEMA = 1


def save_model(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes weights, architecture and arguments; the file is whole or not there."""
    inside = model.model if isinstance(model, Normalised) else model
    name: Any = getattr(inside, "architecture", "")
    if name not in MODELS and ":" not in name:
        raise ValueError(f"save_model knows {', '.join(MODELS)}, not {type(model).__name__}; `ccat import` brings modules of your own")
    about = {"schema": SCHEMA, "architecture": name, "arguments": inside.arguments}
    if isinstance(model, Normalised):
        about |= {"mean": model.mean.flatten().tolist(), "std": model.std.flatten().tolist()}
    tensors = {key: value.detach().contiguous().clone() for key, value in inside.state_dict().items()}  # weights may be shared
    write_whole(Path(path), save(tensors, {"ccat": json.dumps(about)}))  # one entry: several would be written in any order


def load_model(path: str | os.PathLike[str], factory: str | None = None) -> nn.Module:
    """The model as it was saved, on the CPU and in evaluation mode.

    A file of a module of someone's own names the factory that makes it, package.module:factory. It is only called if it is the one given
    here: weights are data, and reading them runs nothing.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("ccat", "{}"))
            about = about if isinstance(about, dict) else {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (a file is no dict)
    except FileNotFoundError:
        raise ModelFileError(f"there is no weights file {path}") from None
    except (SafetensorError, OSError, ValueError) as broken:
        raise ModelFileError(f"{path} is damaged or not a safetensors file ({broken}); save or copy it again") from broken
    if about.get("schema") != SCHEMA:
        raise ModelFileError(f"{path} was not written by this version of ccat: its schema is {about.get('schema')!r}, not {SCHEMA!r}")
    name = about.get("architecture", "")
    if isinstance(name, str) and ":" in name and name != factory:
        raise ModelFileError(f"{path} is made by {name}, which is code of your own: load_model(path, factory={name!r}) calls it")
    if name not in MODELS and name != factory:
        raise ModelFileError(f"{path} holds the architecture {name!r}; known are {', '.join(MODELS)}")
    try:
        with torch.random.fork_rng(devices=[]):
            model = foreign(name) if ":" in name else MODELS[name](**about["arguments"])
        model.to(next(value.dtype for value in tensors.values() if value.is_floating_point())).load_state_dict(tensors)
        if "mean" in about:
            model = Normalised(model, about["mean"], about["std"])
    except (KeyError, TypeError, ValueError, RuntimeError, StopIteration) as wrong:
        raise ModelFileError(f"the weights in {path} do not fit the {name} it says it holds ({_first_lines(wrong)})") from wrong
    return model.eval()


def _first_lines(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines()[:3])
