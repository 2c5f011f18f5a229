"""Attack a run: every case of a suite, block by block, kept in the run directory."""

import logging
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ccat import codec
from ccat.attacking import (
    BLOCK,
    Attempt,
    Block,
    Case,
    Certificate,
    Rest,
    Unit,
    attempts_of,
    best_certificates,
    block_of,
    blocks_in,
    missing,
    rest_at,
    solve,
)
from ccat.attacking import attack as attack_units
from ccat.attacking.block import try_out
from ccat.attacking.copies import Compile, Fast, Gradients, decide, require_asked
from ccat.attacking.forecast import Forecast, fitting_batch, forecast
from ccat.attacking.rest import TPR as REST_TPR
from ccat.attacks.inputs import require_same_answers
from ccat.data import calibration_size, counted, data_digest, split_of
from ccat.engine import Engine, Local, one_thread
from ccat.errors import PipelineError
from ccat.evaluation.outcome import Outcome
from ccat.pipeline.answers import (
    clean_probabilities,
    clean_scores,
    model_of,
    require_data,
    split_shape,
)
from ccat.pipeline.detect import fit_missing
from ccat.pipeline.fitting import require_fitting, warn_of_few
from ccat.pipeline.run_results import Keep, RunResults
from ccat.pipeline.workers import Common, common_of, copies_of, run_of, target_of, target_with
from ccat.progress import Progress
from ccat.runs import Run
from ccat.runs.plan import Asked
from ccat.threats import Condition

_log = logging.getLogger(__name__)


class Plan(NamedTuple):
    """What is to be computed, where it is kept, what rests, and how many images go through at once.

    `units` are all that is missing, as if nothing rested.
    """

    attempts: list[Attempt]
    units: list[Unit]
    results: RunResults
    rest: Rest
    batch: int


def attack(
    run: Run,
    suite: str,
    cases: Sequence[Case],
    examples: int,
    engine: Engine,
    device: str,
    progress: Progress,
    keep: Keep = "worst",
    batch: int | None = None,
    rest_tpr: float | None = REST_TPR,
    compiled: Compile = "off",
    gradients: Gradients = "float32",
    *,
    attack_certified: bool = False,
) -> int:
    """Attack a run with all cases of a suite that are not stored yet.

    Args:
        run: A trained run.
        suite: What the suite is called in the plan; a command that asks for it again.
        cases: Its cases.
        examples: How many of the first test images; whole blocks are computed.
        engine: Where to compute.
        device: The device of the model.
        progress: Called after each block.
        keep: Keep the worst perturbation of each example, or none.
        batch: Images that go through the model at once; by default what memory holds.
        rest_tpr: An image that is wrong and accepted at the τ of this TPR rests in the cases that
            follow; None attacks all images with all cases.
        compiled: Compile the passes of the copy that is attacked: "on", "off", or "auto" where that
            is forecast to save more time than it takes.
        gradients: "bfloat16" computes gradients in it, on cuda devices only.
        attack_certified: Attack images as well to which a stored certificate says that no wrong
            answer is possible. Otherwise they rest, unless `rest_tpr` is None.

    Returns:
        The number of blocks computed.
    """
    for case in cases:
        codec.require_storable(case, Case)
    with run.writing():
        here = "cpu" if engine.away else device
        require_fitting(run, cases, examples)
        require_asked(compiled, gradients, device)
        warn_of_few(run, here)
        fit_missing(run, [case.threat for case in cases], here, progress)
        limits = (keep, batch, rest_tpr, attack_certified)
        todo = _plan(run, cases, examples, engine, device, *limits)
        if todo.units:
            engine.ready()
            _try_out(run, [unit.attempt.case for unit in todo.units], here, todo.rest)
        conditions = {attempt.key: attempt.case.condition for attempt in todo.attempts}
        run.plan.add(Asked(suite, examples, run.weights, conditions))
        if todo.units:
            fast = _fast(run, todo, engine, device, compiled, gradients, progress)
            common = common_of(run, examples, engine, device, todo.batch, todo.rest, fast)
            labels = counted(run.recipe.dataset).y[: blocks_in(examples) * BLOCK]
            where = (todo.results, todo.rest, engine, _compute, common, split_shape(run))
            attack_units(todo.attempts, labels, *where, progress)
        return len(todo.units)


def dry_run(
    run: Run,
    cases: Sequence[Case],
    examples: int,
    engine: Local,
    device: str,
    keep: Keep = "worst",
    batch: int | None = None,
    rest_tpr: float | None = REST_TPR,
    *,
    attack_certified: bool = False,
) -> tuple[list[Forecast], int]:
    """Forecast what `attack` would have to compute if nothing rested; writes nothing.

    Returns:
        The forecast of each case, and how many images would go through the model at once.
    """
    require_fitting(run, cases, examples)
    fitted = tuple(run.answers.detectors())
    if run.rejection.to_fit([], fitted, grey=True) and not fitted:
        raise PipelineError(f"{run.path} has no detector yet: attack it once without --dry-run")
    known = run.answers.clean(data_digest(run.recipe.dataset)) is not None
    limits = (keep, batch, rest_tpr, attack_certified)
    todo = _plan(run, cases, examples, engine, device, *limits, calibrated=known)
    images = counted(run.recipe.dataset)
    x, y = (part.to(device) for part in block_of(images.x, images.y, "test", 0))
    left = Counter(unit.attempt.case for unit in todo.units)
    with one_thread():
        target = target_with(run, device, None, todo.batch)
        return forecast(target, x, y, [(case, left[case]) for case in cases]), todo.batch


def _fast(
    run: Run,
    todo: Plan,
    engine: Engine,
    device: str,
    asked: Compile,
    gradients: Gradients,
    progress: Progress,
) -> Fast:
    """Decide how passes are made faster; on other machines only what was asked for is done."""
    if engine.away or asked == "off":
        return Fast(asked == "on", gradients)
    images = counted(run.recipe.dataset)
    x, _ = block_of(images.x, images.y, "test", 0)
    processes = min(engine.workers, len(todo.units)) if isinstance(engine, Local) else 1
    copies = copies_of(run, device, todo.batch, Fast(True, gradients))
    left = list(Counter(unit.attempt.case for unit in todo.units).items())
    with one_thread():
        model = model_of(run.path, run.weights, device)
        compiled, why = decide(asked, copies, model, x.to(device), left, processes)
    if asked == "on" and not compiled:
        warnings.warn(why, stacklevel=2)
    elif why:
        progress(0, 1, why)
    return Fast(compiled, gradients)


def _try_out(run: Run, cases: Sequence[Case], device: str, rest: Rest) -> None:
    images = counted(run.recipe.dataset)[:1]
    pool = split_of(run.recipe.dataset, "train")[:BLOCK]
    target = target_with(run, device, pool, 1, rest.enough, rest.tau)
    few = counted(run.recipe.dataset)[:8].floats().to(device)
    try:
        with torch.no_grad():
            require_same_answers(target.model(few), target.model(few))
        try_out(target, list(dict.fromkeys(cases)), images.floats().to(device), images.y.to(device))
    except ValueError as wrong:
        raise PipelineError(f"nothing was attacked: {wrong}") from wrong


def _plan(
    run: Run,
    cases: Sequence[Case],
    examples: int,
    engine: Engine,
    device: str,
    keep: Keep,
    batch: int | None,
    rest_tpr: float | None,
    attack_certified: bool,
    *,
    calibrated: bool = True,
) -> Plan:
    """Plan what is missing; if nothing may be written, `calibrated` says if τ is known already."""
    require_data(run)
    data = data_digest(run.recipe.dataset)
    rest, may_rest = Rest(run.rejection), rest_tpr is not None and not attack_certified
    if calibrated:
        asked = rest_tpr
        rest, rest_tpr = rest_at(run.rejection, _calibration(run, device), asked)
        if rest_tpr != asked:
            _log.info(
                "%s: too few calibration images for images to rest at TPR %s", run.path, asked
            )
    attempts = attempts_of(cases, run.weights, data, rest_tpr)
    if may_rest:
        rest = replace(rest, certificates=_certificates(run, data, attempts, examples))
        names = {condition: one.name for condition, one in rest.certificates.items()}
        attempts = attempts_of(cases, run.weights, data, rest_tpr, names)
    results = RunResults(run, data, tuple(run.answers.detectors()), keep)
    units = missing(attempts, blocks_in(examples), results)
    if batch is None and units and isinstance(engine, Local):
        one = counted(run.recipe.dataset)[:1].floats()
        model = model_of(run.path, run.weights, device)
        batch = fitting_batch(model, one, device, min(engine.workers, len(units)))
        _log.info("%s: %d images go through the model at once, as memory allows", run.path, batch)
    return Plan(attempts, units, results, rest, batch or BLOCK)


def _certificates(
    run: Run, data: str, attempts: Sequence[Attempt], examples: int
) -> dict[Condition, Certificate]:
    """Return the certificate by which examples rest under each condition that has one.

    Attempts that were asked for before there was a certificate go on without it.
    """
    asked_for = {key for asked in run.plan.asked() for key in asked.attempts}
    conditions = dict.fromkeys(one.case.condition for one in attempts if one.key not in asked_for)
    stored = {
        condition: Certificate(f"{condition.key} {run.certificates.bounds_of(condition)}", one)
        for condition, one in run.certificates.read(data).items()
    }
    count = min(blocks_in(examples) * BLOCK, len(counted(run.recipe.dataset)))
    return best_certificates(conditions, stored, count)


def _calibration(run: Run, device: str) -> dict[str, Outcome]:
    """The raw outcomes of the calibration images, by judge."""
    given, last = clean_probabilities(run, device), calibration_size(run.recipe.dataset)
    wrong = (given.argmax(1) != split_of(run.recipe.dataset, "test").y).numpy()
    return {
        judge: Outcome(wrong[-last:], clean_scores(run, judge, given, device)[-last:])
        for judge in run.rejection.judges(list(run.answers.detectors()))
    }


def _compute(common: Common, unit: Unit) -> tuple[Block, Tensor]:
    """Compute one unit in a worker process."""
    run, images = run_of(common)
    return solve(target_of(run, common), images.x, images.y, unit, common.device)
