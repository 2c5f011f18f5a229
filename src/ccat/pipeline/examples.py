"""Adversarial examples in and out: scored, exported, shown."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ccat.attacking import BLOCK, Attempt, Case, Target, Worst, blocks_in, merge
from ccat.attacking.block import attack_block
from ccat.attacking.case import block_of
from ccat.attacking.worst import NOBODY, number_of
from ccat.attacks import External, Given
from ccat.attacks.external import checked_delta
from ccat.data import counted, data_digest
from ccat.data.images import to_floats
from ccat.errors import PipelineError
from ccat.evaluation.confusion import attacked_answers
from ccat.evaluation.results import Answers, Group, Picture, RunOutcomes
from ccat.objectives import lowest_confidence, other_class_confidence
from ccat.pipeline.answers import judges_of, model_of, require_data
from ccat.pipeline.collect import collect
from ccat.pipeline.detect import fit_missing
from ccat.pipeline.run_results import RunResults
from ccat.runs import Run
from ccat.threats import Condition, Linf, Threat, UnknownThreat, label


def score(run: Run, x_adv: Tensor, condition: Condition, name: str, device: str) -> None:
    """Store adversarial examples that were computed elsewhere as one more attempt.

    Args:
        run: A trained run.
        x_adv: Examples of the first test images, or of the first noise images, as floats or bytes.
        condition: What they are allowed; what rounding adds is projected away.
        name: What the attempt is called.
        device: Where to compute.

    Raises:
        PipelineError: If they are not examples of these images, or are stored under another name.
        ValueError: If one lies outside of the threat; then none is stored.
    """
    threat = condition.known_threat
    with run.writing():
        images = counted(run.recipe.dataset)
        require_data(run)
        count = len(x_adv) if x_adv.ndim else 0
        if x_adv.shape[1:] != images.x.shape[1:] or not 0 < count <= len(images):
            raise PipelineError(
                f"expected adversarial examples of the first test images, up to {len(images)} of "
                f"shape {tuple(images.x.shape[1:])}, not {tuple(x_adv.shape)}"
            )
        x_adv = to_floats(x_adv).float()
        blocks = [
            block_of(images.x, images.y, condition.source, n) for n in range(blocks_in(count))
        ]
        x = torch.cat([of for of, _ in blocks])[:count]
        checked_delta(x, x_adv, threat, name)
        data = data_digest(run.recipe.dataset)
        digest = hashlib.sha256(x_adv.numpy().tobytes()).hexdigest()
        objective = lowest_confidence if condition.rejects else other_class_confidence
        case = Case(name, threat, Given(digest), objective, source=condition.source)
        attempt = Attempt(case, 0, run.weights, data)
        _require_new(run, attempt)
        fit_missing(run, [threat], device, lambda *_: None)
        results = RunResults(run, data, tuple(run.answers.detectors()))
        model = model_of(run.path, run.weights, device)
        target = Target(model, run.rejection, judges_of(run, device))
        for n, (of, labels) in enumerate(blocks):
            given = x_adv[n * BLOCK : (n + 1) * BLOCK].to(device)
            attack = External(name, lambda x, y, given=given: given)  # type: ignore[misc]
            x, y = (one[: len(given)].to(device) for one in (of, labels))
            same = replace(case, attack=attack)
            found = attack_block(target, same, x, y, attempt.generator(n))
            results.keep(attempt, n, *found)


def _require_new(run: Run, attempt: Attempt) -> None:
    """Raise a PipelineError if the same examples are stored under another name."""
    for record, _, _ in run.attempts.records():
        if record.key == attempt.key and record.name != attempt.case.name:
            raise PipelineError(
                f"these examples are stored already, as {record.name!r}: an attempt keeps its name"
            )


def export(run: Run, within: Threat | Condition, device: str = "cpu") -> dict[str, NDArray[Any]]:
    """Return the worst adversarial examples of test images within a threat, as tables count them.

    Returns:
        Arrays x, x_adv, y, prediction and score; where no attempt succeeded x_adv is x.

    Raises:
        PipelineError: If the run was not attacked within the threat, or did not keep them.
    """
    condition = within if isinstance(within, Condition) else Condition(within)
    if condition.on_noise:
        raise PipelineError("examples of test images are exported, not of noise: leave distal out")
    outcomes = collect(run, device=device)
    group = _group(run, outcomes, condition)
    worst = kept_perturbations(run, outcomes, group)
    count = len(worst.by)
    images = counted(run.recipe.dataset)[:count]
    x = images.floats()
    answers = _answers(outcomes, group, worst)
    return {
        "x": x.numpy(),
        "x_adv": (x + worst.delta).clamp(0, 1).numpy(),
        "y": images.y.numpy(),
        "prediction": answers.predicted,
        "score": answers.outcome.score,
    }


def pictures(run: Run, outcomes: RunOutcomes, group: Group, count: int) -> tuple[Picture, ...]:
    """Return the first attacked images with the worst that was found around them.

    Returns:
        Pictures with the answers that tables count; none if the perturbations were not kept.
    """
    try:
        worst = kept_perturbations(run, outcomes, group, blocks=1)
    except PipelineError:
        return ()
    images = counted(run.recipe.dataset)
    worst, count = _counted(outcomes, group, worst), min(count, len(worst.by))
    x, y = (part[:count] for part in block_of(images.x, images.y, group.condition.source, 0))
    attacked = (x + worst.delta[:count]).clamp(0, 1)
    clean, found = outcomes.clean[group.judge], _answers(outcomes, group, worst)
    noise = group.condition.on_noise
    return tuple(
        Picture(
            row,
            None if noise else int(y[row]),
            x[row].numpy(),
            attacked[row].numpy(),
            None if noise else (int(clean.predicted[row]), float(clean.outcome.score[row])),
            (int(found.predicted[row]), float(found.outcome.score[row])),
        )
        for row in range(count)
    )


def _counted(outcomes: RunOutcomes, group: Group, worst: Worst) -> Worst:
    """The same perturbations, but none where the image itself is wrong and surer of it."""
    if not group.condition.on_errors:
        return worst
    _, by = attacked_answers(outcomes, group)
    kept = torch.from_numpy(by[: len(worst.by)] >= 0)
    delta = torch.where(kept[:, None, None, None], worst.delta, 0)
    return Worst(delta, worst.score, torch.where(kept, worst.by, NOBODY), worst.of)


def _answers(outcomes: RunOutcomes, group: Group, worst: Worst) -> Answers:
    """The answers to the worst perturbations; the clean ones where no attempt succeeded."""
    count = len(worst.by)
    given = outcomes.clean[group.judge][:count]
    predicted, wrong = given.predicted.copy(), given.outcome.wrong.copy()
    score = given.outcome.score.copy()
    for member in group.members:
        attempt = outcomes.attempts[member]
        rows = np.flatnonzero(worst.by.numpy() == number_of(attempt.key))
        found = attempt.answers[group.judge]
        predicted[rows], wrong[rows] = found.predicted[rows], found.outcome.wrong[rows]
        score[rows] = found.outcome.score[rows]
    return Answers(predicted, type(given.outcome)(wrong, score))


def _group(run: Run, outcomes: RunOutcomes, condition: Condition) -> Group:
    for group in outcomes.groups:
        if group.condition == condition:
            return group
    inside = [n for n, one in enumerate(outcomes.attempts) if condition.includes(one.condition)]
    if not inside:
        raise PipelineError(
            f"{run.path} was not attacked within {condition.title}: use a suite with this threat"
        )
    judge = outcomes.judge if outcomes.shared_judge else label(condition.threat)
    members = [n for n in inside if judge in outcomes.attempts[n].answers]
    return Group(condition, False, judge, tuple(members))


def kept_perturbations(
    run: Run, outcomes: RunOutcomes, group: Group, blocks: int | None = None
) -> Worst:
    """Return the worst perturbations of a group, all blocks or the first ones.

    Raises:
        PipelineError: If those of some attempt were not kept.
    """
    attempts = [outcomes.attempts[member] for member in group.members]
    conditions = sorted({one.condition for one in attempts}, key=lambda one: one.key)
    data = data_digest(run.recipe.dataset)
    sizes = [blocks_in(len(one.answers[group.judge].predicted)) for one in attempts]
    count = min(sizes) if blocks is None else min(blocks, *sizes)
    kept: list[Worst] = []
    for block in range(count):
        found = []
        for condition in conditions:
            one = run.attempts.worst(condition, group.judge, block, run.weights, data)
            if one is not None:
                _require_allowed(run, condition, block, one)
                found.append(one)
        worst = reduce(merge, found) if found else None
        if worst is None or any(one.key not in worst.of for one in attempts):
            raise PipelineError(
                f"{run.path} has not kept all perturbations within {group.condition.title}: the "
                f"same `ccat attack` with --keep worst does"
            )
        kept.append(worst)
    examples = min(one.examples for one in attempts)
    joined = _first(_joined(kept), examples if blocks is None else min(examples, count * BLOCK))
    known = {NOBODY, *(number_of(one.key) for one in attempts)}
    if not set(joined.by.tolist()) <= known:
        raise PipelineError(
            f"{run.path} has perturbations of attempts that are gone: delete its folder worst and "
            f"run the same `ccat attack` again"
        )
    return joined


def _require_allowed(run: Run, condition: Condition, block: int, worst: Worst) -> None:
    """Raise a PipelineError if kept perturbations are none of these images within the threat.

    Whether they lie within a threat of somebody else's class is not known unless it is trusted.
    """
    images = counted(run.recipe.dataset)
    x, _ = block_of(images.x, images.y, condition.source, block)
    x = x[: len(worst.delta)]
    if worst.delta.shape != x.shape:
        wrong = f"are of {tuple(worst.delta.shape)}, not of {tuple(x.shape)}"
    else:
        try:
            threat = condition.threat
            known = Linf(1.0) if isinstance(threat, UnknownThreat) else threat
            checked_delta(x, x + worst.delta, known, "a perturbation")
            return
        except ValueError as outside:
            wrong = f"are not allowed ({outside})"
    raise PipelineError(
        f"{run.path}: the perturbations kept within {condition.title}, of the block that begins "
        f"at example {block * BLOCK}, {wrong}: delete its folder worst and run the same `ccat "
        f"attack` again"
    )


def _first(worst: Worst, count: int) -> Worst:
    return Worst(worst.delta[:count], worst.score[:count], worst.by[:count], worst.of)


def _joined(parts: Sequence[Worst]) -> Worst:
    columns = [[getattr(part, name) for part in parts] for name in ("delta", "score", "by")]
    delta, scores, by = (torch.cat(column) for column in columns)
    return Worst(delta, scores, by, frozenset.union(*(part.of for part in parts)))
