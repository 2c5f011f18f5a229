"""Classifiers: plain modules from images (N, C, H, W) in [0,1] to logits (N, K), any normalisation inside."""

from ccat.models.errors import ModelFileError
from ccat.models.files import load_model, save_model
from ccat.models.folded import folded
from ccat.models.lenet import LeNet
from ccat.models.normalised import Normalised
from ccat.models.preactivation import PreActResNet18, WideResNet
from ccat.models.published import bring_model, foreign, known
from ccat.models.resnet import ResNet, ResNet20
from ccat.models.small import MsdLeNet, TradesCNN
from ccat.models.table import MODELS, create_model

__all__ = [
    "MODELS",
    "LeNet",
    "ModelFileError",
    "MsdLeNet",
    "Normalised",
    "PreActResNet18",
    "ResNet",
    "ResNet20",
    "TradesCNN",
    "WideResNet",
    "bring_model",
    "create_model",
    "folded",
    "foreign",
    "known",
    "load_model",
    "save_model",
]
