"""Risk and coverage: a rate over the share of clean images that is accepted.

The threshold τ of one run says nothing to another. The share of clean images that it accepts, the
coverage, does: at equal coverage the errors of runs can be compared. The risk is Err on clean
images and RErr under attack, and the coverage is always that of the clean versions of the same
images. AURC (Geifman et al. 2018) and AUGRC (Traub et al. 2024) are means over all coverages.

Shapes: part, whole (N,); tau, images, coverage, risk, joint (T,).
"""

import math
from typing import NamedTuple

import numpy as np

from ccat.evaluation.outcome import Floats, Integers, Outcome, accepting, exact
from ccat.evaluation.rates import Levels


class RiskCoverage(NamedTuple):
    """A curve over coverage: one point for each distinct score of a clean image, ascending.

    Attributes:
        tau: The score, as a threshold.
        images: How many clean images have this score; they are accepted together.
        coverage: Clean images accepted / all.
        risk: The rate at this τ, wrong and accepted / accepted for Err and RErr.
        joint: The generalised risk, wrong and accepted / all images.
    """

    tau: Floats
    images: Integers
    coverage: Floats
    risk: Floats
    joint: Floats

    @property
    def aurc(self) -> float:
        """The mean over the images of the risk at the image's clean score; NaN of no images."""
        return self._mean(self.risk)

    @property
    def augrc(self) -> float:
        """The mean over the images of the generalised risk at its score; NaN of no images."""
        return self._mean(self.joint)

    def _mean(self, values: Floats) -> float:
        return float(np.average(values, weights=self.images)) if len(values) else math.nan


def risk_coverage(risk: Levels, coverage: Levels) -> RiskCoverage:
    """Return the curve of a rate over the coverage of clean images.

    Args:
        risk: The levels of the rate, such as `ERROR(clean)` or `ROBUST_ERROR(clean, adversarial)`.
        coverage: The levels of `COVERAGE(clean)`, of the same images.
    """
    scores = coverage.part[~np.isnan(coverage.part)]
    tau, images = np.unique(scores, return_counts=True)
    joint = Levels(risk.part, coverage.whole)
    return RiskCoverage(tau, images, coverage.at(tau), risk.at(tau), joint.at(tau))


def tau_at_coverage(clean: Outcome, coverage: float) -> float:
    """Return the largest τ that accepts a share `coverage` or more of clean examples.

    Correctly classified or not, every example counts. Where the examples are calibration images,
    the coverage of other images at this τ is near the one asked for, not equal to it.

    Args:
        clean: The outcome of clean examples.
        coverage: The share to accept, above 0 and at most 1.
    """
    if not 0 < coverage <= 1:
        raise ValueError(
            f"the coverage must be above 0 and at most 1, not {coverage!r}; write 0.99 for 99 %"
        )
    return accepting(np.sort(clean.score), exact(coverage))
