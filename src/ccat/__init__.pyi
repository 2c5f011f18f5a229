"""The public names, which ccat/__init__.py imports when they are first used."""

from . import extensions, rejection
from .api import Checked, Result, attack, check, evaluate, evaluate_stored, load
from .attacking import Case
from .attacks import (
    APGD,
    ATTACKS,
    PGD,
    Attack,
    AutoAttack,
    Beam,
    Border,
    CornerSearch,
    Counts,
    Estimated,
    EveryTarget,
    Exchange,
    External,
    Foolbox,
    Found,
    Geometry,
    Problem,
    Random,
    Refined,
    Shrinking,
    Simple,
    Square,
    accepted_as,
    best,
)
from .bounds import NoBoundError, certify
from .catalog import RECIPES, SUITES, Suite
from .data import DATASETS, DataUnavailableError, Images, load_mnist
from .evaluation import metrics
from .evaluation.metrics import Outcome, threshold, worst
from .models import (
    MODELS,
    ModelFileError,
    Normalised,
    create_model,
    import_model,
    load_model,
    save_model,
)
from .objectives import (
    OBJECTIVES,
    Objective,
    any_class_confidence,
    cross_entropy,
    lowest_confidence,
    other_class_confidence,
)
from .rejection import Calibration, Confidence, Detection, Detector, Rejecting, Rejection
from .threats import L0, L1, L2, THREATS, Condition, Frame, Linf, Threat
from .training import (
    METHODS,
    Adversarial,
    CalibratedUnion,
    ConfidenceCalibrated,
    Direction,
    Drops,
    IntervalBound,
    LinearToZero,
    Method,
    MultiSteepest,
    Normal,
    Part,
    PerEpoch,
    Probe,
    Recipe,
    Trades,
)

__version__: str

__all__ = [  # noqa: RUF022 (grouped by room)
    "extensions",
    "rejection",
    # any model, in memory
    "attack",
    "evaluate",
    "evaluate_stored",
    "Result",
    "check",
    "Checked",
    "load",
    # threats
    "THREATS",
    "Threat",
    "Linf",
    "L2",
    "L1",
    "L0",
    "Frame",
    "Condition",
    # objectives
    "OBJECTIVES",
    "Objective",
    "cross_entropy",
    "other_class_confidence",
    "any_class_confidence",
    "lowest_confidence",
    # attacks
    "ATTACKS",
    "Attack",
    "Problem",
    "Found",
    "best",
    "Counts",
    "PGD",
    "Estimated",
    "APGD",
    "Random",
    "Simple",
    "Geometry",
    "Square",
    "CornerSearch",
    "Beam",
    "Exchange",
    "Border",
    "Refined",
    "Shrinking",
    "External",
    "Foolbox",
    "AutoAttack",
    "EveryTarget",
    "accepted_as",
    # tables of attacks
    "Case",
    "Suite",
    "SUITES",
    # rejection
    "Rejection",
    "Confidence",
    "Detection",
    "Detector",
    "Rejecting",
    "Calibration",
    # models
    "MODELS",
    "create_model",
    "import_model",
    "load_model",
    "save_model",
    "ModelFileError",
    "Normalised",
    # data
    "DATASETS",
    "Images",
    "load_mnist",
    "DataUnavailableError",
    # training
    "RECIPES",
    "Recipe",
    "Probe",
    "METHODS",
    "Method",
    "Normal",
    "Adversarial",
    "ConfidenceCalibrated",
    "CalibratedUnion",
    "Part",
    "Trades",
    "MultiSteepest",
    "Direction",
    "IntervalBound",
    "PerEpoch",
    "LinearToZero",
    "Drops",
    # measuring
    "metrics",
    "Outcome",
    "threshold",
    "worst",
    "certify",
    "NoBoundError",
]
