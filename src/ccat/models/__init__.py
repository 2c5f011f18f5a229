"""Classifiers: plain modules from images (N, C, H, W) in [0,1] to logits (N, K), any normalisation inside."""

from ccat.models.files import ModelFileError, load_model, save_model
from ccat.models.lenet import LeNet
from ccat.models.resnet import ResNet20
from ccat.models.table import MODELS, create_model

__all__ = ["MODELS", "LeNet", "ModelFileError", "ResNet20", "create_model", "load_model", "save_model"]
