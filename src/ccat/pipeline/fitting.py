"""What is looked at before a run is attacked: that cases and images fit it, and each other."""

import warnings
from collections.abc import Sequence

import torch

from ccat.attacking import Case
from ccat.attacking.rest import USUAL as USUAL_TPR
from ccat.data import calibration_size, counted, split_of
from ccat.errors import PipelineError
from ccat.evaluation.outcome import highest_tpr
from ccat.pipeline.answers import clean_probabilities
from ccat.runs import Run


def require_fitting(run: Run, cases: Sequence[Case], examples: int) -> None:
    """Refuse a number of examples or a threat that does not fit the images, before planning."""
    dataset = run.recipe.dataset
    images = counted(dataset)
    if not 1 <= examples <= len(images):
        raise PipelineError(
            f"--examples must be 1 to {len(images)}, not {examples}: the last "
            f"{calibration_size(dataset)} test images choose the threshold"
        )
    x = images[:1].floats()
    for threat in {case.threat for case in cases}:
        threat.project(x, torch.zeros_like(x))


def warn_of_few(run: Run, device: str) -> None:
    """Warn if too few calibration images are classified correctly for the usual TPR.

    The answers to clean images are stored, so that showing results never needs the model.
    """
    last = calibration_size(run.recipe.dataset)
    given = clean_probabilities(run, device)[-last:].argmax(1)
    correct = int((given == split_of(run.recipe.dataset, "test").y[-last:]).sum())
    if (most := highest_tpr(correct)) < USUAL_TPR:
        warnings.warn(
            f"{correct} correctly classified calibration images support a TPR of at most "
            f"{most:g}, not the usual {USUAL_TPR:g}: tables are shown at that or less",
            stacklevel=2,
        )
