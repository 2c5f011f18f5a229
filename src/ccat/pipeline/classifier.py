"""From a run to a classifier that decides: its model, what rejects, and a threshold.

The threshold is chosen on the last test images of the run's data, which are attacked nowhere, or on
images of one's own.
"""

from contextlib import suppress

from ccat.data import Images, calibration_size, class_count, names_of_classes, split_of
from ccat.errors import PipelineError
from ccat.evaluation.metrics import Outcome
from ccat.rejection import Calibration, Confidence, Rejecting
from ccat.rejection.calibration import counted, given, keeping
from ccat.runs import Run
from ccat.runs.classifier import Thresholds

TPR = 0.99
TPRS = (0.99, 0.98, 0.95)  # that thresholds are stored for


def classifier(run: Run, tpr: float | None = None, tau: float | None = None) -> Rejecting:
    """Return the classifier of a run, on the CPU.

    Args:
        run: A trained run.
        tpr: Choose the threshold that keeps this share of correct answers.
        tau: Use this threshold. By default it is the one that `ccat calibrate` stored, or the one
            for a true positive rate of 99 %.

    Raises:
        PipelineError: If there is no threshold and no data to choose it by.
    """
    if tpr is not None and tau is not None:
        raise PipelineError("choose a threshold by its TPR or give tau, not both")
    stored = run.classifier.read()
    if stored is None:
        stored = thresholds(run, TPR if tpr is None else tpr)
    chosen = stored.chosen
    if tau is not None:
        chosen = given(tau) if isinstance(run.rejection, Confidence) else Calibration(tau)
    elif tpr is not None:
        chosen = stored.at(tpr) or thresholds(run, tpr).chosen
    return _with(run, stored, chosen)


def thresholds(run: Run, tpr: float = TPR) -> Thresholds:
    """Return thresholds of a run, chosen on its calibration images; nothing is stored.

    Raises:
        PipelineError: If there are too few images for this true positive rate.
    """
    dataset = run.recipe.dataset
    images = split_of(dataset, "test")[-calibration_size(dataset) :]
    first = Thresholds(tuple(images.x.shape[1:]), _names(dataset), Calibration(0.0))
    outcome = scored(_with(run, first, first.chosen), images)
    try:
        chosen = _keeping(run, outcome, tpr)
    except ValueError as few:
        raise PipelineError(f"{run.path}: {few}; `ccat calibrate --tpr` takes another") from few
    others = []
    for other in TPRS:
        with suppress(ValueError):
            others.append(_keeping(run, outcome, other))
    return Thresholds(first.shape, first.classes, chosen, tuple(others))


def scored(clf: Rejecting, images: Images) -> Outcome:
    """Return what a classifier makes of labelled images, on the scale of its threshold."""
    answers, scores = clf.scores(images.x)
    return Outcome((answers != images.y).numpy(), scores.double().numpy())


def recount(run: Run, chosen: Calibration, outcome: Outcome) -> Calibration:
    """Return a calibration with its images counted."""
    return counted(chosen, outcome, in_odds=isinstance(run.rejection, Confidence))


def _keeping(run: Run, outcome: Outcome, tpr: float) -> Calibration:
    return keeping(outcome, tpr, in_odds=isinstance(run.rejection, Confidence))


def _names(dataset: str) -> tuple[str, ...]:
    return names_of_classes(dataset) or tuple(map(str, range(class_count(dataset))))


def _with(run: Run, about: Thresholds, chosen: Calibration) -> Rejecting:
    detectors = run.answers.detectors()
    judges = run.rejection.judges(list(detectors))
    if not judges:
        raise PipelineError(f"{run.path} has no detector yet: `ccat attack {run.path}` fits them")
    return Rejecting(
        run.training.model(),
        chosen,
        about.shape,
        about.classes,
        rejection=run.rejection,
        fitted={name: detectors[name] for name in judges[:1] if name in detectors},
    )
