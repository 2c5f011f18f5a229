"""When an example needs no further attacks: it is wrong, and accepted with a score that is enough.

What is enough is the τ of a low TPR, 90 % by default. It lies above the τ of every higher TPR, so
at those nothing is lost by leaving the example alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ccat.attacking.block import Block
from ccat.attacking.case import Case
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.outcome import highest_tpr, threshold
from ccat.rejection import CONFIDENCE, Confidence, Rejection

TPR = 0.9
USUAL = 0.99  # the TPR at which errors are reported


@dataclass(frozen=True, eq=False)
class Rest:
    """What rejects, and by judge the score that is enough; where there is none, nothing rests.

    `tau` is the usual threshold on the confidence, where the confidence rejects and there are
    enough calibration images for it.
    """

    rejection: Rejection = field(default_factory=Confidence)
    enough: Mapping[str, float] = field(default_factory=dict)
    tau: float | None = None

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


def rows(mask: Tensor) -> Sequence[int]:
    """Return the places where a mask (N,) is true, as a tuple."""
    return tuple(mask.nonzero()[:, 0].tolist())
