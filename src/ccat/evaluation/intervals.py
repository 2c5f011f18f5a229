"""How sure a measured rate is: 95 % intervals.

Rates at a threshold by the bootstrap: the counted examples are resampled and, because τ was
measured too, so are the calibration examples that choose it. An interval is never narrower than the
exact one of Clopper & Pearson at that τ: where few or nearly all examples count, resampling has
little to vary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.outcome import Floats, Integers
from ccat.evaluation.rates import Levels
from ccat.evaluation.resampling import resampled

LEVEL = 0.95


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def bootstrap(
    many: Sequence[Levels], tau: float, counts: NDArray[np.integer[Any]], taus: Floats
) -> list[Estimate]:
    """Return rates at τ, each with the percentile interval of its values on resamples.

    Args:
        many: The levels of each rate, all of the same examples.
        tau: The threshold.
        counts: How often each resample holds each example, (B, N).
        taus: The threshold of each resample, (B,).
    """
    varied = [levels for levels in many if (levels.whole >= tau).any()]
    values = iter(_percentiles(resampled(varied, counts, taus)) if varied else ())
    return [
        _spanning(levels, tau, *next(values))
        if (levels.whole >= tau).any()
        else exact_interval(levels, tau)
        for levels in many
    ]


def percentiles(levels: Levels, tau: float, values: Floats, level: float = LEVEL) -> Estimate:
    """Return a rate at τ with the percentile interval of given values on resamples, (B,)."""
    ((low, high),) = _percentiles([values], level)
    return _spanning(levels, tau, low, high, level)


def _percentiles(many: Sequence[Floats], level: float = LEVEL) -> list[tuple[float, float]]:
    """Return the percentiles of values on resamples; where a value is NaN, of the others."""
    values, ends = np.stack(many), [(1 - level) / 2, (1 + level) / 2]
    missing = np.isnan(values).any(1)
    found = np.empty((2, len(values)))
    found[:, ~missing] = np.quantile(values[~missing], ends, axis=1)
    for row in np.flatnonzero(missing):
        found[:, row] = np.nanquantile(values[row], ends)
    return [(float(low), float(high)) for low, high in found.T]


def _spanning(
    levels: Levels, tau: float, low: float, high: float, level: float = LEVEL
) -> Estimate:
    """Return a rate at τ with an interval that spans the given ends and the exact interval."""
    least = exact_interval(levels, tau, level)
    return Estimate(least.value, min(low, least.low), max(high, least.high))


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
