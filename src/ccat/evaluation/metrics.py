"""The metrics as plain functions: how often what a classifier accepts is wrong, clean and attacked.

Each takes one τ, or an array of them, which gives a curve; its definition is in
`ccat.evaluation.rates`. Where nothing is accepted an error is 0: read it beside `coverage`. A rate
over no examples is NaN.
"""

import math
from typing import NamedTuple

import numpy as np

from ccat.evaluation.outcome import (
    Floats,
    Outcome,
    lowest,
    lowest_of,
    outcome,
    threshold,
    worst,
    worst_of,
)
from ccat.evaluation.rates import (
    AVAILABILITY,
    COVERAGE,
    ERROR,
    FPR,
    FPR_OF_ALL,
    FPR_OF_CORRECT,
    ROBUST_ERROR,
    TPR,
    Tau,
    successful,
)
from ccat.evaluation.selective import RiskCoverage, tau_at_coverage
from ccat.evaluation.selective import risk_coverage as curve_of

__all__ = [
    "Curves",
    "Floats",
    "Outcome",
    "RiskCoverage",
    "area",
    "auc",
    "augrc",
    "aurc",
    "availability",
    "coverage",
    "curves",
    "error",
    "fpr",
    "fpr_of_all",
    "fpr_of_correct",
    "lowest",
    "lowest_of",
    "outcome",
    "risk_coverage",
    "robust_error",
    "tau_at_coverage",
    "threshold",
    "tnr",
    "tpr",
    "worst",
    "worst_of",
]


def coverage(examples: Outcome, tau: Tau) -> Tau:
    """Return accepted / all."""
    return COVERAGE(examples).at(tau)


def error(examples: Outcome, tau: Tau) -> Tau:
    """Return Err(τ) = wrong and accepted / accepted."""
    return ERROR(examples).at(tau)


def robust_error(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """Return RErr(τ) = wrong and accepted / accepted, where each image counts clean or attacked."""
    return ROBUST_ERROR(clean, adversarial).at(tau)


def availability(clean: Outcome, attacked: Outcome, tau: Tau) -> Tau:
    """Return correct images that stay accepted under attack / correct images.

    `attacked` is the `lowest` of attempts by an attacker who wants rejection.
    """
    return AVAILABILITY(clean, attacked).at(tau)


def tpr(clean: Outcome, tau: Tau) -> Tau:
    """Return accepted / all, of the correctly classified clean examples."""
    return TPR(clean).at(tau)


def fpr(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """Return accepted / all, of the successful adversarial examples of correctly classified images.

    This is the definition in the paper's text.
    """
    return FPR(clean, adversarial).at(tau)


def fpr_of_correct(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """Return successful adversarial examples accepted / correctly classified images."""
    return FPR_OF_CORRECT(clean, adversarial).at(tau)


def fpr_of_all(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """Return successful adversarial examples accepted / attacked images, as the paper's tables."""
    return FPR_OF_ALL(clean, adversarial).at(tau)


def tnr(clean: Outcome, adversarial: Outcome, tau: Tau) -> Tau:
    """Return 1 − `fpr`: rejected / all, of the successful adversarial examples."""
    return 1 - fpr(clean, adversarial, tau)


def auc(clean: Outcome, adversarial: Outcome) -> float:
    """Return the area under the ROC curve of positives against negatives; NaN if one is missing."""
    return area(clean.score[~clean.wrong], adversarial.score[successful(clean, adversarial)])


def area(positives: Floats, negatives: Floats) -> float:
    """Return the area under the ROC curve of two lists of scores; NaN if one of them is empty."""
    if len(positives) == 0 or len(negatives) == 0:
        return math.nan
    scores = np.concatenate([positives, negatives])
    order = np.argsort(scores, kind="stable")[::-1]
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # of equal scores
    accepted = np.cumsum(order < len(positives))[last]
    corners = np.stack([1 + last - accepted, accepted])  # negatives and positives that τ accepts
    if len(last) > 2:  # points on a straight line say nothing
        turns = np.diff(corners, 2).any(0)
        corners = corners[:, np.concatenate([[True], turns, [True]])]
    fpr, tpr = np.pad(corners, ((0, 0), (1, 0))) / [[len(negatives)], [len(positives)]]
    return float(np.trapezoid(tpr, fpr))


def risk_coverage(clean: Outcome, adversarial: Outcome | None = None) -> RiskCoverage:
    """Return the error over the coverage of clean examples, at each of their scores.

    The error is Err; with adversarial examples it is RErr.
    """
    risk = ERROR(clean) if adversarial is None else ROBUST_ERROR(clean, adversarial)
    return curve_of(risk, COVERAGE(clean))


def aurc(clean: Outcome, adversarial: Outcome | None = None) -> float:
    """Return the area under the risk-coverage curve: the mean of Err or RErr over the coverages.

    Each example counts once, with the error at the τ that is its clean score (Geifman et al. 2018).
    """
    return risk_coverage(clean, adversarial).aurc


def augrc(clean: Outcome, adversarial: Outcome | None = None) -> float:
    """Return the area under the generalised curve, of wrong and accepted / all (Traub et al. 2024).

    The errors are divided by all examples instead of by the accepted ones, so that every error
    weighs the same at every coverage.
    """
    return risk_coverage(clean, adversarial).augrc


class Curves(NamedTuple):
    """Everything that depends on τ, at each τ in ascending order; (fpr, tpr) is the ROC curve."""

    tau: Floats
    coverage: Floats
    error: Floats
    robust_error: Floats
    tpr: Floats
    fpr: Floats


def curves(clean: Outcome, adversarial: Outcome) -> Curves:
    """Return the metrics at every τ where one changes, from all to nothing accepted."""
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
