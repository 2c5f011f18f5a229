"""Objectives: what an attacker maximises, one value per example.

Confidences are logarithms, log f_k: as monotone transforms they order points as the confidences of equation 4 do, and normalised
steps are the same, but nothing underflows where the model is sure. `value.exp()` is the confidence.

Shapes: logits (N, K) with K ≥ 2, labels (N,), values (N,).
"""

import math
from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

Objective = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """−log f_y: the loss that standard adversarial training maximises.

    Its gradient vanishes where the model is surer of y than float32 can tell, by some hundred logits; those of the others do not.
    """
    return functional.cross_entropy(logits, labels, reduction="none")


def other_class_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """log max_{k≠y} f_k (equation 4): being wrong and sure of it, the adaptive attack on a classifier that rejects."""
    return functional.log_softmax(logits, 1).scatter(1, labels[:, None], -math.inf).amax(1)


def any_class_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """log max_k f_k: being sure of anything. For distal examples, which have no right answer: the labels are not looked at."""
    return functional.log_softmax(logits, 1).amax(1)


OBJECTIVES: dict[str, Objective] = {
    "cross-entropy": cross_entropy,
    "other-class confidence": other_class_confidence,
    "any-class confidence": any_class_confidence,
}


def most(objective: Objective) -> float:
    """The largest value it can take: 0 for the logarithm of a confidence, exactly so where the model is sure beyond float32."""
    return 0.0 if objective in (other_class_confidence, any_class_confidence) else math.inf
