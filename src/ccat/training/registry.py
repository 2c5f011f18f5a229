"""The training methods by name."""

from ccat import codec
from ccat.training.calibrated_beyond import CalibratedBeyond
from ccat.training.calibrated_union import CalibratedUnion
from ccat.training.interval_bound import IntervalBound
from ccat.training.methods import (
    Adversarial,
    ConfidenceCalibrated,
    Imported,
    Method,
    MultiSteepest,
    Normal,
    Trades,
)

METHODS: dict[str, type] = codec.register(
    Method,
    {
        kind.__name__: kind
        for kind in (
            Normal,
            Adversarial,
            ConfidenceCalibrated,
            CalibratedUnion,
            Trades,
            MultiSteepest,
            IntervalBound,
            CalibratedBeyond,
            Imported,
        )
    },
)
