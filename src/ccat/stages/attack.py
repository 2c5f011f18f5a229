"""Attacking: every case of a suite against a trained run, block by block; and adversarial examples in and out.

A block's random numbers depend on the case, the restart and the block alone, so results do not depend on how many examples are asked
for, on the order, or on the number of workers.
"""

import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from ccat import engine
from ccat.attacks import Problem
from ccat.objectives import other_class_confidence
from ccat.recipes import Case, Given, label
from ccat.stages.shared import HELD_OUT, Progress, StageError, data_digest, images_of, probabilities_of
from ccat.store import BLOCK, Attempt, Block, Run
from ccat.threats import Threat

Keep = Literal["worst", "none"]


class Unit(NamedTuple):
    """One block of one attempt, as a worker gets it."""

    run: Path
    attempt: Attempt
    block: int
    device: str


def attack(run: Run, suite: Sequence[Case], examples: int, workers: int, device: str, progress: Progress, keep: Keep = "worst") -> int:
    """Runs what is not stored yet of a suite on the first test images; gives the number of blocks computed."""
    with run.writing():
        _require_examples(run, examples)
        data = data_digest(run.recipe.dataset)
        attempts = [Attempt(case, restart, run.weights, data) for case in suite for restart in range(case.restarts)]
        units = [
            Unit(run.path, attempt, block, device)
            for attempt in attempts
            for block in range(-(-examples // BLOCK))
            if not run.has_block(attempt, block)
        ]
        progress(0, len(units), "")
        for done, (unit, (result, delta)) in enumerate(engine.run(_compute, units, workers), start=1):
            _store(run, unit.attempt, unit.block, result, delta, keep)
            case = unit.attempt.case
            progress(done, len(units), f"{label(case.threat)} {case.name}" + (" on noise" if case.source == "noise" else ""))
        return len(units)


def _compute(unit: Unit) -> tuple[Block, Tensor]:
    begin = time.monotonic()
    attempt, device = unit.attempt, unit.device
    model = _model(unit.run, attempt.weights, device)
    x, y = _examples(Run.open(unit.run).recipe.dataset, attempt.case, unit.block)
    problem = Problem.of(model, x.to(device), y.to(device), attempt.case.threat, attempt.case.objective)
    try:
        found = attempt.case.attack(problem, Generator().manual_seed(attempt.seed_of(unit.block)))
    except ValueError as wrong:
        first = unit.block * BLOCK
        raise StageError(f"{label(attempt.case.threat)} {attempt.case.name}, in the block from example {first} on: {wrong}") from wrong
    probabilities = probabilities_of(model, problem.images(found))
    counts = problem.counts
    block = Block(probabilities, found.value.cpu(), time.monotonic() - begin, counts.forwards, counts.backwards)
    return block, found.delta.cpu()


@lru_cache(maxsize=1)
def _model(path: Path, weights: str, device: str) -> nn.Module:
    return Run.open(path).model().to(device)


def _examples(dataset: str, case: Case, block: int) -> tuple[Tensor, Tensor]:
    """The images of a block and their labels; noise has none, so its labels say nothing."""
    images = images_of(dataset, "test")
    part = images[block * BLOCK : (block + 1) * BLOCK]
    if case.source == "test":
        return part.floats(), part.y
    noise = torch.rand(part.x.shape, generator=Generator().manual_seed(block))
    return noise, torch.zeros_like(part.y)


def _store(run: Run, attempt: Attempt, block: int, result: Block, delta: Tensor, keep: Keep) -> None:
    """The perturbations first: should the process be killed in between, the block is computed again and nothing is lost."""
    if keep == "worst":
        case = attempt.case
        name = worst_name(case.threat, case.source)
        _, y = _examples(run.recipe.dataset, case, block)
        rank = _rank(result.probabilities, y if case.source == "test" else None)
        stored = run.worst(name, block)
        if stored is not None:
            better = rank > stored["rank"]
            delta = torch.where(better[:, None, None, None], delta, stored["delta"])
            rank = torch.where(better, rank, stored["rank"])
        run.save_worst(name, block, {"delta": delta, "rank": rank})
    run.save_block(attempt, block, result)


def _rank(probabilities: Tensor, y: Tensor | None) -> Tensor:
    """How bad an example is: 1 + confidence if it is wrong, otherwise the confidence in the likeliest wrong class."""
    if y is None:
        return probabilities.amax(1)
    other = probabilities.scatter(1, y[:, None], 0).amax(1)
    return other + (probabilities.argmax(1) != y)


def worst_name(threat: Threat, source: str) -> str:
    """What the perturbations of a threat are stored under."""
    return label(threat) if source == "test" else f"noise {label(threat)}"


def score(run: Run, x_adv: Tensor, threat: Threat, name: str, device: str) -> float:
    """Stores adversarial examples that were computed elsewhere as one more attempt; gives the largest size they had.

    They belong to the first test images, whole blocks of them. Whatever lies outside the threat is projected into it.
    """
    with run.writing():
        images = images_of(run.recipe.dataset, "test")
        count = len(x_adv)
        if x_adv.shape[1:] != images.x.shape[1:] or count % BLOCK or not count:
            raise StageError(
                f"expected adversarial examples of the first test images, some hundreds of shape {tuple(images.x.shape[1:])}, "
                f"not {tuple(x_adv.shape)}"
            )
        _require_examples(run, count)
        x_adv = x_adv.float() / 255 if x_adv.dtype == torch.uint8 else x_adv.float()
        Problem(x_adv, threat, lambda image, rows: rows)  # are these images?
        case = Case(name, name, threat, Given(hashlib.sha256(x_adv.numpy().tobytes()).hexdigest()), other_class_confidence)
        attempt = Attempt(case, 0, run.weights, data_digest(run.recipe.dataset))
        model = run.model().to(device)
        for block in range(count // BLOCK):
            begin = time.monotonic()
            x, y = _examples(run.recipe.dataset, case, block)
            problem = Problem.of(model, x.to(device), y.to(device), threat, case.objective)
            found = problem.at((x_adv[block * BLOCK : (block + 1) * BLOCK] - x).to(device))
            probabilities = probabilities_of(model, problem.images(found))
            result = Block(probabilities, found.value.cpu(), time.monotonic() - begin, problem.counts.forwards, 0)
            _store(run, attempt, block, result, found.delta.cpu(), "worst")
        return threat.size(x_adv - images[:count].floats()).max().item()


def export(run: Run, threat: Threat) -> dict[str, np.ndarray]:
    """The worst adversarial examples found for a threat: arrays x, x_adv, y, prediction and confidence."""
    images = images_of(run.recipe.dataset, "test")
    blocks: list[Tensor] = []
    while (stored := run.worst(worst_name(threat, "test"), len(blocks))) is not None:
        blocks.append(stored["delta"])
    if not blocks:
        raise StageError(f"{run.path} has no perturbations for {label(threat)}: run `ccat attack` with a suite that has this threat")
    delta = torch.cat(blocks)
    x, y = images[: len(delta)].floats(), images[: len(delta)].y
    x_adv = (x + delta).clamp(0, 1)
    confidence, prediction = probabilities_of(run.model(), x_adv).max(1)
    arrays = {"x": x, "x_adv": x_adv, "y": y, "prediction": prediction, "confidence": confidence}
    return {name: array.numpy() for name, array in arrays.items()}


def _require_examples(run: Run, examples: int) -> None:
    most = len(images_of(run.recipe.dataset, "test")) - HELD_OUT
    if not 1 <= examples <= most:
        raise StageError(f"--examples must be 1 to {most}, not {examples}: the last {HELD_OUT} test images choose the threshold")
