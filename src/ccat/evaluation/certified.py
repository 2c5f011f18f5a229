"""Errors from above: what certificates allow at most, beside what attacks found at least.

A certificate is an `Outcome` of what is possible: whether a wrong answer is, and the highest
confidence it can have. An image whose confidence stays below τ is certified at τ, and every metric
of attacks is one of certificates as well. With U images that are not certified and A certified ones
that are accepted clean, RErr(τ) ≤ U / (U + A): the definition of RErr, with the worst that is
possible in place of the worst that was found.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ccat.errors import PipelineError
from ccat.evaluation.groups import pooled_outcome
from ccat.evaluation.outcome import Outcome
from ccat.evaluation.rates import Levels, rates_of
from ccat.evaluation.run_outcomes import RunOutcomes

if TYPE_CHECKING:
    from ccat.threats import Condition


@dataclass(frozen=True, eq=False)
class Between:
    """An error under one condition from both sides, over the same images.

    Attributes:
        upper: The levels of what is possible.
        lower: The levels of what attacks found; None if the condition was not attacked.
    """

    upper: Levels
    lower: Levels | None

    @property
    def images(self) -> int:
        """The number of images."""
        return len(self.upper.part)


def between(run: RunOutcomes, condition: "Condition") -> Between:
    """Return the headline rate under a certified condition, from both sides.

    Raises:
        PipelineError: If an image was found that the certificate excludes.
    """
    possible, judged = run.certified[condition], run.clean_answers.outcome
    require_consistent(run, condition)
    group = next((group for group in run.groups if group.condition == condition), None)
    found = None if group is None else pooled_outcome(run, group)
    size = min(len(possible), len(judged), len(judged) if found is None else len(found[0]))
    rate = rates_of(condition)[0]
    upper = rate(judged[:size], possible[:size])
    return Between(upper, None if found is None else rate(found[0][:size], found[1][:size]))


def require_consistent(run: RunOutcomes, condition: "Condition") -> None:
    """Raise a PipelineError if an image is wrong with more confidence than the certificate allows.

    Images are those that attacks within the condition found and, unless noise is attacked, the
    clean ones: they lie in the box as well.
    """
    possible = run.certified[condition]
    found = {
        f"{attempt.title} ({attempt.condition.title})": attempt.answers[run.judge].outcome
        for attempt in run.attempts
        if condition.includes(replace(attempt.condition, goal="error"))
        and run.judge in attempt.answers
    }
    if not condition.on_noise:
        found["no attack, the clean image"] = run.clean_answers.outcome
    for name, outcome in found.items():
        _require_within(run.run, condition, name, outcome, possible)


def _require_within(
    run: str, condition: "Condition", name: str, found: Outcome, possible: Outcome
) -> None:
    size = min(len(found), len(possible))
    allowed = np.where(possible.wrong, possible.score, -np.inf)[:size]
    beyond = found.wrong[:size] & (found.score[:size] > allowed)
    if beyond.any():
        row = int(beyond.argmax())
        limit = f"at most {allowed[row]:.6f}" if possible.wrong[row] else "that none is possible"
        raise PipelineError(
            f"{run}, {condition.title}: the certificate of image {row} says of wrong answers "
            f"{limit}, but {name} found one with {found.score[row]:.6f}. One of them is wrong, and "
            f"nothing is evaluated: this is a bug in ccat, or the model computes otherwise than "
            f"its layers say. Delete the run's folder certificates to go on without them, and "
            f"attack it again: what is certified was not attacked"
        )
