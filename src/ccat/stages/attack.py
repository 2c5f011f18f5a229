"""Attacking: every case of a suite against a trained run, block by block.

A block's random numbers depend on the case, the restart and the block alone, so results do not depend on how many examples are asked
for, on the order, or on the number of workers.
"""

import atexit
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ccat.attempts import BLOCK, Attempt, Block
from ccat.data import Images
from ccat.engine import Engine, Local, one_thread
from ccat.recipes import Case, label
from ccat.stages.blocks import Keep, examples_of, keep_block, model_of, name_of
from ccat.stages.detect import detectors_of, fit_missing, judges
from ccat.stages.forecast import Forecast, fitting, forecast, weight
from ccat.stages.shared import Progress, StageError, counted, data_digest, held_out, images_of, require_data
from ccat.stages.solving import solve
from ccat.store import Files, Run

POOL, POOL_BYTES = 10_000, 400_000_000


class Common(NamedTuple):
    """What all units share, as each worker gets it once: where the run is, or, for workers on other machines, all that they need of it:
    the run's files, the images attacked, others that attacks draw on.
    """

    run: Path | Files
    images: Images | None = None
    pool: Images | None = None


class Unit(NamedTuple):
    """One block of one attempt, as a worker gets it."""

    attempt: Attempt
    block: int
    device: str
    batch: int


class Plan(NamedTuple):
    """What is to be computed: blocks that are not stored yet, the costliest first, and how many images go through the model at once."""

    attempts: list[Attempt]
    units: list[Unit]
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
) -> int:
    """Runs what is not stored yet of a suite on the first test images; gives the number of blocks computed."""
    with run.writing():
        if run.recipe.detector is not None:
            require_data(run)
            fit_missing(run, [case.threat for case in cases], "cpu" if engine.away else device, progress)
        plan = _plan(run, cases, examples, engine, device, keep, batch)
        if plan.units:
            engine.ready()
        run.add_to_plan(suite, examples, [attempt.key for attempt in plan.attempts])
        if not plan.units:
            return 0
        shape = _shape(run)
        done, total = 0, sum(weight(unit.attempt.case, shape) for unit in plan.units)
        progress(0, total, f"{len(plan.units)} blocks")
        images = counted(run.recipe.dataset)[: -(-examples // BLOCK) * BLOCK]
        common = Common(run.packed(), images, _pool(run)) if engine.away else Common(run.path)
        for count, (unit, (result, delta)) in enumerate(engine(_compute, common, plan.units), start=1):
            keep_block(run, unit.attempt, unit.block, result, delta, keep)
            done += weight(unit.attempt.case, shape)
            case = unit.attempt.case
            progress(done, total, f"{count} of {len(plan.units)} blocks, {name_of(case)} {case.name}")
        return len(plan.units)


def foresee(
    run: Run, cases: Sequence[Case], examples: int, engine: Engine, device: str, keep: Keep = "worst", batch: int | None = None
) -> tuple[list[Forecast], int]:
    """What `attack` would have to compute, case by case, and how many images would go through the model at once. Writes nothing."""
    plan = _plan(run, cases, examples, engine, device, keep, batch)
    names = tuple(run.detectors())
    if run.recipe.detector is not None and not names:
        raise StageError(f"{run.path} has no detector yet: attack it once without --dry-run")
    detectors = detectors_of(run.path, run.weights, names, device, _shape(run)) if names else {}
    x, y = (part.to(device) for part in examples_of(counted(run.recipe.dataset), "test", 0))
    left = Counter(unit.attempt.case for unit in plan.units)
    with one_thread():
        return forecast(
            model_of(run.path, run.weights, device), x, y, [(case, left[case]) for case in cases], detectors, plan.batch
        ), plan.batch


def _plan(run: Run, cases: Sequence[Case], examples: int, engine: Engine, device: str, keep: Keep, batch: int | None) -> Plan:
    _require_examples(run, examples)
    data = data_digest(run.recipe.dataset)
    require_data(run)
    _require_fitting(run, cases)
    attempts = [Attempt.of(case, restart, run.weights, data) for case in cases for restart in range(case.restarts)]
    names = list(run.detectors())
    blocks = range(-(-examples // BLOCK))
    kept = {(name, block): run.worst(name, block, data) for name in {name_of(case) for case in cases} for block in blocks}
    kept_of = {place: worst.of if worst else frozenset() for place, worst in kept.items()}
    todo = [
        (attempt, block)
        for attempt in attempts
        for block in blocks
        if not _whole(run, attempt, block, names) or (keep == "worst" and attempt.key not in kept_of[name_of(attempt.case), block])
    ]
    if batch is None and todo and isinstance(engine, Local):
        one = counted(run.recipe.dataset)[:1].floats()
        batch = fitting(model_of(run.path, run.weights, device), one, device, min(engine.workers, len(todo)))
    units = [Unit(attempt, block, device, batch or BLOCK) for attempt, block in todo]
    return Plan(attempts, sorted(units, key=lambda unit: -weight(unit.attempt.case, _shape(run))), batch or BLOCK)


def _shape(run: Run) -> tuple[int, int, int]:
    _, channels, height, width = counted(run.recipe.dataset).x.shape
    return channels, height, width


def _whole(run: Run, attempt: Attempt, block: int, detectors: Sequence[str]) -> bool:
    """Whether a block is stored, judged by all detectors that there are for it now."""
    if not run.has_block(attempt, block):
        return False
    return not detectors or set(judges(attempt.case, detectors, run.first_detector())) <= run.scored_by(attempt, block)


def _compute(common: Common, unit: Unit) -> tuple[Block, Tensor]:
    attempt, device = unit.attempt, unit.device
    run = Run.open(common.run) if isinstance(common.run, Path) else _unpacked(common.run)
    model = model_of(run.path, attempt.weights, device)
    x, y = (part.to(device) for part in examples_of(common.images or counted(run.recipe.dataset), attempt.case.source, unit.block))
    detectors = {}
    if run.recipe.detector is not None:
        all_of_them = detectors_of(run.path, attempt.weights, tuple(run.detectors()), device, tuple(x.shape[1:]))
        detectors = {name: all_of_them[name] for name in judges(attempt.case, all_of_them, run.first_detector())}
    generator = Generator().manual_seed(attempt.seed_of(unit.block))
    try:
        return solve(model, x, y, attempt.case, generator, (common.pool or _pool(run)).floats(), detectors, unit.batch)
    except (ValueError, MemoryError) as wrong:
        first = unit.block * BLOCK
        raise StageError(f"{label(attempt.case.threat)} {attempt.case.name}, in the block from example {first} on: {wrong}") from wrong


@lru_cache(maxsize=1)
def _unpacked(files: Files) -> Run:
    """For as long as the process lives."""
    place = TemporaryDirectory(prefix="ccat-")
    atexit.register(place.cleanup)
    return Run.unpacked(files, Path(place.name))


def _pool(run: Run) -> Images:
    """Training images that attacks may draw on: the first ones, as many as fit."""
    images = images_of(run.recipe.dataset, "train")
    return images[: min(POOL, POOL_BYTES // (4 * images.x[0].numel()))]


def _require_fitting(run: Run, cases: Sequence[Case]) -> None:
    """A threat that does not fit the images is refused before it is planned."""
    x = counted(run.recipe.dataset)[:1].floats()
    for threat in {case.threat for case in cases}:
        threat.project(x, torch.zeros_like(x))


def _require_examples(run: Run, examples: int) -> None:
    most = len(counted(run.recipe.dataset))
    if not 1 <= examples <= most:
        raise StageError(
            f"--examples must be 1 to {most}, not {examples}: the last {held_out(run.recipe.dataset)} test images choose the threshold"
        )
