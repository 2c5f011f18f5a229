"""The objective of an attacker who knows the detector: to be wrong, and to be accepted."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ccat.checks import require_number

_MARGIN = 0.5  # by so many logits an attacker with a penalty wants to be wrong


@runtime_checkable
class Knowable(Protocol):
    """A judge that an attacker can know: its score has a gradient."""

    def raw(self, x: Tensor, /) -> tuple[Tensor, Tensor]:
        """Return scores (N,) and logits (N, K) of images (N, C, H, W), both with a gradient."""


@dataclass(frozen=True)
class Aware:
    """Maximise a detector's score among wrong answers.

    With a penalty it is the score less `penalty` times the margin of logits that is missing, so
    that gradients of both act at once, along the decision boundary. Without one (0) it is selective
    PGD (Bryniarski et al. 2022): first to be wrong, and only then to be accepted. Below 0 it is
    minus the margin that is missing, above 0 a monotone function of the score. The score is taken
    without the detector's own step, which would need second derivatives.
    """

    penalty: float = 0.0

    def __post_init__(self) -> None:
        require_number("Aware: penalty", self.penalty, 0, low_too=True)

    def score(
        self, detector: Knowable, labels: Tensor | None, images: Tensor, rows: Tensor
    ) -> Tensor:
        """Return the value (M,) of images (M, C, H, W) that belong to the examples `rows`.

        Args:
            detector: The detector that the attacker knows.
            labels: The right answers of all examples; None for noise, which has none and counts
                as wrong whatever the answer, so that only the detector's score matters.
            images: Perturbed images.
            rows: Which examples they belong to (M,).
        """
        score, logits = detector.raw(images)
        if labels is None:
            return score
        right = logits.gather(1, labels[rows, None])[:, 0]
        margin = logits.scatter(1, labels[rows, None], -torch.inf).amax(1) - right
        if self.penalty > 0:
            return score - self.penalty * (_MARGIN - margin).relu()
        positive = torch.where(score > 0, 1 + score, 1 / (1 - score.clamp(max=0)))
        return torch.where(margin > 0, positive, margin)
