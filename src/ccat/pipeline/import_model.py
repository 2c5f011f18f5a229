"""Import a model that was trained elsewhere, as a run that can be attacked and judged."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ccat.attacks import PGD
from ccat.attacks.inputs import require_logits, require_same_answers
from ccat.data import class_count, split_of
from ccat.errors import PipelineError
from ccat.models import Normalised, save_model
from ccat.models import import_model as import_weights
from ccat.models.registry import arguments_for
from ccat.runs import Run
from ccat.threats import Linf, Threat
from ccat.training import Imported, LinearToZero, Probe, Recipe


class Normalisation(NamedTuple):
    """What a model subtracts from images in [0,1], and divides them by, per channel."""

    mean: Sequence[float]
    std: Sequence[float]


def import_model(
    path: Path,
    model: str,
    weights: Path | None,
    dataset: str,
    normalisation: Normalisation | None,
    seen: Threat | None,
    device: str,
) -> tuple[Run, float]:
    """Make a run of a model that was trained elsewhere; refuse what does not fit before writing.

    Args:
        path: The run directory; it may be there already, with the same weights.
        model: A network of ccat's, or `package.module:factory`, which must be trusted.
        weights: A checkpoint; None if the factory brings its own.
        dataset: What it was trained on.
        normalisation: What it does to images in [0,1] first.
        seen: The threat it was trained with, if any.
        device: Where to try it.

    Returns:
        The run, and its error on the first test images.
    """
    module, error = _checked(model, weights, dataset, normalisation, device)
    probe = Probe(seen or Linf(0.03), PGD(20, 0.005))
    recipe = Recipe("imported", Imported(seen), 1, LinearToZero(), probe, dataset, model)
    run = Run.create(path, recipe, device)
    with run.writing():
        if not run.training.trained:
            run.training.save_model(module)
        elif not _same(run, module):
            raise PipelineError(
                f"{path} holds other weights, or another normalisation: choose another directory"
            )
    return run, error


def _checked(
    model: str,
    weights: Path | None,
    dataset: str,
    normalisation: Normalisation | None,
    device: str,
) -> tuple[nn.Module, float]:
    images, classes = split_of(dataset, "test"), class_count(dataset)
    _, channels, height, width = images.x.shape
    arguments = arguments_for(model, channels, height, width, classes)
    module = import_weights(model, weights, **arguments)
    if normalisation is not None:
        module = Normalised(module, *normalisation)
    first = images[:500]
    try:
        with torch.no_grad():
            logits = module.to(device)(first.floats().to(device)).cpu()
            few = first[:8].floats().to(device)
            once, again = (module(few).cpu() for _ in range(2))
    except (RuntimeError, ValueError) as wrong:
        size = f"{channels}x{height}x{width}"
        raise PipelineError(
            f"{model} cannot take the images of {dataset}, {size}: {wrong}"
        ) from wrong
    require_logits(logits, first.y)
    if not logits.isfinite().all():
        raise PipelineError(f"{model} gives logits that are not finite on {dataset}'s test images")
    _require_same(model, once, again)
    error = (logits.argmax(1) != first.y).double().mean().item()
    if error > 1 - 1.5 / classes:
        warnings.warn(
            f"{100 * error:.0f} % of the first test images are wrong, about as many as by "
            f"guessing: are --mean and --std missing?",
            stacklevel=2,
        )
    return module.cpu(), error


def _require_same(model: str, once: Tensor, again: Tensor) -> None:
    try:
        require_same_answers(once, again)
    except ValueError as random:
        raise PipelineError(f"{model}: {random}") from random


def _same(run: Run, module: nn.Module) -> bool:
    """True if the run holds exactly this module."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "weights"
        save_model(module, file)
        return run.training.holds(file.read_bytes())
