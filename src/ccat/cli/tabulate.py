"""What the commands that judge runs share: outcomes of several runs, at several thresholds."""

import warnings
from argparse import Namespace
from collections.abc import Sequence

from ccat.attacking.rest import USUAL
from ccat.cli.values import device_of, run_named
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.metrics import threshold
from ccat.evaluation.outcome import highest_tpr
from ccat.evaluation.results import Evaluation, RunOutcomes
from ccat.pipeline.classifier import TPRS
from ccat.pipeline.collect import collect
from ccat.runs import Run


def collected(options: Namespace) -> tuple[list[Run], list[RunOutcomes]]:
    """Open the runs of a command and read their outcomes for one table.

    Raises:
        ValueError: If a run is given twice, or runs are of different data sets.
    """
    runs = [run_named(name) for name in options.runs]
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise ValueError(f"a run is given twice: {', '.join(options.runs)}")
    folders = [path.name for path in paths]
    shown = folders if len(set(folders)) == len(runs) else [str(run.path) for run in runs]
    device = device_of(options)
    found = [collect(run, name, device) for run, name in zip(runs, shown, strict=True)]
    if len({one.dataset for one in found}) > 1:
        each = ", ".join(f"{one.run} is {one.dataset}" for one in found)
        raise ValueError(f"runs of different data sets do not fit into one table: {each}")
    return runs, found


def supported_tpr(outcomes: Sequence[RunOutcomes], asked: float | None) -> float:
    """Return the TPR that chooses τ: the one asked for, otherwise the usual one.

    Warns, and returns the highest TPR that all runs support, if their calibration images are too
    few for the usual one. What was asked for is left as it is.

    Raises:
        ValueError: If a run answers so few calibration images correctly that they support none.
    """
    if asked is not None:
        return asked
    correct, run = min((int((~one.calibration.wrong).sum()), one.run) for one in outcomes)
    most = highest_tpr(correct)
    if most >= USUAL:
        return USUAL
    if most == 0:
        raise ValueError(
            f"{run} classifies {correct} of its calibration images correctly, too few to choose a "
            f"threshold: train it for longer; `ccat evaluate {run} --tau none` rejects nothing"
        )
    warnings.warn(
        f"{run} has {correct} correctly classified calibration images, which support a TPR of at "
        f"most {most:g}: this is shown at {most:g} instead of the usual {USUAL:g}; more test "
        "images support more",
        stacklevel=2,
    )
    return most


def at_thresholds(
    outcomes: Sequence[RunOutcomes], tpr: float, tau: float | None = None
) -> list[list[Evaluation]]:
    """Evaluate each run at the threshold asked for, then at those of the usual TPRs.

    Further TPRs are left out if a run has too few calibration images for them.
    """
    if tau is not None:
        return [[evaluate(one, tau=tau)] for one in outcomes]
    others = [one for one in TPRS if one != tpr and all(_reachable(run, one) for run in outcomes)]
    return [[evaluate(one, each) for each in (tpr, *others)] for one in outcomes]


def _reachable(outcomes: RunOutcomes, tpr: float) -> bool:
    """True if there are enough calibration images for a TPR."""
    try:
        threshold(outcomes.calibration, tpr)
    except ValueError:
        return False
    return True
