"""When an example needs no attacks: it is broken already, or nothing can break it.

It is broken if it is wrong, and accepted with a score that is enough. What is enough is the τ of a
low TPR, 90 % by default. It lies above the τ of every higher TPR, so at those nothing is lost by
leaving the example alone.

Nothing can break it if a certificate says that no wrong answer is possible at all, with whatever
confidence. Nothing is lost then at any τ, nor where nothing is rejected.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from ccat.attacking.block import Block
from ccat.attacking.case import Case
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.outcome import highest_tpr, threshold
from ccat.rejection import CONFIDENCE, Confidence, Rejection
from ccat.threats import Condition

TPR = 0.9
USUAL = 0.99  # the TPR at which errors are reported


class Certificate(NamedTuple):
    """A certificate by its name, and what it says is possible for each example."""

    name: str
    possible: Outcome


@dataclass(frozen=True, eq=False)
class Rest:
    """What rejects, and by judge the score that is enough; where there is none, nothing rests.

    `tau` is the usual threshold on the confidence, where the confidence rejects and there are
    enough calibration images for it. `certificates` are those by which examples rest, by the
    condition under which they do.
    """

    rejection: Rejection = field(default_factory=Confidence)
    enough: Mapping[str, float] = field(default_factory=dict)
    tau: float | None = None
    certificates: Mapping[Condition, Certificate] = field(default_factory=dict)

    def certified(self, condition: Condition, count: int) -> Tensor:
        """Return which of the first examples rest because nothing can break them, (count,)."""
        if condition not in self.certificates:
            return torch.zeros(count, dtype=torch.bool)
        return ~torch.from_numpy(self.certificates[condition].possible.wrong[:count])

    def broken(self, case: Case, block: Block, labels: Tensor) -> Tensor:
        """Return which examples of a block need no further attacks under a case's condition, (N,).

        On noise, which has no right answer, every answer is wrong. Where the goal is rejection an
        error is not enough, and nothing is.
        """
        judge = self.rejection.judge_of(case.condition, list(self.enough))
        if case.condition.rejects or judge not in self.enough or judge not in block.scores:
            return torch.zeros(len(block.value), dtype=torch.bool)
        wrong = block.probabilities.argmax(1) != labels.cpu()
        accepted = block.scores[judge].double() >= self.enough[judge]
        return accepted & (wrong | case.condition.on_noise)


def rest_at(
    rejection: Rejection, calibration: Mapping[str, Outcome], tpr: float | None
) -> tuple[Rest, float | None]:
    """Return when examples rest, and the TPR that decides it; None if nothing can rest.

    Args:
        rejection: What rejects.
        calibration: The raw outcomes of the calibration images, by judge.
        tpr: The TPR asked for; None: nothing rests. If the images are too few for it, nothing
            rests either.
    """
    counts = [int((~one.wrong).sum()) for one in calibration.values()]
    highest = highest_tpr(min(counts, default=0))
    known = CONFIDENCE in calibration and highest >= USUAL
    tau = threshold(calibration[CONFIDENCE], USUAL) if known else None
    if tpr is None or highest < tpr:
        return Rest(rejection, tau=tau), None
    enough = {judge: threshold(one, tpr) for judge, one in calibration.items()}
    return Rest(rejection, enough, tau), tpr


def best_certificates(
    conditions: Iterable[Condition], stored: Mapping[Condition, Certificate], count: int
) -> dict[Condition, Certificate]:
    """Return for each condition the certificate that leaves the fewest examples to attack.

    Args:
        conditions: What is attacked.
        stored: Certificates, by condition; one of a larger threat holds within a smaller one.
        count: How many examples are attacked. A certificate of fewer is not used: which examples
            rest would otherwise depend on when it was made.
    """
    found = {}
    for condition in conditions:
        fitting = [
            one
            for of, one in stored.items()
            if of.includes(condition) and len(one.possible) >= count
        ]
        sizes = [int((~one.possible.wrong[:count]).sum()) for one in fitting]
        if max(sizes, default=0) > 0:
            found[condition] = fitting[sizes.index(max(sizes))]
    return found


def rows(mask: Tensor) -> Sequence[int]:
    """Return the places where a mask (N,) is true, as a tuple."""
    return tuple(mask.nonzero()[:, 0].tolist())
