"""A run at many thresholds at once: those of a row of TPRs, and those of a row of coverages.

What comes out is what `evaluate` gives at each of them, intervals included; what all of them share,
the resamples, is counted once.

Shapes: tau (P,), taus (B, P), counts (B, N), for P thresholds, B resamples and N images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.intervals import LEVEL, exact_bounds
from ccat.evaluation.outcome import Floats, Integers, Outcome, threshold
from ccat.evaluation.rates import Levels
from ccat.evaluation.resampling import REPLICATES, resampled_coverages, resampled_thresholds
from ccat.evaluation.selective import tau_at_coverage


@dataclass(frozen=True, eq=False)
class OperatingPoints:
    """Thresholds of one run, and those that each resample of the calibration images chooses."""

    tau: Floats
    taus: Floats

    def __add__(self, other: "OperatingPoints") -> "OperatingPoints":
        tau = np.concatenate([self.tau, other.tau])
        return OperatingPoints(tau, np.concatenate([self.taus, other.taus], axis=1))


def at_tprs(calibration: Outcome, tprs: Sequence[float], seed: int = 0) -> OperatingPoints:
    """Return the thresholds of true positive rates, as `evaluate` chooses them."""
    tau = np.array([threshold(calibration, tpr) for tpr in tprs])
    return OperatingPoints(tau, np.stack(resampled_thresholds(calibration, tprs, seed), axis=1))


def at_coverages(calibration: Outcome, shares: Sequence[float], seed: int = 0) -> OperatingPoints:
    """Return the thresholds of coverages, as the table of equal coverages chooses them."""
    tau = np.array([tau_at_coverage(calibration, share) for share in shares])
    return OperatingPoints(tau, np.stack(resampled_coverages(calibration, shares, seed), axis=1))


def at_given(tau: float) -> OperatingPoints:
    """Return one threshold that nothing has chosen."""
    return OperatingPoints(np.array([tau]), np.full((REPLICATES, 1), float(tau)))


def estimates(
    levels: Levels, points: OperatingPoints, counts: NDArray[np.int16] | None = None
) -> Floats:
    """Return a rate with its interval at every threshold, (P, 3): value, low, high.

    Args:
        levels: Of the images whose rate it is.
        points: The thresholds.
        counts: How often each resample holds each image; None: the exact interval, which takes the
            thresholds as given.
    """
    value = levels.at(points.tau)
    part, whole = (_reaching(each, points.tau) for each in (levels.part, levels.whole))
    low, high = exact_bounds(np.minimum(part, whole), np.maximum(whole, 1), LEVEL)
    low, high = np.where(whole > 0, low, 0.0), np.where(whole > 0, high, 1.0)
    if counts is not None:
        drawn = [_drawn(each, counts, points.taus) for each in (levels.part, levels.whole)]
        shares = drawn[0] / np.where(drawn[1] > 0, drawn[1], np.nan if levels.fixed else 1)
        for n in np.flatnonzero((whole > 0) & ~np.isnan(value)):
            ends = np.nanquantile(shares[:, n], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            low[n], high[n] = min(low[n], ends[0]), max(high[n], ends[1])
    nothing = np.isnan(value)
    return np.stack([value, np.where(nothing, np.nan, low), np.where(nothing, np.nan, high)], 1)


def _reaching(levels: Floats, tau: Floats) -> Integers:
    known = np.sort(levels[~np.isnan(levels)])
    return np.asarray(len(known) - np.searchsorted(known, tau, side="left"), dtype=np.int64)


def _drawn(levels: Floats, counts: NDArray[np.int16], taus: Floats) -> Integers:
    """Return how many of the drawn images reach each threshold, in each resample, (B, P)."""
    order = np.argsort(levels)  # NaN comes last
    order = order[: int((~np.isnan(levels)).sum())]
    below = np.searchsorted(levels[order], taus, side="left")
    found = np.empty(taus.shape, dtype=np.int64)
    for row, drawn, first in zip(found, counts, below, strict=True):
        sums = np.concatenate([[0], np.cumsum(drawn[order], dtype=np.int64)])
        row[:] = sums[-1] - sums[first]
    return found
