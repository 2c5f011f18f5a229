"""Metrics of a classifier that may reject: how often what it accepts is wrong, clean and under attack.

An example is accepted if its score reaches the threshold τ. Positives, for TPR, FPR and AUC, are the correctly classified clean
examples; negatives are the successful adversarial examples of those. A metric takes one τ or an array of them, which gives a curve;
τ = −∞ means that nothing is rejected. Where nothing is accepted an error is 0: read it beside `coverage`. A rate over no examples is NaN.

Shapes: wrong, score (N,).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Tau = TypeVar("Tau", float, Floats)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a classifier made of N examples: whether its answer is wrong, and how much it trusts it (higher = accept)."""

    wrong: NDArray[np.bool_]
    score: Floats

    def __post_init__(self) -> None:
        wrong, score = np.asarray(self.wrong), np.asarray(self.score, dtype=np.float64)
        if wrong.dtype != np.bool_:
            raise ValueError(f"Outcome: wrong must hold booleans, not {wrong.dtype}")
        if wrong.ndim != 1 or wrong.shape != score.shape or len(wrong) == 0:
            raise ValueError(f"Outcome: wrong and score must be two lists of one length, not {wrong.shape} and {score.shape}")
        if not np.isfinite(score).all():
            first = int(np.flatnonzero(~np.isfinite(score))[0])
            raise ValueError(f"Outcome: scores must be finite, but example {first} has {score[first]}")
        object.__setattr__(self, "wrong", wrong)
        object.__setattr__(self, "score", score)

    def __len__(self) -> int:
        return len(self.wrong)

    def __getitem__(self, rows: slice) -> "Outcome":
        return Outcome(self.wrong[rows], self.score[rows])


def outcome(probabilities: Any, labels: Any) -> Outcome:
    """The outcome of predicted probabilities (N, K): the score is the confidence, max_k f_k."""
    f, y = _array(probabilities), _array(labels)
    if f.ndim != 2 or y.shape != f.shape[:1] or f.size == 0 or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"probabilities must be (N, K) and labels N integers, not {f.shape} and {y.shape} of {y.dtype}")
    if np.isnan(f).any():
        raise ValueError(f"probabilities must be numbers, but example {int(np.isnan(f).any(1).argmax())} has NaN")
    if not ((f >= 0).all() and np.abs(f.sum(1) - 1).max() < 1e-3):
        raise ValueError("probabilities must be at least 0 and sum to 1 in each row; apply softmax to logits first")
    if not ((y >= 0) & (y < f.shape[1])).all():
        raise ValueError(f"labels must be 0 to {f.shape[1] - 1}, but range from {y.min()} to {y.max()}")
    return Outcome(f.argmax(1) != y, f.max(1))


def _array(values: Any) -> NDArray[Any]:
    """Arrays, lists, and tensors on any device."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def worst(clean: Outcome, attempts: Sequence[Outcome]) -> Outcome:
    """Per example the highest-scored among the wrong attempts; the clean example where none is wrong."""
    wrong, score = np.zeros(len(clean), dtype=np.bool_), np.full(len(clean), -np.inf)
    for attempt in attempts:
        _require_same_examples(clean, attempt)
        better = attempt.wrong & (attempt.score > score)
        wrong, score = wrong | better, np.where(better, attempt.score, score)
    return Outcome(np.where(wrong, True, clean.wrong), np.where(wrong, score, clean.score))


def threshold(held_out: Outcome, tpr: float) -> float:
    """The largest τ that accepts at least a share `tpr` of the correctly classified among held-out clean examples."""
    tpr = float(tpr)
    if not 0 < tpr < 1:
        raise ValueError(f"the TPR must lie strictly between 0 and 1, not {tpr!r}; write 0.99 for 99 %")
    positives = np.sort(held_out.score[~held_out.wrong])
    share = exact(tpr)
    if len(positives) * (1 - share) < 1:
        raise ValueError(
            f"a TPR of {tpr!r} needs at least {round(1 / (1 - tpr))} correctly classified held-out examples; there are {len(positives)}"
        )
    return accepting(positives, share)


def exact(share: float) -> Fraction:
    """0.07 means 7/100, not the float beside it, so that counts are not off by one."""
    return Fraction(share).limit_denominator(10**6)


def accepting(positives: Floats, share: Fraction) -> float:
    """The largest τ that accepts at least this share of ascending scores; −∞ if there are none."""
    return float(positives[len(positives) - max(1, math.ceil(len(positives) * share))]) if len(positives) else -math.inf


@dataclass(frozen=True, eq=False)
class Rate:
    """A share that depends on τ, example by example: up to which τ it counts in `part` and in `whole` (NaN: never, ∞: always).

    Every metric below is one. From the levels follow its value, its curve, and its values on resampled examples.
    """

    part: Floats
    whole: Floats

    def at(self, tau: Tau) -> Tau:
        part, whole = _reaching(self.part, tau), _reaching(self.whole, tau)
        share = part / np.where(whole > 0, whole, np.nan if self._fixed else 1)
        return share if isinstance(tau, np.ndarray) else float(share)

    @property
    def _fixed(self) -> bool:
        """Over a fixed count, of which there is no share where it is zero."""
        return bool(np.isinf(self.whole[~np.isnan(self.whole)]).all())

    def resampled(self, counts: NDArray[np.integer[Any]], tau: Floats) -> Floats:
        """On resamples that hold example i `counts[b, i]` times, each at its own τ: (B, N) and (B,) -> (B,)."""
        part, whole = (np.einsum("bn,bn->b", counts, levels >= tau[:, None], dtype=np.int64) for levels in (self.part, self.whole))
        return np.asarray(part / np.where(whole > 0, whole, np.nan if self._fixed else 1), dtype=np.float64)


def coverage_rate(examples: Outcome) -> Rate:
    """Accepted of all."""
    return Rate(examples.score, np.full(len(examples), np.inf))


def error_rate(examples: Outcome) -> Rate:
    """Err(τ): wrong of accepted."""
    return Rate(np.where(examples.wrong, examples.score, np.nan), examples.score)


def robust_error_rate(clean: Outcome, adversarial: Outcome) -> Rate:
    """RErr(τ), equation "appr-rte" of the supplement: wrong and accepted, clean or attacked, of accepted, clean or attacked."""
    _require_same_examples(clean, adversarial)
    wrong = np.fmax(np.where(clean.wrong, clean.score, np.nan), np.where(adversarial.wrong, adversarial.score, np.nan))
    return Rate(wrong, np.maximum(clean.score, adversarial.score))


def tpr_rate(clean: Outcome) -> Rate:
    """Accepted of the correctly classified clean examples."""
    return Rate(np.where(clean.wrong, np.nan, clean.score), np.where(clean.wrong, np.nan, np.inf))


def fpr_rate(clean: Outcome, adversarial: Outcome) -> Rate:
    """Accepted of the successful adversarial examples of correctly classified images: the definition in the paper's text."""
    negative = _negative(clean, adversarial)
    return Rate(np.where(negative, adversarial.score, np.nan), np.where(negative, np.inf, np.nan))


def fpr_of_correct_rate(clean: Outcome, adversarial: Outcome) -> Rate:
    """As `fpr`, but over all correctly classified images, attacked with success or not."""
    return Rate(fpr_rate(clean, adversarial).part, tpr_rate(clean).whole)


def fpr_of_all_rate(clean: Outcome, adversarial: Outcome) -> Rate:
    """As `fpr`, but over all attacked images: what the paper's tables show."""
    return Rate(fpr_rate(clean, adversarial).part, np.full(len(clean), np.inf))


def coverage(examples: Outcome, tau: Tau) -> Tau:
    """Accepted of all."""
    return coverage_rate(examples).at(tau)


def error(examples: Outcome, tau: Tau) -> Tau:
    """Err(τ): wrong of accepted."""
    return error_rate(examples).at(tau)


def robust_error(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """RErr(τ): wrong and accepted, clean or attacked, of accepted, clean or attacked."""
    return robust_error_rate(clean, adversarial).at(tau)


def tpr(clean: Outcome, tau: Tau) -> Tau:
    """Accepted of the correctly classified clean examples."""
    return tpr_rate(clean).at(tau)


def fpr(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """Accepted of the successful adversarial examples of correctly classified images."""
    return fpr_rate(clean, adversarial).at(tau)


def fpr_of_correct(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """As `fpr`, but over all correctly classified images."""
    return fpr_of_correct_rate(clean, adversarial).at(tau)


def fpr_of_all(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """As `fpr`, but over all attacked images."""
    return fpr_of_all_rate(clean, adversarial).at(tau)


def tnr(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """Rejected of the successful adversarial examples of correctly classified images: 1 − `fpr`."""
    return 1 - fpr(clean, adversarial, tau)


def auc(clean: Outcome, adversarial: Outcome) -> float:
    """Area under the ROC curve of positives against negatives; NaN where one of them is missing."""
    return area(clean.score[~clean.wrong], adversarial.score[_negative(clean, adversarial)])


def area(positives: Floats, negatives: Floats) -> float:
    """Under the ROC curve of two lists of scores; NaN where one of them is empty."""
    if len(positives) == 0 or len(negatives) == 0:
        return math.nan
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 (it takes a second to import, in every worker process)

    truth = np.repeat([True, False], [len(positives), len(negatives)])
    return float(roc_auc_score(truth, np.concatenate([positives, negatives])))


class Curves(NamedTuple):
    """Everything that depends on τ, at each τ in ascending order. (fpr, tpr) is the ROC curve."""

    tau: Floats
    coverage: Floats
    error: Floats
    robust_error: Floats
    tpr: Floats
    fpr: Floats


def curves(clean: Outcome, adversarial: Outcome) -> Curves:
    """The curves at every τ at which something changes, from "all accepted" to "nothing accepted"."""
    scores = np.unique(np.concatenate([clean.score, adversarial.score]))
    tau = np.append(scores, np.inf)
    return Curves(
        tau,
        coverage(clean, tau),
        error(clean, tau),
        robust_error(clean, adversarial, tau),
        tpr(clean, tau),
        fpr(clean, adversarial, tau),
    )


def _reaching(levels: Floats, tau: float | Floats) -> Floats:
    """How many of the levels reach τ, for each τ."""
    if np.isnan(tau).any():
        raise ValueError("the threshold tau must be a number, not NaN")
    levels = np.sort(levels[~np.isnan(levels)])
    return np.asarray(len(levels) - np.searchsorted(levels, tau, side="left"), dtype=np.float64)


def _negative(clean: Outcome, adversarial: Outcome) -> NDArray[np.bool_]:
    _require_same_examples(clean, adversarial)
    return adversarial.wrong & ~clean.wrong


def _require_same_examples(clean: Outcome, adversarial: Outcome) -> None:
    if len(clean) != len(adversarial):
        raise ValueError(
            f"{len(adversarial)} attacked examples do not match {len(clean)} clean ones: pass the same examples in the same order"
        )
