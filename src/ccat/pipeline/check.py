"""Check attacks on a run: do they find errors that were planted? The outcome is stored."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ccat.attacking import BLOCK, Case, block_of
from ccat.attacking.check import check, checkable
from ccat.attacking.planted import can_plant
from ccat.data import counted
from ccat.engine import Engine
from ccat.errors import PipelineError
from ccat.evaluation.planted import PlantedErrors
from ccat.pipeline.workers import Common, common_of, run_of, target_of
from ccat.progress import Progress
from ccat.rejection import Confidence
from ccat.runs import Run
from ccat.threats import Condition

EXAMPLES, FEW = 100, 20
_log = logging.getLogger(__name__)
_OTHERS = 1000  # of the last counted images, to choose planted points from


class _Unit(NamedTuple):
    """The cases of one condition."""

    suite: str
    cases: tuple[Case, ...]
    examples: int
    complete: bool


def check_run(
    run: Run,
    suite: str,
    cases: Sequence[Case],
    examples: int,
    engine: Engine,
    device: str,
    progress: Progress,
    *,
    complete: bool = False,
) -> dict[Condition, PlantedErrors]:
    """Plant an error around each of some test images, and let a suite look for them.

    Args:
        run: A trained run.
        suite: What the suite is called, as a command that asks for it.
        cases: Its cases; conditions other than balls in L∞, L2 and L1 are left out.
        examples: How many of the first test images.
        engine: Where to compute, a condition at a time.
        device: The device of the model.
        progress: Called after each condition.
        complete: Ask every case for every planted error.

    Raises:
        PipelineError: If none of the cases is within a ball, or the run rejects by a detector.
    """
    if not isinstance(run.rejection, Confidence):
        raise PipelineError(f"{run.path} rejects by a detector, and planted errors by confidence")
    by: dict[Condition, list[Case]] = {}
    for case in cases:
        if can_plant(case.threat) and checkable(case):
            by.setdefault(case.condition, []).append(case)
    most = min(BLOCK, len(counted(run.recipe.dataset)))
    if not by:
        raise PipelineError("errors can be planted in L∞, L2 and L1 only: no such case was chosen")
    if not 1 <= examples <= most:
        raise PipelineError(f"--examples must be 1 to {most}, not {examples}")
    units = deque(_Unit(suite, tuple(of), examples, complete) for of in by.values())
    total, found = len(units), dict[Condition, PlantedErrors]()
    with run.writing():
        engine.ready()
        common = common_of(run, len(counted(run.recipe.dataset)), engine, device)
        for unit, checked in engine(_compute, common, units):
            condition = unit.cases[0].condition
            found[condition] = checked
            progress(len(found), total, f"planted errors, {condition.title}: {checked.text} found")
        run.planted.add(found)
    return {condition: found[condition] for condition in by}


def check_small(
    run: Run, suite: str, cases: Sequence[Case], examples: int, engine: Engine, device: str
) -> None:
    """Check the attacks that were made, on few images, unless that was done on as many before.

    Nothing is done for a run that rejects by a detector. The images are a tenth of those that were
    attacked, at most 20, and cost at most a tenth of the passes.
    """
    if not isinstance(run.rejection, Confidence):
        return
    few = max(1, min(FEW, examples // 10, len(counted(run.recipe.dataset))))
    known = run.planted.read()
    todo = [
        case
        for case in cases
        if can_plant(case.threat)
        and checkable(case)
        and not _covers(known.get(case.condition), suite, few)
    ]
    if len(todo) < len(cases):
        _log.info(
            "%s: %d of %d cases need no check: it is stored, or errors cannot be planted there",
            *(run.path, len(cases) - len(todo), len(cases)),
        )
    if todo:
        check_run(run, suite, todo, few, engine, device, lambda *_: None)


def _covers(known: PlantedErrors | None, suite: str, examples: int) -> bool:
    return (
        known is not None and known.suite == suite and known.planted + known.inseparable >= examples
    )


def _compute(common: Common, unit: _Unit) -> PlantedErrors:
    run, images = run_of(common)
    target = target_of(run, common)
    x, _ = block_of(images.x, images.y, unit.cases[0].source, 0)
    x = x[: unit.examples].to(common.device)
    others = images[-_OTHERS:].floats().to(common.device)
    return check(target, unit.suite, unit.cases, x, others, complete=unit.complete)
