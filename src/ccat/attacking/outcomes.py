"""From blocks to outcomes: what a classifier answered, whether it was wrong, and how it was judged.

Probabilities (N, K) of one attempt at a time become `AttemptOutcomes`; attempts become groups.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ccat.attacking.block import Block
from ccat.attacking.case import AttemptRecord
from ccat.evaluation import metrics
from ccat.evaluation.groups import group_attempts
from ccat.evaluation.metrics import Floats, Outcome
from ccat.evaluation.results import Answers, AttemptOutcomes, Group, Integers
from ccat.rejection import Rejection
from ccat.threats import Condition, Threat, UnknownThreat, contains

Scale = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Clean:
    """The answers to clean images, by judge, and how each judge's scores are scaled.

    `calibration` are the outcomes of the images that choose τ, `raw` the same before scaling.
    """

    counted: Mapping[str, Answers]
    calibration: Mapping[str, Outcome]
    raw: Mapping[str, Outcome]
    scale: Mapping[str, Scale]


def clean_outcomes(
    rejection: Rejection,
    probabilities: NDArray[np.float32],
    scores: Mapping[str, Floats],
    labels: Integers,
    calibration: int,
) -> Clean:
    """Return what a model answers to clean images, the last `calibration` of which choose τ.

    Args:
        rejection: What rejects.
        probabilities: Of all images (N, K).
        scores: Of all images, by judge.
        labels: Of all images.
        calibration: How many of the last images choose τ and are not counted.
    """
    given = answers(probabilities, labels)
    scale: dict[str, Scale] = {}
    counted, chosen, before = {}, {}, {}
    for judge, raw in scores.items():
        reference = Outcome(given.outcome.wrong[-calibration:], raw[-calibration:])
        before[judge] = reference
        scale[judge] = lambda values, by=reference: rejection.scaled(values, by)  # type: ignore[misc]
        scaled = Answers(given.predicted, Outcome(given.outcome.wrong, scale[judge](raw)))
        counted[judge] = scaled[:-calibration]
        chosen[judge] = scaled[-calibration:].outcome
    return Clean(counted, chosen, before, scale)


def answers(probabilities: NDArray[np.float32], labels: Integers) -> Answers:
    """Return the answers that probabilities (N, K) amount to, scored by their confidence."""
    return Answers(probabilities.argmax(1), metrics.outcome(probabilities, labels))


def attempt_outcomes(
    record: AttemptRecord, blocks: Sequence[Block], labels: Integers, scale: Mapping[str, Scale]
) -> AttemptOutcomes:
    """Return an attempt as outcomes, judged by every judge that scored all of its blocks."""
    probabilities = np.concatenate([block.probabilities.numpy() for block in blocks])
    given = answers(probabilities, labels[: len(probabilities)])
    noise = record.condition.on_noise
    wrong = np.ones(len(probabilities), dtype=np.bool_) if noise else given.outcome.wrong
    judged = {}
    for judge, scaled in scale.items():
        if all(judge in block.scores for block in blocks):
            raw = np.concatenate([block.scores[judge].double().numpy() for block in blocks])
            judged[judge] = Answers(given.predicted, Outcome(wrong, scaled(raw)))
    return AttemptOutcomes(
        record.key,
        record.name,
        record.family,
        record.condition,
        record.restart,
        record.aware,
        judged,
        sum(block.forwards for block in blocks),
        sum(block.backwards for block in blocks),
        sum(block.seconds for block in blocks),
        sum(block.no_gradient for block in blocks),
        sum(block.rising for block in blocks),
        np.concatenate([block.asked.numpy() for block in blocks]),
        record.rest_at,
        record.position,
        np.concatenate([block.certified.numpy() for block in blocks]),
    )


def grouped(
    attempts: Sequence[AttemptOutcomes],
    rejection: Rejection,
    fitted: Sequence[str],
    seen: Iterable[Threat | UnknownThreat],
) -> tuple[Group, ...]:
    """Return one group per condition attacked: the attempts that count for it, and its judge.

    An attempt that the group's judge has not scored is left out.
    """
    known = tuple(seen)

    def is_seen(condition: Condition) -> bool:
        other = condition.on_noise or condition.rejects
        return not other and any(contains(one, condition.threat) for one in known)

    found = group_attempts(
        [attempt.condition for attempt in attempts],
        lambda condition: rejection.judge_of(condition, fitted),
        is_seen,
    )
    judged = [
        replace(
            group, members=tuple(m for m in group.members if group.judge in attempts[m].answers)
        )
        for group in found
    ]
    return tuple(group for group in judged if group.members)
