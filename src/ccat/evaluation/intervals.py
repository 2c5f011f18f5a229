"""How sure a measured rate is: 95 % intervals.

Rates at a threshold by the bootstrap: the counted examples are resampled and, because τ was
measured too, so are the calibration examples that choose it. An interval is never narrower than the
exact one of Clopper & Pearson at that τ: where few or nearly all examples count, resampling has
little to vary.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.outcome import Floats, Outcome, accepting, exact
from ccat.evaluation.rates import Levels

REPLICATES = 1000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def resamples(examples: int, seed: int, replicates: int = REPLICATES) -> NDArray[np.int16]:
    """Return how often each example is drawn, (B, N), when N of N are drawn with replacement.

    The same seed gives the same draws, so that the resamples of two runs pair up.
    """
    generator = np.random.default_rng([seed, examples])
    counts = np.empty((replicates, examples), dtype=np.int16)
    for row in counts:  # one at a time, because all of them take ten times the memory
        row[:] = np.bincount(generator.integers(examples, size=examples), minlength=examples)
    return counts


def resampled_thresholds(
    calibration: Outcome, tpr: float, seed: int, replicates: int = REPLICATES
) -> Floats:
    """Return the τ that each resample of the calibration examples chooses, (B,)."""
    generator = np.random.default_rng([seed, len(calibration), 1])
    taus = []
    for _ in range(replicates):
        rows = generator.integers(len(calibration), size=len(calibration))
        positives = np.sort(calibration.score[rows][~calibration.wrong[rows]])
        taus.append(accepting(positives, exact(tpr)))
    return np.array(taus)


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
    # Imported here because it takes a second, in every worker process.
    from scipy.stats import binomtest  # noqa: PLC0415

    interval = binomtest(successes, trials).proportion_ci(level, "exact")
    return Estimate(successes / trials, float(interval.low), float(interval.high))
