"""Evaluate answers that were computed elsewhere: logits, or classes with scores, without a model.

Shapes: logits (N, K); predicted, scores, labels (N,).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccat.api.inputs import condition_of
from ccat.api.result import Result
from ccat.attacking.outcomes import grouped
from ccat.evaluation import metrics
from ccat.evaluation.evaluate import evaluate as evaluate_outcomes
from ccat.evaluation.outcome import Integers, Outcome
from ccat.evaluation.run_outcomes import Answers, AttemptOutcomes, RunOutcomes
from ccat.rejection import CONFIDENCE, Confidence
from ccat.threats import Condition, Threat

Given = Tensor | tuple[Tensor, Tensor]


def evaluate_stored(
    clean: Given,
    labels: Tensor,
    attacked: Mapping[Threat | Condition, Given | Sequence[Given]],
    *,
    calibration: tuple[Given, Tensor],
    seen: Sequence[Threat] = (),
    tpr: float = 0.99,
    name: str = "model",
) -> Result:
    """Measure what gets through from answers that are known already; nothing is computed.

    Args:
        clean: The answers to N clean images: logits (N, K), or a pair of predicted classes (N,) and
            scores (N,), of which a higher one means more trust.
        labels: The labels (N,).
        attacked: By threat the answers to the attacked versions of the first images, of one attack
            or of several; a `Condition` for noise.
        calibration: Answers to other clean images, and their labels, which choose τ.
        seen: The threats that the model was trained with, which tables mark.
        tpr: The share of correct calibration images to accept.
        name: What tables call the model.

    Returns:
        Tables and numbers; there are no adversarial images.

    Raises:
        ValueError: If answers and labels do not fit.
    """
    y, y_val = (_integers(one, "labels") for one in (labels, calibration[1]))
    given = _answers(clean, y, "the clean images")
    chosen = _answers(calibration[0], y_val, "the calibration images").outcome
    attempts = tuple(
        _attempt(condition_of(within), number, answers, y)
        for within, several in attacked.items()
        for number, answers in enumerate(several if isinstance(several, list) else [several])
    )
    outcomes = RunOutcomes(
        run=name,
        recipe={},
        about={},
        method="stored answers",
        dataset=f"{len(y)} images",
        weights="",
        classes=(),
        labels=y,
        judge=CONFIDENCE,
        shared_judge=True,
        clean={CONFIDENCE: given},
        calibration=chosen,
        attempts=attempts,
        groups=grouped(attempts, Confidence(), (), seen),
        notes=(),
    )
    return Result(outcomes, evaluate_outcomes(outcomes, tpr), MappingProxyType({}))


def _attempt(condition: Condition, number: int, given: Any, y: Integers) -> AttemptOutcomes:
    count = len(given[0] if isinstance(given, tuple) else given)
    if not 1 <= count <= len(y):
        raise ValueError(
            f"{condition.title}: {count} attacked answers do not match {len(y)} clean images: give "
            f"those of the first images, in the same order"
        )
    answers = _answers(given, y[:count], condition.title)
    if condition.on_noise:
        every = Outcome(np.ones(count, dtype=np.bool_), answers.outcome.score)
        answers = Answers(answers.predicted, every)
    return AttemptOutcomes(
        key=f"{condition.key} {number}",
        name=f"stored {number + 1}",
        family="stored",
        condition=condition,
        restart=0,
        aware=False,
        answers={CONFIDENCE: answers},
        forwards=0,
        backwards=0,
        seconds=0.0,
        no_gradient=0,
        rising=0,
        asked=np.ones(count, dtype=np.bool_),
    )


def _answers(given: Any, labels: Integers, what: str) -> Answers:
    """Return logits, or classes and scores, as answers."""
    if isinstance(given, tuple):
        predicted, score = _integers(given[0], what), np.asarray(given[1], dtype=np.float64)
        if predicted.shape != labels.shape or score.shape != labels.shape:
            raise ValueError(
                f"{what}: classes {predicted.shape} and scores {score.shape} do not match "
                f"{len(labels)} labels"
            )
        return Answers(predicted, Outcome(predicted != labels, score))
    logits = torch.as_tensor(given)
    if logits.ndim != 2 or len(logits) != len(labels) or not logits.is_floating_point():
        raise ValueError(
            f"{what}: expected logits ({len(labels)}, K), or a pair of classes and scores, not "
            f"{tuple(logits.shape)} of {logits.dtype}"
        )
    if not logits.isfinite().all():
        raise ValueError(f"{what}: logits must be finite")
    probabilities = logits.detach().cpu().double().softmax(1).numpy()
    return Answers(probabilities.argmax(1), metrics.outcome(probabilities, labels))


def _integers(values: Any, what: str) -> Integers:
    found = torch.as_tensor(values).detach().cpu()
    if found.is_floating_point() or found.is_complex() or found.ndim != 1 or len(found) == 0:
        raise ValueError(f"{what}: expected a list of integers, not {tuple(found.shape)}")
    return np.asarray(found.numpy(), dtype=np.int64)
