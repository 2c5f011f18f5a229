"""Image classifiers that may say "I don't know": train them, attack them, measure what gets through.

Confidence-Calibrated Adversarial Training (Stutz, Hein & Schiele, ICML 2020) on PyTorch.
"""

from importlib.metadata import version

from ccat import adapters, metrics
from ccat.api import External, Result, evaluate
from ccat.attacks import APGD, PGD, Attack, CornerSearch, Estimated, Found, Geometry, Problem, Random, Refined, Simple, Square, best
from ccat.data import DATASETS, DataUnavailableError, Images, load_mnist
from ccat.methods import Adversarial, ConfidenceCalibrated, Direction, Method, MultiSteepest, Normal, Trades
from ccat.metrics import Outcome, threshold, worst
from ccat.models import MODELS, ModelFileError, Normalised, bring_model, create_model, load_model, save_model
from ccat.objectives import any_class_confidence, cross_entropy, other_class_confidence
from ccat.threats import L0, L1, L2, Frame, Linf, Threat

__version__ = version("ccat-torch")

__all__ = [
    "APGD",
    "DATASETS",
    "L0",
    "L1",
    "L2",
    "MODELS",
    "PGD",
    "Adversarial",
    "Attack",
    "ConfidenceCalibrated",
    "CornerSearch",
    "DataUnavailableError",
    "Direction",
    "Estimated",
    "External",
    "Found",
    "Frame",
    "Geometry",
    "Images",
    "Linf",
    "Method",
    "ModelFileError",
    "MultiSteepest",
    "Normal",
    "Normalised",
    "Outcome",
    "Problem",
    "Random",
    "Refined",
    "Result",
    "Simple",
    "Square",
    "Threat",
    "Trades",
    "adapters",
    "any_class_confidence",
    "best",
    "bring_model",
    "create_model",
    "cross_entropy",
    "evaluate",
    "load_mnist",
    "load_model",
    "metrics",
    "other_class_confidence",
    "save_model",
    "threshold",
    "worst",
]
