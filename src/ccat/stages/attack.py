"""Attacking: every case of a suite against a trained run, block by block; and adversarial examples in and out.

A block's random numbers depend on the case, the restart and the block alone, so results do not depend on how many examples are asked
for, on the order, or on the number of workers.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from ccat import engine
from ccat.attempts import BLOCK, Attempt, Block, Worst, merged
from ccat.objectives import other_class_confidence
from ccat.recipes import Case, Given, contains, label, parse_threat
from ccat.results import Group, Picture
from ccat.stages.detect import detectors_of, fit_missing, judges
from ccat.stages.shared import Progress, StageError, counted, data_digest, held_out, images_of, probabilities_of, require_data
from ccat.stages.solving import checked, solve, take_over
from ccat.store import Run
from ccat.threats import Threat

Keep = Literal["worst", "none"]
POOL, POOL_BYTES = 10_000, 400_000_000


class Unit(NamedTuple):
    """One block of one attempt, as a worker gets it."""

    run: Path
    attempt: Attempt
    block: int
    device: str


def attack(
    run: Run, suite: str, cases: Sequence[Case], examples: int, workers: int, device: str, progress: Progress, keep: Keep = "worst"
) -> int:
    """Runs what is not stored yet of a suite on the first test images; gives the number of blocks computed."""
    with run.writing():
        _require_examples(run, examples)
        data = data_digest(run.recipe.dataset)
        require_data(run)
        _require_fitting(run, cases)
        attempts = [Attempt.of(case, restart, run.weights, data) for case in cases for restart in range(case.restarts)]
        if run.recipe.detector is not None:
            fit_missing(run, [case.threat for case in cases], device, progress)
        names = list(run.detectors())
        run.add_to_plan(suite, examples, [attempt.key for attempt in attempts])
        blocks = range(-(-examples // BLOCK))
        kept = {(name, block): run.worst(name, block, data) for name in {_name(case) for case in cases} for block in blocks}
        kept_of = {place: worst.of if worst else frozenset() for place, worst in kept.items()}
        units = [
            Unit(run.path, attempt, block, device)
            for attempt in attempts
            for block in blocks
            if not _whole(run, attempt, block, names) or (keep == "worst" and attempt.key not in kept_of[_name(attempt.case), block])
        ]
        progress(0, len(units), "")
        for count, (unit, (result, delta)) in enumerate(engine.run(_compute, units, workers), start=1):
            _store(run, unit.attempt, unit.block, result, delta, keep)
            progress(count, len(units), f"{_name(unit.attempt.case)} {unit.attempt.case.name}")
        return len(units)


def _whole(run: Run, attempt: Attempt, block: int, detectors: Sequence[str]) -> bool:
    """Whether a block is stored, judged by all detectors that there are for it now."""
    if not run.has_block(attempt, block):
        return False
    return not detectors or set(judges(attempt.case, detectors, run.first_detector())) <= run.scored_by(attempt, block)


def _compute(unit: Unit) -> tuple[Block, Tensor]:
    attempt, device = unit.attempt, unit.device
    model = _model(unit.run, attempt.weights, device)
    run = Run.open(unit.run)
    x, y = (part.to(device) for part in _examples(run.recipe.dataset, attempt.case.source, unit.block))
    detectors = {}
    if run.recipe.detector is not None:
        all_of_them = detectors_of(unit.run, attempt.weights, tuple(run.detectors()), device)
        detectors = {name: all_of_them[name] for name in judges(attempt.case, all_of_them, run.first_detector())}
    generator = Generator().manual_seed(attempt.seed_of(unit.block))
    try:
        return solve(model, x, y, attempt.case, generator, _pool(run.recipe.dataset), detectors)
    except ValueError as wrong:
        first = unit.block * BLOCK
        raise StageError(f"{label(attempt.case.threat)} {attempt.case.name}, in the block from example {first} on: {wrong}") from wrong


def _pool(dataset: str) -> Tensor:
    """Training images that attacks may draw on: the first ones, as many as fit."""
    images = images_of(dataset, "train")
    return images[: min(POOL, POOL_BYTES // (4 * images.x[0].numel()))].floats()


@lru_cache(maxsize=1)
def _model(path: Path, weights: str, device: str) -> nn.Module:
    run = Run.open(path)
    model = run.model().to(device)
    if run.weights != weights:
        raise StageError(f"the weights of {path} changed while it was attacked: start again")
    return model


def _examples(dataset: str, source: str, block: int) -> tuple[Tensor, Tensor]:
    """The images of a block and their labels; noise has none, so its labels say nothing."""
    images = counted(dataset)
    part = images[block * BLOCK : (block + 1) * BLOCK]
    if source == "test":
        return part.floats(), part.y
    noise = torch.rand(part.x.shape, generator=Generator().manual_seed(block))
    return noise, torch.zeros_like(part.y)


def _store(run: Run, attempt: Attempt, block: int, result: Block, delta: Tensor, keep: Keep) -> None:
    """The perturbations first: should the process be killed in between, the block is computed again and nothing is lost."""
    if keep == "worst":
        _, y = _examples(run.recipe.dataset, attempt.case.source, block)
        rank = _rank(result, y if attempt.case.source == "test" else None, label(attempt.case.threat))
        by = torch.full(rank.shape, int(attempt.key[:15], 16))
        name = _name(attempt.case)
        mine = Worst(delta, rank, by, frozenset([attempt.key]))
        run.save_worst(name, block, merged(mine, run.worst(name, block, attempt.data)), attempt.data)
    run.save_block(attempt, block, result)


def _rank(result: Block, y: Tensor | None, threat: str) -> Tensor:
    """How bad an example is: 1 + confidence if it is wrong, otherwise the confidence in the likeliest wrong class.

    Where a detector rejects, its score (between 0 and 1, by a sigmoid) is what counts in place of the confidence.
    """
    probabilities = result.probabilities.double()
    wrong = torch.ones(len(probabilities)) if y is None else (probabilities.argmax(1) != y).double()
    if result.scores:
        score = result.scores.get(threat, next(iter(result.scores.values()))).double()
        return (wrong if y is not None else 0) + score.sigmoid()
    if y is None:
        return probabilities.amax(1)
    return probabilities.scatter(1, y[:, None], 0).amax(1) + wrong


def _name(case: Case) -> str:
    """What the perturbations of a case are stored under, with those of others of the same threat and images."""
    return label(case.threat) if case.source == "test" else f"noise {label(case.threat)}"


def score(run: Run, x_adv: Tensor, threat: Threat, name: str, device: str) -> None:
    """Stores adversarial examples that were computed elsewhere as one more attempt.

    They belong to the first test images, whole blocks of them, and lie within the threat; what rounding adds is projected away.
    """
    with run.writing():
        images = counted(run.recipe.dataset)
        require_data(run)
        count = len(x_adv) if x_adv.ndim else 0
        whole = count % BLOCK == 0 or count == len(images)
        if x_adv.shape[1:] != images.x.shape[1:] or not whole or not 0 < count <= len(images):
            raise StageError(
                f"expected adversarial examples of the first test images, hundreds of them or all {len(images)}, "
                f"of shape {tuple(images.x.shape[1:])}, not {tuple(x_adv.shape)}"
            )
        x_adv = x_adv.float() / 255 if x_adv.dtype == torch.uint8 else x_adv.float()
        checked(images[:count].floats(), x_adv, threat, name)  # all, before any is stored
        if run.recipe.detector is not None:
            fit_missing(run, [threat], device, lambda *_: None)
        case = Case(name, name, threat, Given(hashlib.sha256(x_adv.numpy().tobytes()).hexdigest()), other_class_confidence)
        attempt = Attempt.of(case, 0, run.weights, data_digest(run.recipe.dataset))
        model = _model(run.path, run.weights, device)
        for block in range(-(-count // BLOCK)):
            x, y = _examples(run.recipe.dataset, case.source, block)
            given = x_adv[block * BLOCK : (block + 1) * BLOCK].to(device)
            result, delta = take_over(model, x.to(device), y.to(device), threat, lambda x, y, given=given: given, name)  # type: ignore[misc]
            if run.recipe.detector is not None:
                found = detectors_of(run.path, run.weights, tuple(run.detectors()), device)
                images_found = (x + delta).clamp(0, 1).to(device)
                result = replace(result, scores={name: found[name](images_found) for name in judges(case, found, run.first_detector())})
            _store(run, attempt, block, result, delta, "worst")


def export(run: Run, threat: Threat) -> dict[str, NDArray[Any]]:
    """The worst adversarial examples within a threat, as tables count them: arrays x, x_adv, y, prediction and confidence."""
    blocks = _kept(run, threat, "test")
    images = counted(run.recipe.dataset)[: len(blocks) * BLOCK]
    x_adv = (images.floats() + torch.cat([block.delta for block in blocks])).clamp(0, 1)
    confidence, prediction = probabilities_of(run.model(), x_adv).max(1)
    arrays = {"x": images.floats(), "x_adv": x_adv, "y": images.y, "prediction": prediction, "confidence": confidence}
    return {name: array.numpy() for name, array in arrays.items()}


def pictures(run: Run, group: Group, count: int) -> tuple[Picture, ...]:
    """The first attacked images with the worst that was found around them; none if the perturbations were not kept."""
    threat, source = parse_threat(group.threat), group.source
    try:
        delta = _kept(run, threat, source, blocks=1)[0].delta[:count]
    except StageError:
        return ()
    x, y = (part[:count] for part in _examples(run.recipe.dataset, source, 0))
    attacked = (x + delta).clamp(0, 1)
    clean, found = (probabilities_of(run.model(), images).max(1) for images in (x, attacked))
    return tuple(
        Picture(
            row,
            int(y[row]) if source == "test" else None,
            x[row].numpy(),
            attacked[row].numpy(),
            *((int(p.indices[row]), float(p.values[row])) for p in (clean, found)),
        )
        for row in range(len(x))
    )


def _kept(run: Run, threat: Threat, source: str, blocks: int | None = None) -> list[Worst]:
    """The worst perturbations within a threat, all blocks or the first ones."""
    data = data_digest(run.recipe.dataset)
    within = {
        attempt: len(stored)
        for attempt, stored in run.attempts()
        if attempt.case.source == source
        and contains(threat, attempt.case.threat)
        and attempt.weights == run.weights
        and attempt.data == data
    }
    if not within:
        raise StageError(f"{run.path} was not attacked within {label(threat)}: use a suite that has this threat")
    names = sorted({_name(attempt.case) for attempt in within})
    kept: list[Worst] = []
    while (blocks is None or len(kept) < blocks) and (found := [one for name in names if (one := run.worst(name, len(kept), data))]):
        kept.append(reduce(merged, found))
    wanted = {attempt.key: count if blocks is None else min(count, blocks) for attempt, count in within.items()}
    if any(count > len(kept) or any(key not in block.of for block in kept[:count]) for key, count in wanted.items()):
        raise StageError(f"{run.path} has not kept all perturbations within {label(threat)}: the same `ccat attack` with --keep worst does")
    return kept


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
