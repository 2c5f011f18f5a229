"""Outcomes: what a classifier made of examples, the worst of several attempts, and τ.

Shapes: wrong, score (N,).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a classifier made of N examples.

    Attributes:
        wrong: True where its answer is wrong.
        score: How much it trusts its answer; an example is accepted if its score reaches τ.
    """

    wrong: NDArray[np.bool_]
    score: Floats

    def __post_init__(self) -> None:
        wrong, score = np.asarray(self.wrong), np.asarray(self.score, dtype=np.float64)
        if wrong.size == score.size == 0:
            raise ValueError("Outcome: there are no examples: wrong and score are empty")
        if wrong.dtype != np.bool_:
            raise ValueError(f"Outcome: wrong must hold booleans, not {wrong.dtype}")
        if wrong.ndim != 1 or wrong.shape != score.shape:
            raise ValueError(
                "Outcome: wrong and score must be two lists of one length, "
                f"not {wrong.shape} and {score.shape}"
            )
        if not np.isfinite(score).all():
            first = int(np.flatnonzero(~np.isfinite(score))[0])
            raise ValueError(
                f"Outcome: scores must be finite, but example {first} has {score[first]}"
            )
        object.__setattr__(self, "wrong", wrong)
        object.__setattr__(self, "score", score)

    def __len__(self) -> int:
        return len(self.wrong)

    def __getitem__(self, rows: slice) -> "Outcome":
        return Outcome(self.wrong[rows], self.score[rows])


def joined(parts: Sequence[Outcome]) -> Outcome:
    """Return the outcomes of several parts as one, in their order."""
    wrong = np.concatenate([part.wrong for part in parts])
    return Outcome(wrong, np.concatenate([part.score for part in parts]))


def outcome(probabilities: Any, labels: Any) -> Outcome:
    """Return the outcome of predicted probabilities (N, K), scored by the confidence max_k f_k.

    Args:
        probabilities: An array, a list or a tensor on any device, (N, K); rows sum to 1.
        labels: The N right classes, as integers.

    Raises:
        ValueError: If the probabilities are none, or the labels do not fit them.
    """
    f, y = _array(probabilities), _array(labels)
    integers = np.issubdtype(y.dtype, np.integer)
    if f.ndim != 2 or y.shape != f.shape[:1] or f.size == 0 or not integers:
        raise ValueError(
            "probabilities must be (N, K) and labels N integers, "
            f"not {f.shape} and {y.shape} of {y.dtype}"
        )
    if np.isnan(f).any():
        first = int(np.isnan(f).any(1).argmax())
        raise ValueError(f"probabilities must be numbers, but example {first} has NaN")
    if not ((f >= 0).all() and np.abs(f.sum(1) - 1).max() < 1e-3):
        raise ValueError(
            "probabilities must be at least 0 and sum to 1 in each row; "
            "apply softmax to logits first"
        )
    if not ((y >= 0) & (y < f.shape[1])).all():
        raise ValueError(
            f"labels must be 0 to {f.shape[1] - 1}, but range from {y.min()} to {y.max()}"
        )
    return Outcome(f.argmax(1) != y, f.max(1))


def worst_of(clean: Outcome, attempts: Iterable[Outcome]) -> tuple[Outcome, Integers]:
    """Return the worst case of each example, and which attempt it comes from.

    The worst case is the highest-scored among the wrong attempts, the first one of several with
    that score; where no attempt is wrong it is the clean example, and the index is −1.
    """
    score, index = np.full(len(clean), -np.inf), np.full(len(clean), -1, dtype=np.int64)
    for number, attempt in enumerate(attempts):
        require_same_examples(clean, attempt)
        better = attempt.wrong & (attempt.score > score)
        score, index = np.where(better, attempt.score, score), np.where(better, number, index)
    found = index >= 0
    return Outcome(found | clean.wrong, np.where(found, score, clean.score)), index


def worst(clean: Outcome, attempts: Sequence[Outcome]) -> Outcome:
    """Return the highest-scored wrong attempt of each example; the clean one if none is wrong."""
    return worst_of(clean, attempts)[0]


def lowest_of(attempts: Iterable[Outcome]) -> tuple[Outcome, Integers]:
    """Return the lowest-scored attempt on each example, the first of several, and its number.

    This is the worst case where the attacker wants rejection, whether the answer is wrong or not.
    """
    found = iter(attempts)
    first = next(found)
    wrong, score, index = first.wrong, first.score, np.zeros(len(first), dtype=np.int64)
    for number, attempt in enumerate(found, start=1):
        require_same_examples(first, attempt)
        lower = attempt.score < score
        wrong, score = np.where(lower, attempt.wrong, wrong), np.where(lower, attempt.score, score)
        index[lower] = number
    return Outcome(wrong, score), index


def lowest(attempts: Sequence[Outcome]) -> Outcome:
    """Return the lowest-scored attempt on each example."""
    return lowest_of(attempts)[0]


def require_same_examples(clean: Outcome, adversarial: Outcome) -> None:
    """Raise a ValueError unless both outcomes are of equally many examples."""
    if len(clean) != len(adversarial):
        raise ValueError(
            f"{len(adversarial)} attacked examples do not match {len(clean)} clean ones: "
            "pass the same examples in the same order"
        )


def _array(values: Any) -> NDArray[Any]:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def threshold(calibration: Outcome, tpr: float) -> float:
    """Return the largest τ that accepts a share `tpr` or more of the correctly classified examples.

    Args:
        calibration: The outcome of clean examples that are not counted elsewhere.
        tpr: The true positive rate to keep, strictly between 0 and 1.

    Raises:
        ValueError: If there are too few correctly classified examples for such a rate.
    """
    tpr = float(tpr)
    if not 0 < tpr < 1:
        raise ValueError(
            f"the TPR must lie strictly between 0 and 1, not {tpr!r}; write 0.99 for 99 %"
        )
    positives = np.sort(calibration.score[~calibration.wrong])
    share = exact(tpr)
    if len(positives) * (1 - share) < 1:
        most = highest_tpr(len(positives))
        raise ValueError(
            f"a TPR of {tpr!r} needs at least {round(1 / (1 - tpr))} correctly classified "
            f"calibration examples; there are {len(positives)}, "
            + (f"which support TPRs up to {most:g}" if most > 0 else "which support none")
        )
    return accepting(positives, share)


def highest_tpr(correct: int) -> float:
    """Return the highest TPR, in steps of 0.001, that so many correct examples support; else 0."""
    return math.floor(1000 * (1 - Fraction(1, correct))) / 1000 if correct else 0.0


def exact(share: float) -> Fraction:
    """Return the fraction that a float stands for: 0.07 is 7/100, so no count is off by one."""
    return Fraction(share).limit_denominator(10**6)


def accepting(positives: Floats, share: Fraction) -> float:
    """Return the largest τ that accepts this share or more of ascending scores; −∞ of none."""
    return float(positives[place(len(positives), share)]) if len(positives) else -math.inf


def place(count: int, share: Fraction) -> int:
    """Return the place among ascending scores of the largest τ that accepts this share or more."""
    return count - max(1, math.ceil(count * share))
