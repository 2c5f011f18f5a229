"""Recipes that go beyond the paper, for a CPU: other starts, several threats, certificates."""

from dataclasses import replace

from ccat.attacks import PGD
from ccat.threats import L0, L1, L2, Frame, Linf
from ccat.training.calibrated_beyond import CalibratedBeyond
from ccat.training.calibrated_union import CalibratedUnion, Part
from ccat.training.interval_bound import IntervalBound
from ccat.training.methods import ConfidenceCalibrated, Method
from ccat.training.recipe import Probe, Recipe
from ccat.training.schedules import LinearToZero

_LINF = Linf(0.3)
_PROBE = Probe(_LINF, PGD(20, 0.05))
_MIXED = PGD(8, 0.1, backtracking=1.5, start="mixed")
_ACROSS = replace(_MIXED, smooth=0.3)


def _calibrated(name: str, method: Method, model: str, epochs: int) -> Recipe:
    return Recipe(name, method, epochs, LinearToZero(), _PROBE, model=model, average=0.999)


def _certified(
    name: str,
    method: IntervalBound | CalibratedBeyond,
    model: str,
    epochs: int,
    rate: float = 1e-3,
) -> Recipe:
    return Recipe(
        name,
        method,
        epochs,
        LinearToZero(),
        _PROBE,
        model=model,
        rate=rate,
        optimiser="adam",
    )


BEYOND = (
    # CCAT whose attack also starts near other images, with averaged weights; the wide ones take
    # about half an hour on one core
    _calibrated("mnist-ccat-small", ConfidenceCalibrated(_LINF, _MIXED), "lenet", epochs=14),
    _calibrated("mnist-ccat-wide", ConfidenceCalibrated(_LINF, _MIXED), "wide-lenet", epochs=14),
    _calibrated(
        "mnist-ccat-union",
        CalibratedUnion(
            (
                Part(_LINF, _MIXED),
                Part(L2(3.0), replace(_MIXED, rate=1.0)),
                Part(L1(18.0), replace(_MIXED, rate=6.0)),
                Part(L0(15), replace(_MIXED, rate=250.0)),
            )
        ),
        "wide-lenet",
        epochs=12,
    ),
    # for certificates: within L∞ 0.4, which holds 0.3 as well
    _certified("mnist-ibp-small", IntervalBound(0.4), "lenet", epochs=40),
    _certified("mnist-ibp-wide", IntervalBound(0.4, kappa=0.7), "wide-lenet", epochs=80, rate=2e-3),
    _certified(
        "mnist-ibp-steep", IntervalBound(0.4, kappa=0.7), "steep-lenet", epochs=60, rate=2e-3
    ),
    # bounds within L∞ 0.4, and CCAT in what they cannot cover
    _certified(
        "mnist-beyond-steep",
        CalibratedBeyond(
            IntervalBound(0.4, kappa=0.7),
            (
                Part(L2(3.0), replace(_ACROSS, rate=1.0)),
                Part(L1(18.0), replace(_ACROSS, rate=6.0)),
                Part(L0(15), replace(_ACROSS, rate=250.0)),
                Part(Frame(2), replace(_ACROSS, rate=0.5)),
            ),
        ),
        "steep-lenet",
        epochs=16,
        rate=2e-3,
    ),
)
