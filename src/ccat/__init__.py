"""Image classifiers that may say "I don't know": train, attack, measure what gets through.

Confidence-Calibrated Adversarial Training (Stutz, Hein & Schiele, ICML 2020) on PyTorch.

    x_adv = ccat.attack(model, x, y, ccat.Linf(0.3))
    print(ccat.evaluate(model, x, y, threats=[ccat.Linf(0.3)]).table())

Names are grouped by room: what an attacker may do (threats), wants (objectives) and does (attacks);
models, data and training; what rejects; and what is measured.
"""

from importlib.metadata import version

from ccat.api import Result, attack, evaluate
from ccat.attacking import Case
from ccat.attacks import (
    APGD,
    ATTACKS,
    PGD,
    Attack,
    AutoAttack,
    CornerSearch,
    Counts,
    Estimated,
    External,
    Foolbox,
    Found,
    Geometry,
    Problem,
    Random,
    Refined,
    Simple,
    Square,
    best,
)
from ccat.catalog import RECIPES, SUITES, Suite
from ccat.data import DATASETS, DataUnavailableError, Images, load_mnist
from ccat.evaluation import metrics
from ccat.evaluation.metrics import Outcome, threshold, worst
from ccat.models import (
    MODELS,
    ModelFileError,
    Normalised,
    create_model,
    import_model,
    load_model,
    save_model,
)
from ccat.objectives import (
    OBJECTIVES,
    Objective,
    any_class_confidence,
    cross_entropy,
    other_class_confidence,
)
from ccat.rejection import Confidence, Detection, Detector, Rejection
from ccat.threats import L0, L1, L2, THREATS, Condition, Frame, Linf, Threat
from ccat.training import (
    METHODS,
    Adversarial,
    ConfidenceCalibrated,
    Direction,
    Drops,
    LinearToZero,
    Method,
    MultiSteepest,
    Normal,
    PerEpoch,
    Probe,
    Recipe,
    Trades,
)

__version__ = version("ccat-torch")

__all__ = [  # noqa: RUF022 (grouped by room)
    # any model, in memory
    "attack",
    "evaluate",
    "Result",
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
    "Refined",
    "External",
    "Foolbox",
    "AutoAttack",
    # tables of attacks
    "Case",
    "Suite",
    "SUITES",
    # rejection
    "Rejection",
    "Confidence",
    "Detection",
    "Detector",
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
    "Trades",
    "MultiSteepest",
    "Direction",
    "PerEpoch",
    "LinearToZero",
    "Drops",
    # measuring
    "metrics",
    "Outcome",
    "threshold",
    "worst",
]
