"""Attack a run: every case of a suite, block by block, kept in the run directory."""

import atexit
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ccat import codec, extensions
from ccat.attacking import (
    BLOCK,
    Attempt,
    Block,
    Case,
    Target,
    Unit,
    attempts_of,
    block_of,
    blocks_in,
    merge,
    plan,
    solve,
    worst_of_block,
)
from ccat.attacking import attack as attack_units
from ccat.attacking.block import try_out
from ccat.attacking.forecast import Forecast, fitting_batch, forecast
from ccat.data import Images, calibration_size, counted, data_digest, split_of
from ccat.engine import Engine, Local, one_thread
from ccat.errors import PipelineError
from ccat.evaluation.outcome import highest_tpr
from ccat.pipeline.answers import (
    clean_probabilities,
    judges_of,
    model_of,
    require_data,
    split_shape,
)
from ccat.pipeline.detect import fit_missing
from ccat.progress import Progress
from ccat.runs import Files, Run
from ccat.runs.attempts import Asked
from ccat.threats import Condition

Keep = Literal["worst", "none"]
POOL, POOL_BYTES = 10_000, 400_000_000
USUAL_TPR = 0.99


class Common(NamedTuple):
    """What all units share, sent to each worker once.

    `run` is where the run is or, for workers on other machines, its files; these workers also get
    the images that are attacked and the pool of images that attacks may start from.
    """

    run: Path | Files
    weights: str
    device: str
    batch: int
    trusted: frozenset[str]
    images: Images | None = None
    pool: Images | None = None


@dataclass(frozen=True)
class RunResults:
    """Results in a run directory: blocks and, per example, the worst perturbation."""

    run: Run
    data: str
    fitted: tuple[str, ...]
    perturbations: Keep = "worst"
    _of: dict[tuple[str, str, int], frozenset[str]] = field(default_factory=dict)

    def missing(self, unit: Unit) -> bool:
        attempt, block = unit
        judges = self._judges(attempt)
        if not self.run.attempts.has(attempt, block):
            return True
        if self.fitted and not set(judges) <= self.run.attempts.judges_of(attempt, block):
            return True
        return self.perturbations == "worst" and any(
            attempt.key not in self._kept(attempt.case.condition, judge, block) for judge in judges
        )

    def keep(self, unit: Unit, block: Block, delta: Tensor) -> None:
        """Keep perturbations first: after a kill in between, the block is computed again."""
        attempt, number = unit
        files, condition = self.run.attempts, attempt.case.condition
        at = (self.run.weights, self.data)
        images = counted(self.run.recipe.dataset)
        _, y = block_of(images.x, images.y, attempt.case.source, number)
        labels = None if condition.on_noise else y[: len(block.value)]
        for judge in self._judges(attempt) if self.perturbations == "worst" else ():
            mine = worst_of_block(attempt.key, block, judge, labels, delta)
            worst = merge(mine, files.worst(condition, judge, number, *at))
            files.save_worst(condition, judge, number, worst, *at)
        files.save(attempt, number, block)

    def _judges(self, attempt: Attempt) -> tuple[str, ...]:
        return self.run.rejection.judges_of(attempt.case.condition, self.fitted)

    def _kept(self, condition: Condition, judge: str, block: int) -> frozenset[str]:
        """The keys of the attempts whose perturbations are merged into the worst ones."""
        place = (condition.key, judge, block)
        if place not in self._of:
            worst = self.run.attempts.worst(condition, judge, block, self.run.weights, self.data)
            self._of[place] = worst.of if worst else frozenset()
        return self._of[place]


class Plan(NamedTuple):
    """What is to be computed, where it is kept, and how many images go through at once."""

    attempts: list[Attempt]
    units: list[Unit]
    results: RunResults
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

    Returns:
        The number of blocks computed.
    """
    for case in cases:
        codec.require_storable(case, Case)
    with run.writing():
        here = "cpu" if engine.away else device
        _require_fitting(run, cases, examples)
        _warn_of_few(run, here)
        fit_missing(run, [case.threat for case in cases], here, progress)
        todo = _plan(run, cases, examples, engine, device, keep, batch)
        if todo.units:
            engine.ready()
            _try_out(run, [unit.attempt.case for unit in todo.units], here)
        conditions = {attempt.key: attempt.case.condition for attempt in todo.attempts}
        run.attempts.add_to_plan(Asked(suite, examples, run.weights, conditions))
        if todo.units:
            common = _common(run, examples, engine, device, todo.batch)
            shape = split_shape(run)
            attack_units(todo.units, todo.results, engine, _compute, common, shape, progress)
        return len(todo.units)


def dry_run(
    run: Run,
    cases: Sequence[Case],
    examples: int,
    engine: Local,
    device: str,
    keep: Keep = "worst",
    batch: int | None = None,
) -> tuple[list[Forecast], int]:
    """Forecast what `attack` would have to compute; writes nothing.

    Returns:
        The forecast of each case, and how many images would go through the model at once.
    """
    _require_fitting(run, cases, examples)
    fitted = tuple(run.answers.detectors())
    if run.rejection.to_fit([], fitted, grey=True) and not fitted:
        raise PipelineError(f"{run.path} has no detector yet: attack it once without --dry-run")
    todo = _plan(run, cases, examples, engine, device, keep, batch)
    images = counted(run.recipe.dataset)
    x, y = (part.to(device) for part in block_of(images.x, images.y, "test", 0))
    left = Counter(unit.attempt.case for unit in todo.units)
    with one_thread():
        target = _target(run, device, None, todo.batch)
        return forecast(target, x, y, [(case, left[case]) for case in cases]), todo.batch


def _try_out(run: Run, cases: Sequence[Case], device: str) -> None:
    images = counted(run.recipe.dataset)[:1]
    pool = split_of(run.recipe.dataset, "train")[:BLOCK].floats().to(device)
    target = _target(run, device, pool, 1)
    try:
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
) -> Plan:
    require_data(run)
    data = data_digest(run.recipe.dataset)
    attempts = attempts_of(tuple(cases), run.weights, data)
    results = RunResults(run, data, tuple(run.answers.detectors()), keep)
    units = plan(attempts, blocks_in(examples), results, split_shape(run))
    if batch is None and units and isinstance(engine, Local):
        one = counted(run.recipe.dataset)[:1].floats()
        model = model_of(run.path, run.weights, device)
        batch = fitting_batch(model, one, device, min(engine.workers, len(units)))
    return Plan(attempts, units, results, batch or BLOCK)


def _common(run: Run, examples: int, engine: Engine, device: str, batch: int) -> Common:
    about = (run.weights, device, batch, extensions.trusted())
    if not engine.away:
        return Common(run.path, *about)
    images = counted(run.recipe.dataset)[: blocks_in(examples) * BLOCK]
    return Common(run.packed(), *about, images, _pool(run.recipe.dataset))


def _compute(common: Common, unit: Unit) -> tuple[Block, Tensor]:
    """Compute one unit in a worker process."""
    extensions.trust(*common.trusted)
    run = Run.open(common.run) if isinstance(common.run, Path) else _unpacked(common.run)
    images = common.images or counted(run.recipe.dataset)
    pool = (common.pool or _pool(run.recipe.dataset)).floats()
    target = _target(run, common.device, pool, common.batch)
    return solve(target, images.x, images.y, unit, common.device)


def _target(run: Run, device: str, pool: Tensor | None, batch: int) -> Target:
    model = model_of(run.path, run.weights, device)
    return Target(model, run.rejection, judges_of(run, device), pool, batch)


@lru_cache(maxsize=1)
def _unpacked(files: Files) -> Run:
    """A run from another machine, for as long as the process lives."""
    place = TemporaryDirectory(prefix="ccat-")
    atexit.register(place.cleanup)
    return Run.unpacked(files, Path(place.name))


def _pool(dataset: str) -> Images:
    """The first training images, as many as fit: attacks may start from them."""
    images = split_of(dataset, "train")
    return images[: min(POOL, POOL_BYTES // (4 * images.x[0].numel()))]


def _warn_of_few(run: Run, device: str) -> None:
    """Warn if too few calibration images are classified correctly for the usual TPR.

    The answers to clean images are stored, so that showing results never needs the model.
    """
    last = calibration_size(run.recipe.dataset)
    given = clean_probabilities(run, device)[-last:].argmax(1)
    correct = int((given == split_of(run.recipe.dataset, "test").y[-last:]).sum())
    if (most := highest_tpr(correct)) < USUAL_TPR:
        warnings.warn(
            f"{correct} correctly classified calibration images support a TPR of at most "
            f"{most:g}, not the usual {USUAL_TPR:g}: evaluate with --tpr {most:g} or less",
            stacklevel=2,
        )


def _require_fitting(run: Run, cases: Sequence[Case], examples: int) -> None:
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
