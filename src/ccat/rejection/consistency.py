"""Rejection where a small step changes the answer (consistent prediction, Chen et al. 2023).

The score is min log f_ŷ(x+δ) over ‖δ‖∞ ≤ ε with x+δ in [0,1], where ŷ is the answer at x: how sure
the model stays of its answer within a small box. A few steps of PGD look for the minimum, so what
they find is an upper bound of it. There is nothing to fit.

Shapes: images (N, C, H, W), logits (N, K), answers and scores (N,).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ccat.attacks import PGD, Problem
from ccat.checks import require_count, require_number
from ccat.evaluation.metrics import Floats, Outcome
from ccat.models import attack_copy
from ccat.rejection.aware import Aware
from ccat.rejection.protocol import Judge, Rejection, Tensors
from ccat.threats import Condition, Linf

CONSISTENCY = "consistency"  # the name of its only judge
_BATCH = 250


@dataclass(frozen=True)
class Consistency(Rejection):
    """Reject answers that the model is not sure of everywhere within an L∞ ball of size `epsilon`.

    `iterations` steps of sign gradients, each `rate` times `epsilon` long, look for the point where
    it is least sure. They start from the image, so that the score is no matter of chance.
    """

    epsilon: float = 0.1
    iterations: int = 10
    rate: float = 0.25

    def __post_init__(self) -> None:
        require_number("Consistency: epsilon", self.epsilon, 0, 1, high_too=True)
        require_count("Consistency: iterations", self.iterations)
        require_number("Consistency: rate", self.rate, 0)

    @property
    def title(self) -> str:
        return f"consistency {self.epsilon:g}"

    @property
    def objectives(self) -> tuple[Aware, ...]:
        return tuple(Aware(penalty) for penalty in (0.0, 1.0, 3.0))

    def judges(self, fitted: Sequence[str]) -> tuple[str, ...]:
        return (CONSISTENCY,)

    def judge_of(self, condition: Condition, fitted: Sequence[str]) -> str:
        return CONSISTENCY

    def judges_of(self, condition: Condition, fitted: Sequence[str]) -> tuple[str, ...]:
        return (CONSISTENCY,)

    def load(self, model: nn.Module, fitted: Mapping[str, Tensors], x: Tensor) -> dict[str, Judge]:
        search = PGD(self.iterations, self.rate * self.epsilon, momentum=0, backtracking=None)
        return {CONSISTENCY: Consistent(attack_copy(model, x), Linf(self.epsilon), search)}

    def scaled(self, scores: Floats, calibration: Outcome) -> Floats:
        """Return the smallest probabilities themselves, of which scores are the logarithms."""
        return np.exp(scores)


@dataclass(frozen=True, eq=False)
class Consistent:
    """How sure a model stays of its answer around an image: log f_ŷ where it is least sure."""

    model: nn.Module
    ball: Linf
    search: PGD

    def __call__(self, images: Tensor, probabilities: Tensor) -> Tensor:
        """Return the score (N,) of each image, on the CPU; a judge of what is accepted."""
        answers = probabilities.argmax(1).to(images.device)
        with torch.no_grad():
            parts = [
                self._least(*part).cpu()
                for part in zip(
                    torch.split(images, _BATCH), torch.split(answers, _BATCH), strict=True
                )
            ]
        return torch.cat(parts)

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores and logits, with a gradient.

        Where the least sure point is unique, the gradient of the minimum is the gradient there,
        with the point moving along with the image (the envelope theorem). No second derivatives are
        needed.
        """
        logits: Tensor = self.model(x)
        return self._least(x, logits.argmax(1)), logits

    def _least(self, x: Tensor, answers: Tensor) -> Tensor:
        if len(x) == 0:
            return x.new_zeros(0)
        problem = Problem.of(self.model, x.detach(), answers, self.ball, _doubt)
        found = self.search(problem, Generator())
        low, high = self.ball.bounds(problem.x)
        at_box = (found.delta <= low) | (found.delta >= high)
        # Entries that the box [0,1] holds, and not the ball, do not move along with the image.
        held = at_box & (found.delta.abs() < self.ball.epsilon)
        point = torch.where(held, problem.images(found), (x + found.delta).clamp(0, 1))
        return functional.logsigmoid(-_doubt(self.model(point), answers))


def _doubt(logits: Tensor, answers: Tensor) -> Tensor:
    """Return log((1 − f_ŷ) / f_ŷ), whose gradient never vanishes however sure the model is."""
    others = logits.scatter(1, answers[:, None], -math.inf).logsumexp(1)
    return others - logits.gather(1, answers[:, None])[:, 0]
