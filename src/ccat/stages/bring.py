"""Bringing a model that was trained elsewhere: a run that can be attacked and judged as if it had been trained here."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from ccat.attacks import PGD
from ccat.attacks.inputs import require_logits
from ccat.methods import Elsewhere
from ccat.models import MODELS, Normalised, bring_model, save_model
from ccat.recipes import LinearToZero, Probe, Recipe
from ccat.stages.shared import StageError, images_of
from ccat.store import Run
from ccat.threats import Linf, Threat

Normalisation = tuple[Sequence[float], Sequence[float]]  # mean and deviation of each channel


def bring(
    path: Path, model: str, weights: Path | None, dataset: str, normalisation: Normalisation | None, seen: Threat | None, device: str
) -> tuple[Run, float]:
    """A run of these weights, new or there already with the same ones, and its error on the first test images.

    What does not fit is refused before anything is written.
    """
    module, error = _checked(model, weights, dataset, normalisation, device)
    recipe = Recipe("elsewhere", Elsewhere(seen), 1, LinearToZero(), Probe(seen or Linf(0.03), PGD(20, 0.005)), dataset, model)
    run = Run.create(path, recipe, device)
    with run.writing():
        if not run.trained:
            run.save_model(module)
        elif not _same(run, module):
            raise StageError(f"{path} holds other weights, or another normalisation, than these: choose another directory")
    return run, error


def _checked(model: str, weights: Path | None, dataset: str, normalisation: Normalisation | None, device: str) -> tuple[nn.Module, float]:
    images = images_of(dataset, "test")
    classes = int(max(images.y.max(), images_of(dataset, "train").y.max())) + 1
    channels, size = images.x.shape[1], images.x.shape[2]
    arguments = {} if model not in MODELS else {"channels": channels, "classes": classes} | ({"size": size} if model == "lenet" else {})
    module = bring_model(model, weights, **arguments)
    if normalisation is not None:
        module = Normalised(module, *normalisation)
    first = images[:500]
    try:
        with torch.no_grad():
            logits = module.to(device)(first.floats().to(device)).cpu()
    except (RuntimeError, ValueError) as wrong:
        raise StageError(f"{model} cannot take the images of {dataset}, {channels}x{size}x{images.x.shape[3]}: {wrong}") from wrong
    require_logits(logits, first.y)
    if not logits.isfinite().all():
        raise StageError(f"{model} gives logits that are not finite on the test images of {dataset}")
    error = (logits.argmax(1) != first.y).double().mean().item()
    if error > 1 - 1.5 / classes:
        warnings.warn(
            f"{100 * error:.0f} % of the first test images are wrong, about what guessing gives: is a --mean and --std missing?",
            stacklevel=2,
        )
    return module.cpu(), error


def _same(run: Run, module: nn.Module) -> bool:
    with TemporaryDirectory() as folder:
        save_model(module, Path(folder) / "model.safetensors")
        return (Path(folder) / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()
