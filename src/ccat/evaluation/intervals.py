"""How sure a measured rate is: 95 % intervals.

Rates at a threshold by the bootstrap: the counted examples are resampled and, because τ was
measured too, so are the calibration examples that choose it. An interval is never narrower than the
exact one of Clopper & Pearson at that τ: where few or nearly all examples count, resampling has
little to vary.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.outcome import Floats, Integers, Outcome, accepting, exact
from ccat.evaluation.rates import Levels

REPLICATES = 1000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


@lru_cache(maxsize=3)
def resamples(examples: int, seed: int, replicates: int = REPLICATES) -> NDArray[np.int16]:
    """Return how often each example is drawn, (B, N), when N of N are drawn with replacement.

    The same seed gives the same draws, so that the resamples of two runs pair up. They are kept, to
    be drawn once for all rates, and cannot be changed.
    """
    generator = np.random.default_rng([seed, examples])
    counts = np.empty((replicates, examples), dtype=np.int16)
    for row in counts:  # one at a time, because all of them take ten times the memory
        row[:] = np.bincount(generator.integers(examples, size=examples), minlength=examples)
    counts.flags.writeable = False
    return counts


def resampled_thresholds(
    calibration: Outcome, tprs: Sequence[float], seed: int, replicates: int = REPLICATES
) -> list[Floats]:
    """Return for each TPR the τ that each resample of the calibration examples chooses, (B,)."""
    generator = np.random.default_rng([seed, len(calibration), 1])
    shares = [exact(tpr) for tpr in tprs]
    taus = np.empty((len(shares), replicates))
    for column in taus.T:
        rows = generator.integers(len(calibration), size=len(calibration))
        positives = np.sort(calibration.score[rows][~calibration.wrong[rows]])
        column[:] = [accepting(positives, share) for share in shares]
    return list(taus)


def resampled_coverages(
    calibration: Outcome, coverages: Sequence[float], seed: int, replicates: int = REPLICATES
) -> list[Floats]:
    """Return for each coverage the τ that each resample of the calibration examples chooses, (B,).

    The resamples are those of `resampled_thresholds`; right or wrong, every example counts.
    """
    generator = np.random.default_rng([seed, len(calibration), 1])
    shares = [exact(coverage) for coverage in coverages]
    taus = np.empty((len(shares), replicates))
    for column in taus.T:
        drawn = calibration.score[generator.integers(len(calibration), size=len(calibration))]
        drawn.sort()
        column[:] = [accepting(drawn, share) for share in shares]
    return list(taus)


def bootstrap(levels: Levels, tau: float, counts: NDArray[np.int16], taus: Floats) -> Estimate:
    """Return a rate at τ with the percentile interval of its values on resamples.

    Args:
        levels: Of the examples whose rate it is.
        tau: The threshold.
        counts: How often each resample holds each example, (B, N).
        taus: The threshold of each resample, (B,).
    """
    if np.isnan(levels.at(tau)) or not (levels.whole >= tau).any():
        return exact_interval(levels, tau)
    return percentiles(levels, tau, levels.resampled(counts, taus))


def percentiles(levels: Levels, tau: float, values: Floats, level: float = LEVEL) -> Estimate:
    """Return a rate at τ with the percentile interval of given values on resamples, (B,)."""
    least = exact_interval(levels, tau, level)
    low, high = np.nanquantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(levels.at(tau), min(float(low), least.low), max(float(high), least.high))


def exact_interval(levels: Levels, tau: float, level: float = LEVEL) -> Estimate:
    """Return a rate at τ with the interval of Clopper & Pearson, which takes τ as given."""
    part, whole = (int((each >= tau).sum()) for each in (levels.part, levels.whole))
    if whole:
        return clopper_pearson(part, whole, level)
    value = levels.at(tau)
    return Estimate(value, value, value) if np.isnan(value) else Estimate(value, 0.0, 1.0)


def clopper_pearson(successes: int, trials: int, level: float = LEVEL) -> Estimate:
    """Return a share with its exact interval."""
    low, high = exact_bounds(np.array([successes]), np.array([trials]), level)
    return Estimate(successes / trials, float(low[0]), float(high[0]))


def exact_bounds(
    successes: Integers, trials: Integers, level: float = LEVEL
) -> tuple[Floats, Floats]:
    """Return the ends of the interval of Clopper & Pearson of each share, quantiles of Beta."""
    # Imported here because it takes a tenth of a second, in every worker process.
    from scipy.special import betaincinv  # noqa: PLC0415

    failures, tail = trials - successes, (1 - level) / 2
    low = betaincinv(np.maximum(successes, 1), failures + 1, tail)
    high = betaincinv(successes + 1, np.maximum(failures, 1), 1 - tail)
    return np.where(successes > 0, low, 0.0), np.where(failures > 0, high, 1.0)
