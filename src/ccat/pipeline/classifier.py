"""From a run to a classifier that decides: its model, what rejects, and a threshold.

The threshold is chosen on the last test images of the run's data, which are attacked nowhere, or on
images of one's own.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from ccat.attacking.rest import USUAL
from ccat.data import Images, calibration_size, class_count, names_of_classes, split_of
from ccat.data.labelled import load_labelled
from ccat.errors import PipelineError
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.outcome import highest_tpr
from ccat.evaluation.promise import NoPromise
from ccat.rejection import Calibration, Confidence, Rejecting
from ccat.rejection.calibration import given, keeping, logit, promising
from ccat.rejection.rejecting import require_fit
from ccat.runs import Run
from ccat.runs.classifier import Thresholds

TPRS = (USUAL, 0.98, 0.95)  # that thresholds are stored for, and tables are made at
_TOLERANCE = 1e-4  # of a score that is computed again, perhaps on another machine


def classifier(run: Run, tpr: float | None = None, tau: float | None = None) -> Rejecting:
    """Return the classifier of a run, on the CPU.

    Args:
        run: A trained run.
        tpr: Choose the threshold that keeps this share of correct answers: of the images that the
            run was calibrated on if it is stored for this share, otherwise of the run's own.
        tau: Use this threshold. By default it is the one that `ccat calibrate` stored, or the one
            for a true positive rate of 99 %.

    Raises:
        PipelineError: If there are too few images to choose a threshold by.
        DataUnavailableError: If nothing is stored, and the run's data are not here.
    """
    if tpr is not None and tau is not None:
        raise PipelineError("choose a threshold by its TPR or give tau, not both")
    stored = run.classifier.read()
    if tau is not None:
        confident = isinstance(run.rejection, Confidence)
        return _with(run, stored or _about(run), given(tau) if confident else Calibration(tau))
    if stored is not None:
        known = stored.chosen if tpr is None else stored.at(tpr)
        if known is not None:
            return _with(run, stored, known)
    found = thresholds(run, USUAL if tpr is None else tpr)
    return _with(run, found, found.chosen)


def thresholds(run: Run, tpr: float = USUAL) -> Thresholds:
    """Return thresholds of a run, chosen on its calibration images; nothing is stored.

    Raises:
        PipelineError: If there are too few images for this true positive rate.
    """
    first = _about(run)
    outcome = scored(_with(run, first, first.chosen), calibration_images(run))
    return replace(first, chosen=_chosen(run, outcome, tpr), others=_others(run, outcome))


def scored(clf: Rejecting, images: Images) -> Outcome:
    """Return what a classifier makes of labelled images, on the scale of its threshold."""
    answers, scores = clf.scores(images.x)
    return Outcome((answers != images.y).numpy(), scores.double().numpy())


def calibrate(
    run: Run,
    tpr: float | None = None,
    risk: float | None = None,
    confidence: float = 0.95,
    on: Path | None = None,
) -> Calibration | NoPromise:
    """Choose the threshold of a run and store it, unless the risk cannot be promised.

    Args:
        run: A trained run.
        tpr: Keep this share of correct answers; or
        risk: promise that at most this share of accepted answers is wrong,
        confidence: with this probability.
        on: Labelled images to choose it on, an .npz file or a folder; by default the run's own
            calibration images.

    Returns:
        The threshold, or why the risk cannot be promised.

    Raises:
        PipelineError: If there are too few images.
    """
    if risk is not None and not isinstance(run.rejection, Confidence):
        raise PipelineError(
            f"{run.path} rejects by a detector, whose scores have no scale that thresholds could "
            f"be fixed on beforehand: choose one by --tpr"
        )
    about = run.classifier.read() or _about(run)
    clf = _with(run, about, about.chosen)
    images = calibration_images(run) if on is None else load_labelled(on, clf.classes, clf.shape)
    outcome = scored(clf, images)
    if risk is None:
        chosen: Calibration | NoPromise = _chosen(run, outcome, USUAL if tpr is None else tpr)
    else:
        chosen = promising(outcome, risk, confidence)
    if isinstance(chosen, Calibration):
        others = _others(run, outcome)
        run.classifier.save(replace(about, chosen=chosen, others=others, elsewhere=on is not None))
    return chosen


def threshold_problems(run: Run) -> Iterator[str]:
    """Yield which stored thresholds do not follow from the run's calibration images.

    Thresholds that someone gave, or that images from elsewhere chose, follow from nothing here.
    """
    stored = run.classifier.read()
    if stored is None or stored.elsewhere:
        return
    outcome = scored(_with(run, stored, stored.chosen), calibration_images(run))
    for one in (stored.chosen, *stored.others):
        wrong = _unlike(run, one, outcome)
        if wrong:
            yield (
                f"{run.path}: its stored threshold says that {one}; {wrong}: `ccat calibrate "
                f"{run.path}` chooses it again"
            )


def _unlike(run: Run, stored: Calibration, outcome: Outcome) -> str:
    """Return in what a stored threshold differs from the one that the images choose."""
    if stored.chosen == "given" or stored.level is None:
        return ""
    try:
        if stored.confidence is None:
            again: Calibration | NoPromise = _keeping(run, outcome, stored.level)
        else:
            again = promising(outcome, stored.level, stored.confidence)
    except ValueError as few:
        return str(few)
    if isinstance(again, NoPromise):
        return "from the calibration images this cannot be promised"
    odds = isinstance(run.rejection, Confidence)
    cuts = [logit(one.tau) if odds else one.tau for one in (stored, again)]
    if not math.isclose(*cuts, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        return f"from the calibration images follows τ = {again.tau:.6g}"
    near = np.abs(outcome.score - cuts[0]) <= _TOLERANCE * (1 + np.abs(cuts[0]))
    counts = [(one.images, one.rejected, one.wrong) for one in (stored, again)]
    if stored.images != again.images or any(
        abs(one - other) > near.sum() for one, other in zip(*counts, strict=True)
    ):
        return (
            f"of the {again.images} calibration images {again.rejected} are rejected, and "
            f"{again.wrong} are accepted and wrong"
        )
    return ""


def calibration_images(run: Run) -> Images:
    """Return the test images of a run that choose its threshold and are attacked nowhere."""
    dataset = run.recipe.dataset
    return split_of(dataset, "test")[-calibration_size(dataset) :]


def _about(run: Run) -> Thresholds:
    """Return what is known of a run's images, with a threshold that stands for none."""
    shape = split_of(run.recipe.dataset, "test").x.shape[1:]
    return Thresholds(tuple(shape), _names(run.recipe.dataset), Calibration(0.0))


def _chosen(run: Run, outcome: Outcome, tpr: float) -> Calibration:
    try:
        return _keeping(run, outcome, tpr)
    except ValueError as few:
        highest = highest_tpr(int((~outcome.wrong).sum()))
        advice = f"; `ccat calibrate {run.path} --tpr {highest:g}` chooses one" if highest else ""
        raise PipelineError(f"{run.path}: {few}{advice}") from few


def _others(run: Run, outcome: Outcome) -> tuple[Calibration, ...]:
    """Return thresholds for all usual TPRs that so many images support."""
    found = []
    for tpr in TPRS:
        with suppress(ValueError):
            found.append(_keeping(run, outcome, tpr))
    return tuple(found)


def _keeping(run: Run, outcome: Outcome, tpr: float) -> Calibration:
    return keeping(outcome, tpr, in_odds=isinstance(run.rejection, Confidence))


def _names(dataset: str) -> tuple[str, ...]:
    return names_of_classes(dataset) or tuple(map(str, range(class_count(dataset))))


def _with(run: Run, about: Thresholds, chosen: Calibration) -> Rejecting:
    detectors = run.answers.detectors()
    judges = run.rejection.judges(list(detectors))
    if not judges:
        raise PipelineError(f"{run.path} has no detector yet: `ccat attack {run.path}` fits them")
    clf = Rejecting(
        run.training.model(),
        chosen,
        about.shape,
        about.classes,
        rejection=run.rejection,
        fitted={name: detectors[name] for name in judges[:1] if name in detectors},
    )
    try:
        require_fit(clf)
    except (ValueError, RuntimeError) as wrong:
        why = str(wrong).partition("\n")[0]
        raise PipelineError(f"{run.path}: the model does not fit its data set ({why})") from wrong
    return clf
