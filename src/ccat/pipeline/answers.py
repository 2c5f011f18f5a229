"""What a run's model answers to clean images, and the judges of a run: computed once, then read."""

import logging
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ccat.data.splits import data_digest, split_of
from ccat.errors import PipelineError
from ccat.evaluation.metrics import Floats
from ccat.models.predict import probabilities
from ccat.rejection import Judge
from ccat.runs import Run

_log = logging.getLogger(__name__)
_BATCH = 500  # images that a judge scores at once


@lru_cache(maxsize=1)
def model_of(path: Path, weights: str, device: str) -> nn.Module:
    """Load the model of a run once per process.

    Raises:
        PipelineError: If the run no longer holds these weights.
    """
    run = Run.open(path)
    model = run.training.model().to(device)
    if run.weights != weights:
        raise PipelineError(f"the weights of {path} changed while it was attacked: start again")
    return model


@lru_cache(maxsize=2)
def _judges(path: Path, weights: str, fitted: tuple[str, ...], device: str) -> dict[str, Judge]:
    run = Run.open(path)
    shape = split_shape(run)
    x = torch.full((1, *shape), 0.5, device=device)
    return run.rejection.load(model_of(path, weights, device), run.answers.detectors(), x)


def judges_of(run: Run, device: str) -> dict[str, Judge]:
    """The judges of a run by name, on a device; loaded once per process."""
    return _judges(run.path, run.weights, tuple(run.answers.detectors()), device)


@lru_cache(maxsize=8)
def _shape(path: Path, dataset: str) -> tuple[int, int, int]:
    _, channels, height, width = split_of(dataset, "test").x.shape
    return channels, height, width


def split_shape(run: Run) -> tuple[int, int, int]:
    """The shape (C, H, W) of the run's images."""
    return _shape(run.path, run.recipe.dataset)


def clean_probabilities(run: Run, device: str = "cpu") -> Tensor:
    """The model's probabilities of the test split, computed once for these weights."""
    data = data_digest(run.recipe.dataset)
    stored = run.answers.clean(data)
    if stored is None:
        _log.info("%s: clean test images are classified; the answers are stored", run.path)
        model = run.training.model().to(device)
        stored = probabilities(model, split_of(run.recipe.dataset, "test").x)
        with suppress(OSError):  # on a full disk it is computed again the next time
            run.answers.save_clean(stored, data)
    return stored


def clean_scores(run: Run, judge: str, given: Tensor, device: str = "cpu") -> Floats:
    """A judge's scores of the test split, computed once for these weights.

    Args:
        run: The run.
        judge: The judge's name.
        given: The model's probabilities of the test split.
        device: Where to compute.
    """
    found = run.rejection.from_probabilities(given)
    if found is None:
        data = data_digest(run.recipe.dataset)
        found = run.answers.clean_scores(judge, data)
        if found is None:
            found = _scored(run, judge, given, device)
            with suppress(OSError):  # on a full disk it is computed again the next time
                run.answers.save_clean_scores(judge, found, data)
    return np.asarray(found.double().numpy(), dtype=np.float64)


def require_data(run: Run) -> None:
    """Raise a PipelineError if the run was attacked on other images than the data has now."""
    digest = data_digest(run.recipe.dataset)
    if run.attempts.data_of(run.weights) - {digest}:
        raise other_data(run)


def other_data(run: Run) -> PipelineError:
    """Return the error that a run was attacked on other images than the data has now."""
    return PipelineError(
        f"{run.path}: {run.recipe.dataset} is not the data that was attacked; restore it, or use "
        f"another --run directory"
    )


def _scored(run: Run, judge: str, given: Tensor, device: str) -> Tensor:
    score = judges_of(run, device)[judge]
    images = split_of(run.recipe.dataset, "test")
    starts = range(0, len(images), _BATCH)
    rows = [slice(start, start + _BATCH) for start in starts]
    return torch.cat([score(images[part].floats().to(device), given[part]) for part in rows])
