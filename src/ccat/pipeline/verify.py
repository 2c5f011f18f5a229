"""Verify a run: every file is what it says, and the model still answers what is stored."""

from collections.abc import Iterator

import numpy as np
import torch

from ccat.attacking import BLOCK, blocks_in
from ccat.attacking.case import block_of
from ccat.attacking.worst import NOBODY
from ccat.bounds import Bounds, certify
from ccat.data import counted, split_of
from ccat.errors import PipelineError
from ccat.evaluation.results import RunOutcomes
from ccat.models.predict import probabilities
from ccat.pipeline.answers import clean_probabilities, judges_of
from ccat.pipeline.benchmark import card_problems
from ccat.pipeline.classifier import threshold_problems
from ccat.pipeline.collect import collect
from ccat.pipeline.examples import kept_perturbations
from ccat.progress import Progress
from ccat.runs import Run, RunError
from ccat.runs.verify import problems
from ccat.threats import UnknownThreat

_TOLERANCE = 1e-4  # relative, of a score that is computed again, perhaps on another device


def verify(run: Run, sample: int, device: str, progress: Progress) -> tuple[list[str], int]:
    """Read every file of a run, and score a sample of its kept perturbations again.

    Args:
        run: The run.
        sample: How many images of each condition are scored again, of every block in turn.
        device: Where to compute.
        progress: Called after each condition.

    Returns:
        What is wrong, one sentence each, and how many perturbed images were scored again.
    """
    found = list(problems(run))
    if found or not run.training.trained:
        return found, 0
    try:
        found += _clean(run, sample, device)
        outcomes = collect(run, device=device)
        scored = 0
        for done, group in enumerate(outcomes.groups, start=1):
            wrong, count = _group(run, outcomes, done - 1, sample, device)
            found, scored = [*found, *wrong], scored + count
            progress(done, len(outcomes.groups), group.condition.title)
        found += _certificates(run, outcomes, sample, device)
        found += _resting(run, outcomes)
        found += threshold_problems(run)
        found += card_problems(run, outcomes)
    except (RunError, PipelineError, ValueError) as damaged:
        return [*found, str(damaged)], 0
    return found, scored


def _clean(run: Run, sample: int, device: str) -> Iterator[str]:
    stored = clean_probabilities(run, device)[:sample]
    x = split_of(run.recipe.dataset, "test").x[:sample]
    again = probabilities(run.training.model().to(device), x)
    if (stored - again).abs().max() > _TOLERANCE:
        row = int((stored - again).abs().amax(1).argmax())
        yield f"{run.path}: the model answers test image {row} otherwise than is stored"


def _certificates(run: Run, outcomes: RunOutcomes, sample: int, device: str) -> Iterator[str]:
    """Bound images of every certificate again, of every block in turn."""
    model, images = run.training.model().to(device), counted(run.recipe.dataset)
    for condition, stored in outcomes.certified.items():
        if isinstance(condition.threat, UnknownThreat):
            yield f"{run.path}: --trust is needed to verify the certificate of {condition.title}"
            continue
        linear = run.certificates.bounds_of(condition) == "linear"
        bounds: Bounds = "linear" if linear else "interval"
        blocks = blocks_in(len(stored))
        for block in range(blocks):
            x, y = block_of(images.x, images.y, condition.source, block)
            mine = stored[block * BLOCK : (block + 1) * BLOCK][: -(-sample // blocks)]
            x, y = (part[: len(mine)].to(device) for part in (x, y))
            labels = None if condition.on_noise else y
            again = certify(model, x, labels, condition.threat, bounds=bounds)
            off = (again.wrong != mine.wrong) | (np.abs(again.score - mine.score) > _TOLERANCE)
            if off.any():
                yield (
                    f"{run.path}: within {condition.title} the certificate of image "
                    f"{block * BLOCK + int(off.argmax())} is not what the model's bounds give"
                )
                break


def _resting(run: Run, outcomes: RunOutcomes) -> Iterator[str]:
    """Look for images that rested by a certificate that the run does not hold."""
    for attempt in outcomes.attempts:
        left = attempt.certified.copy()
        for condition, possible in outcomes.certified.items():
            if condition.includes(attempt.condition):
                left[: len(possible)] &= possible.wrong[: len(left)]
        if left.any():
            yield (
                f"{run.path}: {attempt.title} did not attack image {int(left.argmax())} because it "
                f"is certified within {attempt.condition.title}, and no stored certificate says so"
            )


def _group(
    run: Run, outcomes: RunOutcomes, number: int, sample: int, device: str
) -> tuple[list[str], int]:
    group = outcomes.groups[number]
    try:
        worst = kept_perturbations(run, outcomes, group)
    except PipelineError as not_kept:
        return ([] if "not kept" in str(not_kept) else [str(not_kept)]), 0
    images = counted(run.recipe.dataset)
    model, judge = run.training.model().to(device), judges_of(run, device)[group.judge]
    scored, blocks = 0, blocks_in(len(worst.by))
    for block in range(blocks):
        x, y = block_of(images.x, images.y, group.condition.source, block)
        first = block * BLOCK
        by = worst.by[first : first + BLOCK]
        rows = (by != NOBODY).nonzero()[:, 0][: -(-sample // blocks)]
        if len(rows) == 0:
            continue
        attacked = (x[rows] + worst.delta[first + rows]).clamp(0, 1).to(device)
        given = probabilities(model, attacked)
        score = judge(attacked, given).double()
        stored = worst.score[first + rows].double() * (-1 if group.condition.rejects else 1)
        off = (score - stored).abs() > _TOLERANCE * (score.abs() + 1e-3)
        if not (group.condition.on_noise or group.condition.rejects):
            off |= given.argmax(1) == y[rows]
        if off.any():
            row = first + int(rows[int(torch.nonzero(off)[0])])
            where = f"{run.path}: within {group.condition.title}"
            return [f"{where} the model answers example {row} otherwise than is stored"], scored
        scored += len(rows)
    return [], scored
