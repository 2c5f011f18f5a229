"""Rates at equal coverage: τ is chosen on the calibration images, as that of a TPR is.

No counted image has a part in the choice of τ. All calibration images have, right or wrong, because
coverage is about all images. What τ then accepts of the counted images stands beside the rate.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.intervals import bootstrap
from ccat.evaluation.outcome import Floats, Outcome
from ccat.evaluation.parts import AtCoverage, Selective
from ccat.evaluation.rates import Levels
from ccat.evaluation.resampling import resampled_coverages
from ccat.evaluation.selective import risk_coverage, tau_at_coverage

COVERAGES = (0.99, 0.95, 0.9, 0.8)


class Chosen(NamedTuple):
    """The τ of a coverage, and the τ that each resample of the calibration images chooses."""

    coverage: float
    tau: float
    taus: Floats


@lru_cache(maxsize=16)  # a run is evaluated at several thresholds, which change nothing here
def chosen(calibration: Outcome, seed: int) -> tuple[Chosen, ...]:
    """Return the thresholds of the coverages that tables show.

    Args:
        calibration: The outcome of the calibration images, right or wrong.
        seed: Of the resamples.
    """
    resampled = resampled_coverages(calibration, COVERAGES, seed)
    return tuple(
        Chosen(each, tau_at_coverage(calibration, each), taus)
        for each, taus in zip(COVERAGES, resampled, strict=True)
    )


def selective(
    risk: Levels,
    coverage: Levels,
    at: Sequence[Chosen],
    counts: NDArray[np.int16],
    rested: Callable[[float], bool] | None = None,
    *,
    areas: bool = True,
) -> Selective:
    """Return a rate over coverage: its means over all of them, and its value at some.

    Args:
        risk: The levels of the rate.
        coverage: The levels of the coverage of the same images when they are clean.
        at: The thresholds of some coverages.
        counts: How often each resample holds each image, (B, N).
        rested: Whether attacks on an image ended at a lower τ than this one; None: never.
        areas: False where the rate is no error, so that AURC and AUGRC say nothing.
    """
    curve = risk_coverage(risk, coverage)
    bound = rested or (lambda tau: False)
    return Selective(
        aurc=curve.aurc if areas else math.nan,
        augrc=curve.augrc if areas else math.nan,
        lower_bound=bool(len(curve.tau)) and bound(float(curve.tau[-1])),
        at=tuple(
            AtCoverage(
                asked=one.coverage,
                tau=one.tau,
                reached=coverage.at(one.tau),
                rate=bootstrap([risk], one.tau, counts, one.taus)[0],
                lower_bound=bound(one.tau),
            )
            for one in at
        ),
    )
