"""How sure a difference of two rates is: an interval and a p-value that cannot disagree.

Both come from the same paired resamples. The interval at level 1−α spans the resampled differences
but for the fewest on either side, and p is the α at which it begins to leave zero out. So p is
below 0.05 if and only if the 95 % interval leaves zero out. Where one rate is 0 or 1 resampling has
nothing to vary in it; the interval then also spans the bounds of the two rates' own intervals,
combined as the errors of independent numbers are, and p follows it.

Shapes: differences, values (B,).
"""

import math
from collections.abc import Callable

import numpy as np

from ccat.evaluation.intervals import LEVEL, Estimate
from ccat.evaluation.outcome import Floats, exact

_HALVINGS = 50  # of an interval that holds p


def difference(
    first: Callable[[float], Estimate], second: Callable[[float], Estimate], differences: Floats
) -> tuple[Estimate, float]:
    """Return the second rate minus the first with its 95 % interval, and p.

    Args:
        first: The first rate with its interval at a level between 0 and 1.
        second: The second rate, likewise.
        differences: The second minus the first on paired resamples.
    """
    one, other = first(LEVEL), second(LEVEL)
    value = other.value - one.value
    low, high = _percentiles(differences)
    p = _two_sided(value, differences)
    if one.value in (0, 1) or other.value in (0, 1):
        below, above = _combined(one, other)
        low, high = min(low, below), max(high, above)
        p = max(p, _inverted(first, second))
    return Estimate(value, min(low, value), max(high, value)), p


def _percentiles(differences: Floats) -> tuple[float, float]:
    """Return the bounds beyond which lie so few differences that p is below 1 − LEVEL."""
    ascending = np.sort(differences)
    # p < 1 − LEVEL holds for fewer than `rank` differences on the other side, see `_two_sided`.
    rank = math.ceil((len(ascending) + 1) * (1 - exact(LEVEL)) / 2) - 1
    if rank < 1:
        return -1.0, 1.0
    return float(ascending[rank - 1]), float(ascending[-rank])


def _two_sided(value: float, differences: Floats) -> float:
    """Return twice the share of resamples that do not lie on the same side of zero as the value.

    The measured difference counts as one more resample, so that p is never 0.
    """
    if value == 0:
        return 1.0
    other_side = differences <= 0 if value > 0 else differences >= 0
    return min(1.0, 2 * (1 + int(other_side.sum())) / (1 + len(differences)))


def _combined(one: Estimate, other: Estimate) -> tuple[float, float]:
    """Return the bounds of the difference that follow from the bounds of the two rates."""
    value = other.value - one.value
    below = math.hypot(other.value - other.low, one.high - one.value)
    return value - below, value + math.hypot(other.high - other.value, one.value - one.low)


def _inverted(first: Callable[[float], Estimate], second: Callable[[float], Estimate]) -> float:
    """Return the largest α for which the combined bounds at level 1 − α hold zero between them."""

    def holds_zero(alpha: float) -> bool:
        low, high = _combined(first(1 - alpha), second(1 - alpha))
        return low <= 0 <= high

    # The search begins at the α of the interval, so that p and the interval agree exactly.
    shown = float(1 - exact(LEVEL))
    if holds_zero(1.0):
        return 1.0
    inside, outside = (shown, 1.0) if holds_zero(shown) else (0.0, shown)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds_zero(middle) else (inside, middle)
    return inside
