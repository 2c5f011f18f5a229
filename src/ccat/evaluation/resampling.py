"""Resamples of images and calibration images, and the values of rates on them, many at once.

All rates of a table are counted in one pass over the resamples. Those that chose the same τ, which
is one of few calibration scores, are counted by one product of matrices.

Shapes: counts (B, N), taus (B,), arrays (M, N), values (M, B).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.outcome import Floats, Integers, Outcome, exact, place
from ccat.evaluation.rates import Levels

REPLICATES = 1000
_ROWS = 100  # resamples in one product
_MOST = 1 << 22  # numbers in memory at a time, of the products
_EXACT = 1 << 24  # up to so many examples single precision counts exactly


@lru_cache(maxsize=3)
def resamples(examples: int, seed: int, replicates: int = REPLICATES) -> NDArray[np.int16]:
    """Return how often each example is drawn, (B, N), when N of N are drawn with replacement.

    The same seed gives the same draws, so that the resamples of two runs pair up.
    """
    generator = np.random.default_rng([seed, examples])
    counts = np.empty((replicates, examples), dtype=np.int16)
    for row in counts:  # one at a time, because all of them take ten times the memory
        row[:] = np.bincount(generator.integers(examples, size=examples), minlength=examples)
    counts.setflags(write=False)
    return counts


def resampled_thresholds(
    calibration: Outcome, tprs: Sequence[float], seed: int, replicates: int = REPLICATES
) -> list[Floats]:
    """Return for each TPR the τ that each resample of the calibration examples chooses, (B,)."""
    order, drawn = _sorted_resamples(calibration, seed, replicates)
    correct = ~calibration.wrong[order][drawn]
    before = correct.cumsum(1, dtype=np.int32)  # how many correct ones come up to each place
    sizes, inverse = np.unique(before[:, -1], return_inverse=True)
    found = []
    for share in map(exact, tprs):
        places = np.array([place(n, share) if n else -1 for n in sizes.tolist()])[inverse]
        column = (before > places[:, None]).argmax(1)
        chosen = calibration.score[order][drawn[np.arange(replicates), column]]
        found.append(np.where(places < 0, -np.inf, chosen))
    return found


def resampled_coverages(
    calibration: Outcome, coverages: Sequence[float], seed: int, replicates: int = REPLICATES
) -> list[Floats]:
    """Return for each coverage the τ that each resample of the calibration examples chooses, (B,).

    The resamples are those of `resampled_thresholds`; right or wrong, every example counts.
    """
    order, drawn = _sorted_resamples(calibration, seed, replicates)
    scores = calibration.score[order]
    return [scores[drawn[:, place(len(order), exact(each))]] for each in coverages]


@lru_cache(maxsize=4)  # a run is evaluated at several thresholds
def _sorted_resamples(
    calibration: Outcome, seed: int, replicates: int
) -> tuple[Integers, NDArray[np.int32]]:
    """Return the order of ascending scores, and the places in it that resamples draw, sorted."""
    generator = np.random.default_rng([seed, len(calibration), 1])
    order = np.argsort(calibration.score, kind="stable")
    places = np.empty(len(order), dtype=np.int32)
    places[order] = np.arange(len(order))
    drawn = np.empty((replicates, len(order)), dtype=np.int32)
    for row in drawn:
        row[:] = places[generator.integers(len(order), size=len(order))]
    drawn.sort(axis=1)
    return order, drawn


def resampled(
    many: Sequence[Levels], counts: NDArray[np.integer[Any]], taus: Floats
) -> list[Floats]:
    """Return the values of rates on each of B resamples, each at its own τ: for each rate (B,).

    Args:
        many: The levels of the rates, of the same N examples.
        counts: How often each resample holds each example, (B, N).
        taus: The threshold of each resample, (B,).
    """
    arrays: dict[bytes, Floats] = {}
    places = [
        tuple(_place(arrays, each) for each in (levels.part, levels.whole)) for levels in many
    ]
    drawn = _drawn(np.stack(list(arrays.values())), counts, taus)
    found = []
    for levels, (part, whole) in zip(many, places, strict=True):
        divisor = np.where(drawn[whole] > 0, drawn[whole], np.nan if levels.fixed else 1)
        found.append(drawn[part] / divisor)
    return found


def _place(arrays: dict[bytes, Floats], levels: Floats) -> int:
    """Return the number of an array among those that are counted; an equal one is counted once."""
    content = levels.tobytes()
    arrays.setdefault(content, levels)
    return list(arrays).index(content)


def _drawn(arrays: Floats, counts: NDArray[np.integer[Any]], taus: Floats) -> Floats:
    """Return how many of the drawn examples reach τ, for each array in each resample, (M, B)."""
    kind = np.float32 if counts.shape[1] < _EXACT else np.float64
    order = np.argsort(taus, kind="stable")
    found, pieces = np.empty((len(arrays), len(taus))), _pieces(taus[order])
    step = max(1, _MOST // ((len(arrays) + _ROWS) * counts.shape[1]))
    for some in (pieces[n : n + step] for n in range(0, len(pieces), step)):
        begin, end = some[0].start, some[-1].stop
        ordered = counts[order[begin:end]].astype(kind)
        thresholds = taus[order[[piece.start for piece in some]]]
        reach = (arrays >= thresholds[:, None, None]).astype(kind)
        for piece, mine in zip(some, reach, strict=True):
            found[:, piece] = mine @ ordered[piece.start - begin : piece.stop - begin].T
    return found[:, np.argsort(order, kind="stable")]


def _pieces(ascending: Floats) -> list[slice]:
    """Return slices of at most `_ROWS` equal thresholds each."""
    ends = [*np.flatnonzero(ascending[1:] != ascending[:-1]) + 1, len(ascending)]
    return [
        slice(begin, min(begin + _ROWS, end))
        for first, end in zip([0, *ends[:-1]], ends, strict=True)
        for begin in range(first, end, _ROWS)
    ]
