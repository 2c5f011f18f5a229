"""What rejects an answer: the protocol, the confidence, and a score of your own.

A *rejection* is a value that a run is made with: `Confidence()`, `Consistency()`, or a `Detection`
that is fitted for each threat. It is stored beside the recipe. *Judges* are its fitted parts:
functions from images to scores, by name. An image is accepted if its score, in the paper
max_k f_k(x), reaches τ.

Shapes: images (N, C, H, W), probabilities (N, K), scores (N,).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from ccat.evaluation.metrics import Floats, Outcome
from ccat.rejection.aware import Aware
from ccat.threats import Condition, Threat

Judge = Callable[[Tensor, Tensor], Tensor]  # (images, their probabilities) -> scores on the CPU
Tensors = dict[str, Tensor]

CONFIDENCE = "confidence"  # the name of a judge that is not fitted for a threat


@runtime_checkable
class Rejection(Protocol):
    """What rejects the answers of a run; by default with one judge that is never fitted."""

    @property
    def title(self) -> str:
        """What tables call it, beside the training method; empty for the confidence."""
        return ""

    @property
    def shared(self) -> bool:
        """True if one judge scores the images of every threat."""
        return True

    @property
    def objectives(self) -> tuple[Aware, ...]:
        """What attackers who know this rejection maximise, besides the model's confidence."""
        return ()

    def to_fit(self, threats: Sequence[Threat], fitted: Sequence[str], grey: bool) -> list[Threat]:
        """Return the threats a judge must still be fitted for, the run's first one first.

        Args:
            threats: What is to be attacked.
            fitted: The judges there are, the first fitted one first.
            grey: True if images have one channel; decides the ε of a default threat.
        """
        return []

    def judges(self, fitted: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all judges, the one that decides on clean images first."""
        return (CONFIDENCE,)

    def judge_of(self, condition: Condition, fitted: Sequence[str]) -> str:
        """Return the judge that decides on what is found under a condition."""
        return CONFIDENCE

    def judges_of(self, condition: Condition, fitted: Sequence[str]) -> tuple[str, ...]:
        """Return all judges of what is found under a condition: also those of larger threats."""
        return (CONFIDENCE,)

    def from_probabilities(self, probabilities: Tensor) -> Tensor | None:
        """Return scores that need only the model's probabilities; None if images are needed."""
        return None

    def load(self, model: nn.Module, fitted: Mapping[str, Tensors], x: Tensor) -> dict[str, Judge]:
        """Return the judges by name, from stored tensors; `x` is an image the model takes."""

    def scaled(self, scores: Floats, calibration: Outcome) -> Floats:
        """Return scores as tables show them, so that one τ serves all judges, in their order."""
        return scores


@dataclass(frozen=True)
class Confidence(Rejection):
    """Reject answers of low confidence. It is its own judge, and there is nothing to fit."""

    def __call__(self, images: Tensor, probabilities: Tensor) -> Tensor:
        """Return the confidence max_k f_k of each answer."""
        return probabilities.amax(1)

    def from_probabilities(self, probabilities: Tensor) -> Tensor | None:
        return self(probabilities, probabilities)

    def load(self, model: nn.Module, fitted: Mapping[str, Tensors], x: Tensor) -> dict[str, Judge]:
        return {CONFIDENCE: self}


@dataclass(frozen=True, eq=False)
class OwnScore(Rejection):
    """Reject what a function of yours scores low, such as a fitted `Detector`, in memory."""

    judge: Judge

    def load(self, model: nn.Module, fitted: Mapping[str, Tensors], x: Tensor) -> dict[str, Judge]:
        return {CONFIDENCE: self.judge}
