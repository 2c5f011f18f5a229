"""How sure a measured share is: 95 % intervals.

Rates at a threshold by the bootstrap: the attacked examples are resampled and, because τ was measured too, so are the held-out ones that
choose it. An interval is never narrower than the exact one of Clopper & Pearson at that τ: where few or nearly all examples count,
resampling has little to vary.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccat.metrics import Floats, Outcome, Rate, accepting, exact

REPLICATES = 1000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def resamples(examples: int, seed: int, replicates: int = REPLICATES) -> NDArray[np.int16]:
    """How often each example is drawn, (B, N): N of N with replacement. The same seed gives the same draws, so that runs pair up."""
    generator = np.random.default_rng([seed, examples])
    drawn = generator.integers(examples, size=(replicates, examples))
    return np.stack([np.bincount(row, minlength=examples) for row in drawn]).astype(np.int16)


def resampled_thresholds(held_out: Outcome, tpr: float, seed: int, replicates: int = REPLICATES) -> Floats:
    """τ from resampled held-out examples, (B,)."""
    generator = np.random.default_rng([seed, len(held_out), 1])
    taus = []
    for _ in range(replicates):
        rows = generator.integers(len(held_out), size=len(held_out))
        taus.append(accepting(np.sort(held_out.score[rows][~held_out.wrong[rows]]), exact(tpr)))
    return np.array(taus)


def bootstrap(rate: Rate, tau: float, counts: NDArray[np.int16], taus: Floats) -> Estimate:
    """A rate at τ, with the percentile interval of its values on resamples, but at least the exact one at this τ."""
    value = rate.at(tau)
    whole = int((rate.whole >= tau).sum())
    if np.isnan(value):
        return Estimate(value, value, value)
    if whole == 0:
        return Estimate(value, 0.0, 1.0)
    low, high = np.nanquantile(rate.resampled(counts, taus), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    exact = clopper_pearson(int((rate.part >= tau).sum()), whole)
    return Estimate(value, min(float(low), exact.low), max(float(high), exact.high))


def clopper_pearson(successes: int, trials: int) -> Estimate:
    """The exact interval of a share."""
    from scipy.stats import binomtest  # noqa: PLC0415 (it takes a second to import, in every worker process)

    interval = binomtest(successes, trials).proportion_ci(LEVEL, "exact")
    return Estimate(successes / trials, float(interval.low), float(interval.high))
