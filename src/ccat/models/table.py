"""The models by name, and their initialisation."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, nn

from ccat.models.lenet import LeNet
from ccat.models.preactivation import PreActResNet18, WideResNet
from ccat.models.resnet import ResNet, ResNet20
from ccat.models.small import MsdLeNet, TradesCNN

MODELS: dict[str, Callable[..., nn.Module]] = {  # each gives a module that knows its name here (architecture) and its arguments
    "lenet": LeNet,
    "resnet20": ResNet20,
    "trades-cnn": TradesCNN,
    "msd-lenet": MsdLeNet,
    "preact-resnet18": PreActResNet18,
    "resnet34": partial(ResNet, depth=34),
    "resnet50": partial(ResNet, depth=50),
    "wrn-28-10": partial(WideResNet, depth=28),
    "wrn-34-10": partial(WideResNet, depth=34),
}


def create_model(name: str, generator: Generator, **arguments: int) -> nn.Module:
    """A model of the table with fresh weights, which depend on the generator only."""
    if name not in MODELS:
        raise ValueError(f"there is no model {name!r}; there are {', '.join(MODELS)}")
    try:
        with torch.random.fork_rng(devices=[]):  # PyTorch fills new layers from its global generator
            model = MODELS[name](**arguments)
    except TypeError as wrong:
        raise ValueError(f"{name} cannot be built from {arguments}: {wrong}") from wrong
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            nn.init.zeros_(module.bias)
    return model
