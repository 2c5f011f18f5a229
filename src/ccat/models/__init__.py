"""Classifiers: modules from images (N, C, H, W) in [0,1] to logits (N, K).

Each network has a file of its own and an entry in `MODELS`; normalisation is part of the model. A
network of yours is named `package.module:factory` wherever the name of a model is expected.

    model = create_model("lenet", torch.Generator().manual_seed(0), channels=1, size=28, classes=10)
    save_model(model, "model.safetensors")
    model = load_model("model.safetensors")
    model = import_model("wrn-34-10", "published.pt")  # weights from elsewhere
    fast = attack_copy(model, images)  # what attacks work on
    probabilities(model, images)  # (N, K)
"""

from ccat.models.attack_copy import attack_copy
from ccat.models.errors import ModelFileError
from ccat.models.files import load_model, save_model
from ccat.models.lenet import LeNet
from ccat.models.msd_lenet import MsdLeNet
from ccat.models.normalised import Normalised
from ccat.models.preact_resnet import PreActResNet18
from ccat.models.predict import probabilities
from ccat.models.published import import_model
from ccat.models.registry import MODELS, Network, arguments_for, create_model, is_model_name
from ccat.models.resnet import ResNet
from ccat.models.resnet20 import ResNet20
from ccat.models.steep_lenet import SteepLeNet
from ccat.models.trades_cnn import TradesCNN
from ccat.models.wide_lenet import WideLeNet
from ccat.models.wide_resnet import WideResNet

__all__ = [
    "MODELS",
    "LeNet",
    "ModelFileError",
    "MsdLeNet",
    "Network",
    "Normalised",
    "PreActResNet18",
    "ResNet",
    "ResNet20",
    "SteepLeNet",
    "TradesCNN",
    "WideLeNet",
    "WideResNet",
    "arguments_for",
    "attack_copy",
    "create_model",
    "import_model",
    "is_model_name",
    "load_model",
    "probabilities",
    "save_model",
]
