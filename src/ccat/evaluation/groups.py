"""Attempts that count together: how they are grouped, and what a group found.

Shapes: asked, errors, wrong, score (N,).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.once import once
from ccat.evaluation.outcome import Floats, Integers, Outcome, lowest_of, threshold, worst_of
from ccat.evaluation.rates import ACCEPTED_NOISE, AVAILABILITY, FPR, TPR, Levels, rates_of
from ccat.evaluation.run_outcomes import Answers, Group, RunOutcomes

if TYPE_CHECKING:
    from ccat.threats import Condition


def group_attempts(
    conditions: Sequence["Condition"],
    judge_of: Callable[["Condition"], str],
    seen: Callable[["Condition"], bool],
) -> tuple[Group, ...]:
    """Return one group for each distinct condition, in the order of tables.

    A larger ε includes what was found at a smaller one: the members are all attempts whose
    condition the group's condition includes.

    Args:
        conditions: Of the attempts, in their order.
        judge_of: Who scores images under a condition.
        seen: Whether training has seen a condition.
    """
    return tuple(
        Group(
            condition,
            seen(condition),
            judge_of(condition),
            tuple(n for n, other in enumerate(conditions) if condition.includes(other)),
        )
        for condition in sorted(set(conditions), key=lambda condition: condition.order)
    )


def families(run: RunOutcomes, group: Group) -> dict[str, Group]:
    """Return the parts of a group by family of attacks, in the order of the attempts."""
    members: dict[str, list[int]] = {}
    for member in group.members:
        members.setdefault(run.attempts[member].family, []).append(member)
    return {name: replace(group, members=tuple(part)) for name, part in members.items()}


def singles(group: Group) -> list[Group]:
    """Return one group for each attempt of a group."""
    return [replace(group, members=(member,)) for member in group.members]


def pooled_outcome(run: RunOutcomes, group: Group) -> tuple[Outcome, Outcome]:
    """Return the clean and the worst attacked outcome of the images that all attempts attacked.

    The worst is the highest-scored error, or the lowest score where the attacker wants rejection.
    """
    clean, adversarial, _ = _pooled(run, group)
    return clean.outcome, adversarial


@once
def pooled_answers(run: RunOutcomes, group: Group) -> tuple[Answers, Integers]:
    """Return the answers in the worst case, and the number of the attempt that each comes from.

    The number is −1 where no attempt succeeded; the answer is the clean one there.
    """
    clean, adversarial, by = _pooled(run, group)
    predicted = clean.predicted.copy()
    for member in np.unique(by[by >= 0]):
        rows = by == member
        theirs = run.attempts[member].answers[group.judge].predicted
        predicted[rows] = theirs[: len(rows)][rows]
    return Answers(predicted, adversarial), by


def headline(run: RunOutcomes, group: Group) -> Levels:
    """Return the levels of the rate that tables of several threats show."""
    return rates_of(group.condition)[0](*pooled_outcome(run, group))


def asked(run: RunOutcomes, group: Group) -> NDArray[np.bool_]:
    """Return which images any attempt of a group attacked, of those that all of them have."""
    masks = [run.attempts[member].asked for member in group.members]
    found = np.zeros(min(map(len, masks)), dtype=np.bool_)
    for mask in masks:
        found |= mask[: len(found)]
    return found


def accepted_errors(run: RunOutcomes, group: Group, tau: float) -> NDArray[np.bool_]:
    """Return which images an attempt of a group turned into an error that τ accepts."""
    found = np.zeros(_examples(run, group), dtype=np.bool_)
    rows = slice(len(found))
    for attempt in (run.attempts[member] for member in group.members):
        one = attempt.answers[group.judge].outcome
        found |= attempt.asked[rows] & one.wrong[rows] & (one.score[rows] >= tau)
    return found


def rejected(run: RunOutcomes, group: Group, tau: float) -> NDArray[np.bool_]:
    """Return which images, correct and accepted when clean, an attempt of a group gets rejected."""
    clean, adversarial = pooled_outcome(run, group)
    mine = ~clean.wrong & (clean.score >= tau)
    return mine & (adversarial.score < tau)


def broken(run: RunOutcomes, group: Group, tau: float) -> NDArray[np.bool_]:
    """Return on which images an attempt of a group reached its goal: accepted error, rejection."""
    return (rejected if group.condition.rejects else accepted_errors)(run, group, tau)


def rested_at(run: RunOutcomes, group: Group, tau: float) -> float | None:
    """Return the TPR at whose τ attacks of a group ended on an image, if that lies below this τ.

    What they found is a lower bound at this τ then. None where they went on far enough.
    """
    rests = {run.attempts[member].rest_at for member in group.members} - {None}
    for rest in sorted(one for one in rests if one is not None):
        if tau > threshold(run.calibration, rest) + 1e-12:
            return rest
    return None


def without_gradient(run: RunOutcomes, group: Group) -> float:
    """Return the share of images that had no gradient, in the attempt where they are fewest."""
    attempts = [run.attempts[member] for member in group.members]
    shares = [one.no_gradient / one.examples for one in attempts if one.backwards]
    return min(shares, default=0.0)


def told_apart(run: RunOutcomes, group: Group) -> tuple[Floats, Floats]:
    """Return the scores of what should be accepted and of what should be rejected; NaN: neither.

    These are the correctly classified of all clean images, and the successful adversarial examples;
    under a condition on noise all of the noise. Where the attacker wants rejection they are the
    correctly classified images, as attacked.
    """
    clean, adversarial = pooled_outcome(run, group)
    negatives = ACCEPTED_NOISE if group.condition.on_noise else FPR
    negatives = AVAILABILITY if group.condition.rejects else negatives
    return TPR(run.clean[group.judge].outcome).part, negatives(clean, adversarial).part


def _pooled(run: RunOutcomes, group: Group) -> tuple[Answers, Outcome, Integers]:
    """Return the clean answers, the worst outcome, and whose it is, of the images of all attempts.

    Those of several attempts are kept; there are few such groups, but as many single attempts as
    were made.
    """
    return (_pooled_once if len(group.members) > 1 else _pooled_now)(run, group)


def _pooled_now(run: RunOutcomes, group: Group) -> tuple[Answers, Outcome, Integers]:
    clean = run.clean[group.judge][: _examples(run, group)]
    rows = slice(len(clean.predicted))
    found = (run.attempts[member].answers[group.judge].outcome[rows] for member in group.members)
    rejects = group.condition.rejects
    adversarial, index = lowest_of(found) if rejects else worst_of(clean.outcome, found)
    return clean, adversarial, np.array([*group.members, -1])[index]  # −1 is the last one


_pooled_once = once(_pooled_now)


def _examples(run: RunOutcomes, group: Group) -> int:
    """Return how many images all attempts of a group were made for."""
    return min(run.attempts[member].examples for member in group.members)
