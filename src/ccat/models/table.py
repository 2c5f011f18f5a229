"""The models by name, and their initialisation."""

import torch
from torch import Generator, nn

from ccat.models.lenet import LeNet
from ccat.models.resnet import ResNet20

MODELS: dict[str, type[LeNet] | type[ResNet20]] = {"lenet": LeNet, "resnet20": ResNet20}


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
        elif isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            nn.init.zeros_(module.bias)
    return model
