"""The threshold τ of a classifier that is put to use, and how it was chosen."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ccat.checks import require_number
from ccat.evaluation.outcome import Outcome, threshold
from ccat.evaluation.promise import NoPromise, lattice, promise

Chosen = Literal["tpr", "risk", "given"]
HIGHEST = 1 - 2.0**-53  # float64 cannot tell larger confidences from 1
ROUNDINGS = 1e-12  # that log-odds may lie below τ's: more than ways of computing them differ


@dataclass(frozen=True)
class Calibration:
    """A threshold, and what is known of it from calibration images.

    Attributes:
        tau: The threshold that the confidence of an answer, or a detector's score, must reach.
        chosen: By a true positive rate ("tpr"), by a promised risk ("risk"), or "given".
        level: That rate or that risk; None if τ was given.
        confidence: With which probability the risk is promised; None if none is.
        images: How many calibration images there were.
        rejected: How many of them are rejected.
        wrong: How many of them are accepted though the answer is wrong.
    """

    tau: float
    chosen: Chosen = "given"
    level: float | None = None
    confidence: float | None = None
    images: int = 0
    rejected: int = 0
    wrong: int = 0

    def __post_init__(self) -> None:
        if not math.isfinite(self.tau):
            raise ValueError(f"Calibration: tau must be a finite number, not {self.tau}")
        if not 0 <= self.rejected + self.wrong <= self.images:
            raise ValueError(
                f"Calibration: {self.rejected} rejected and {self.wrong} wrong images of "
                f"{self.images} cannot be"
            )

    @property
    def coverage(self) -> float:
        """The share of the calibration images that is accepted; NaN if there were none."""
        return 1 - self.rejected / self.images if self.images else math.nan

    def __str__(self) -> str:
        if self.chosen == "given":
            return f"τ = {self.tau:.6g}, given"
        images = f"{self.images} calibration images"
        seen = f"{self.rejected} of {images} are rejected, {self.wrong} are accepted and wrong"
        if self.chosen == "tpr":
            return f"τ = {self.tau:.6g} keeps {self.level:.4g} of correct answers; {seen}"
        return (
            f"τ = {self.tau:.6g} promises that at most {self.level:.4g} of accepted answers are "
            f"wrong, with confidence {self.confidence:.4g}; {seen}"
        )


def given(tau: float) -> Calibration:
    """Return a threshold on the confidence that someone chose, in [0,1].

    Raises:
        ValueError: If it is no such number.
    """
    require_number("tau", tau, 0, 1, low_too=True, high_too=True)
    return Calibration(float(tau))


def keeping(calibration: Outcome, tpr: float, *, in_odds: bool = True) -> Calibration:
    """Return the largest τ that accepts a share `tpr` of the correctly classified images.

    Args:
        calibration: Of the calibration images, scored in log-odds of the confidence.
        tpr: The true positive rate to keep.
        in_odds: False if scores are a detector's, which τ is then a threshold on.

    Raises:
        ValueError: If there are too few images for such a rate.
    """
    cut = threshold(calibration, tpr)
    tau = tau_below(cut) if in_odds else cut
    return counted(Calibration(tau, "tpr", float(tpr)), calibration, in_odds=in_odds)


def promising(calibration: Outcome, risk: float, confidence: float) -> Calibration | NoPromise:
    """Return the lowest τ at which P(wrong | accepted) ≤ risk can be promised, or why none can.

    Args:
        calibration: Of the calibration images, scored in log-odds of the confidence.
        risk: The largest share of wrong answers among accepted ones.
        confidence: The probability with which the promise holds.
    """
    shares = 1 / (1 + np.exp(-np.clip(calibration.score, -700, 700)))
    points = {logit(tau): tau for tau in np.minimum(lattice(shares, risk, confidence), HIGHEST)}
    # Tested in log-odds, as decisions are made: near 1, confidences in float64 are coarser.
    found = promise(calibration, risk, confidence, grid=list(points))
    tau = float(points[found.tau])
    if isinstance(found, NoPromise):
        return replace(found, tau=tau)
    return counted(Calibration(tau, "risk", risk, confidence), calibration)


def counted(chosen: Calibration, calibration: Outcome, *, in_odds: bool = True) -> Calibration:
    """Return a calibration with the calibration images counted at its τ."""
    accepted = calibration.score >= (logit(chosen.tau) - ROUNDINGS if in_odds else chosen.tau)
    return replace(
        chosen,
        images=len(calibration),
        rejected=int((~accepted).sum()),
        wrong=int((accepted & calibration.wrong).sum()),
    )


def tau_below(odds: float) -> float:
    """Return the largest τ whose log-odds do not lie above those of a confidence.

    Confidences beyond 1 − 2⁻⁵³, which float64 cannot tell from 1, are all alike.
    """
    tau = min(1 / (1 + math.exp(-odds)) if odds > -700 else 0.0, HIGHEST)
    while tau > 0 and logit(tau) > odds:
        tau = math.nextafter(tau, 0)
    return tau


def logit(tau: float) -> float:
    """Return log τ/(1−τ); −∞ at 0 and ∞ at 1."""
    with np.errstate(divide="ignore"):
        return float(np.log(tau) - np.log1p(-tau))
