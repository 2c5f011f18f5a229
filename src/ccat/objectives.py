"""Objectives: what an attacker maximises, one value per example.

Confidences are logarithms, log f_k: as monotone transforms they order points as the confidences of
equation 4 do, and normalised steps are the same, but nothing underflows where the model is sure.
`value.exp()` is the confidence.

Shapes: logits (N, K) with K ≥ 2, labels (N,), values (N,).
"""

import math
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from ccat import codec
from ccat.threats import Condition, Goal


class Objective(Protocol):
    """What an attacker maximises: a function of logits and labels, one value per example."""

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        """Return the values (N,) of logits (N, K) for labels (N,), row by row."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return −log f_y, the loss that standard adversarial training maximises.

    Its gradient vanishes where the model is surer of y than float32 can tell, by some hundred
    logits. The gradients of the other objectives do not vanish.
    """
    return functional.cross_entropy(logits, labels, reduction="none")


def other_class_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log max_{k≠y} f_k (equation 4): how sure the model is of a wrong class.

    This is the objective of the adaptive attack on a classifier that rejects.
    """
    return functional.log_softmax(logits, 1).scatter(1, labels[:, None], -math.inf).amax(1)


def any_class_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log max_k f_k: how sure the model is of any class.

    It is made for distal examples, which have no right answer: it ignores the labels.
    """
    return functional.log_softmax(logits, 1).amax(1)


def target_confidence(logits: Tensor, targets: Tensor) -> Tensor:
    """Return log f_t: how sure the model is of a target class, given in place of the label."""
    return functional.log_softmax(logits, 1).gather(1, targets[:, None])[:, 0]


def lowest_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log((1 − f_t) / f_t) of the predicted class t: how little the model is sure of any.

    It is made for attackers who want rejection, and ignores the labels. It orders points as
    −max_k f_k does, but where the model is sure beyond float32 it can still tell them apart.
    """
    top = logits.argmax(1, keepdim=True)
    others = logits.scatter(1, top, -math.inf).logsumexp(1)
    return others - logits.gather(1, top)[:, 0]


OBJECTIVES: dict[str, Objective] = codec.register(
    Objective,
    {
        "cross-entropy": cross_entropy,
        "other-class confidence": other_class_confidence,
        "any-class confidence": any_class_confidence,
        "lowest confidence": lowest_confidence,
    },
)


def goal_of(objective: object) -> Goal:
    """Return what an attacker who maximises an objective is after: accepted errors, as a rule."""
    return "rejection" if objective is lowest_confidence else "error"


def usual_objective(condition: Condition) -> Objective:
    """Return what attackers under a condition maximise, unless a case says otherwise."""
    if condition.rejects:
        return lowest_confidence
    return any_class_confidence if condition.on_noise else other_class_confidence


def level(objective: Objective, tau: float) -> float:
    """Return the value from which on an objective means an error that τ accepts; ∞ if none does.

    A confidence of more than one half belongs to the predicted class. An attacker who wants
    rejection is not content with errors.
    """
    if objective is other_class_confidence:
        return math.log(max(tau, 0.5 + 1e-6))
    return math.log(max(tau, 1e-6)) if objective is any_class_confidence else math.inf


def most(objective: Objective) -> float:
    """Return the largest value that an objective can take.

    It is 0 for the logarithm of a confidence, and reached exactly where the model is sure beyond
    float32.
    """
    logarithms = (other_class_confidence, any_class_confidence, target_confidence)
    return 0.0 if objective in logarithms else math.inf
