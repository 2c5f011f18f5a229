"""Load a classifier that may abstain: from a run, a file, or the models that come with ccat."""

import os
from pathlib import Path

from ccat.catalog.zoo import is_zoo_name, zoo_path
from ccat.errors import PipelineError
from ccat.pipeline.classifier import classifier
from ccat.rejection import Calibration, Confidence, Rejecting, load_classifier
from ccat.rejection.calibration import given
from ccat.runs import Run


def load(
    source: str | os.PathLike[str],
    *,
    tpr: float | None = None,
    tau: float | None = None,
    factory: str | None = None,
) -> Rejecting:
    """Load a classifier that decides on images: model, threshold, class names.

    Args:
        source: A run directory, a file of `Rejecting.save`, or a model of the zoo: `zoo:NAME`.
        tpr: Choose the threshold that keeps this share of correct answers; not of a file, whose
            threshold is stored.
        tau: Use this threshold. By default it is the stored one, or that of a TPR of 99 %.
        factory: The `package.module:factory` that a file may name for its model, if it is trusted.

    Returns:
        A module on the CPU: `clf(images)` gives labels (−1 where rejected), confidence, accepted.

    Raises:
        RunError, ModelFileError: If there is nothing to load, or it is damaged.
        DataUnavailableError: If a run has no threshold yet, and its data are not here.
        PipelineError: If there are too few images to choose a threshold by.
        ValueError: If tau or the TPR is out of range.
    """
    path = zoo_path(str(source)) if is_zoo_name(source) else Path(source)
    if not path.is_file():
        return classifier(Run.open(path), tpr, tau)
    if tpr is not None:
        raise PipelineError(
            f"{path} holds one threshold; give tau, or load the run to choose a TPR"
        )
    clf = load_classifier(path, factory)
    if tau is None:
        return clf
    return clf.at(given(tau) if isinstance(clf.rejection, Confidence) else Calibration(tau))
