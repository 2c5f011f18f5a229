"""Bringing a model that was trained elsewhere: a run that can be attacked and judged as if it had been trained here."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from ccat.attacks import PGD
from ccat.attacks.inputs import require_logits
from ccat.methods import Elsewhere
from ccat.models import MODELS, Normalised, bring_model
from ccat.recipes import LinearToZero, Probe, Recipe
from ccat.stages.shared import StageError, images_of
from ccat.store import Run
from ccat.threats import Linf, Threat

Normalisation = tuple[Sequence[float], Sequence[float]]  # mean and deviation of each channel


def bring(
    path: Path, model: str, weights: Path | None, dataset: str, normalisation: Normalisation | None, seen: Threat | None, device: str
) -> tuple[Run, float]:
    """A new run of these weights, and its error on the first test images. What does not fit is refused before anything is written."""
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
    recipe = Recipe("elsewhere", Elsewhere(seen), 1, LinearToZero(), Probe(seen or Linf(0.03), PGD(20, 0.005)), dataset, model)
    run = Run.create(path, recipe, device)
    with run.writing():
        if run.trained:
            raise StageError(f"{path} has weights already: attack them without --model, or choose another --run directory")
        run.save_model(module.cpu())
    return run, error
