"""The networks by name, what images they take, and their initialisation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, nn

from ccat.extensions import is_name
from ccat.models.external import build_external, require_shapes
from ccat.models.lenet import LeNet
from ccat.models.msd_lenet import MsdLeNet
from ccat.models.preact_resnet import PreActResNet18
from ccat.models.resnet import ResNet
from ccat.models.resnet20 import ResNet20
from ccat.models.steep_lenet import SteepLeNet
from ccat.models.trades_cnn import TradesCNN
from ccat.models.wide_lenet import WideLeNet
from ccat.models.wide_resnet import WideResNet


def any_size(name: str, height: int, width: int) -> dict[str, int]:
    """Take images of any size, without being told which."""
    return {}


def square(name: str, height: int, width: int) -> dict[str, int]:
    """Take square images; the network is built for their `size`."""
    if height != width:
        raise ValueError(
            f"{name} takes square images, not {height}x{width}: "
            "choose --model resnet20, or crop them"
        )
    return {"size": height}


def only_28x28(name: str, height: int, width: int) -> dict[str, int]:
    """Take images of 28×28 only."""
    if (height, width) != (28, 28):
        raise ValueError(
            f"{name} takes images of 28x28, not {height}x{width}: choose --model lenet or resnet20"
        )
    return {}


@dataclass(frozen=True)
class Network:
    """An entry of `MODELS`: how a network is built, and what images it takes.

    Attributes:
        factory: Takes `channels`, `classes` and what `takes` returns, and returns a module that
            knows its name here (`architecture`) and the keywords it was built from (`arguments`).
        takes: Raises ValueError if the network, by its name, cannot take images of a height and a
            width; otherwise returns what the factory must be told about them.
    """

    factory: Callable[..., nn.Module]
    takes: Callable[[str, int, int], dict[str, int]] = any_size


MODELS: dict[str, Network] = {
    "lenet": Network(LeNet, square),
    "wide-lenet": Network(WideLeNet, square),
    "steep-lenet": Network(SteepLeNet, square),
    "resnet20": Network(ResNet20),
    "trades-cnn": Network(TradesCNN, only_28x28),
    "msd-lenet": Network(MsdLeNet, only_28x28),
    "preact-resnet18": Network(PreActResNet18),
    "resnet34": Network(partial(ResNet, depth=34)),
    "resnet50": Network(partial(ResNet, depth=50)),
    "wrn-28-10": Network(partial(WideResNet, depth=28)),
    "wrn-34-10": Network(partial(WideResNet, depth=34)),
}


def is_model_name(name: str) -> bool:
    """Return True if the name is one of `MODELS` or of the form `package.module:factory`."""
    return name in MODELS or is_name(name)


def arguments_for(
    name: str, channels: int, height: int, width: int, classes: int
) -> dict[str, int]:
    """Return the arguments with which `create_model` builds a network for such images.

    A user's factory, `package.module:factory`, is not imported for this.

    Raises:
        ValueError: If there is no such network, or it cannot take such images.
    """
    arguments = {"channels": channels, "classes": classes}
    if is_name(name):
        return arguments | ({"size": height} if height == width else {})
    return arguments | _network(name).takes(name, height, width)


def create_model(name: str, generator: Generator, **arguments: Any) -> nn.Module:
    """Create a network with fresh weights, which depend on the generator alone.

    The module remembers `name` in its attribute `architecture` and what it was built from in
    `arguments`, so that `save_model` can store both.

    Args:
        name: One of `MODELS`, or `package.module:factory` of your own, which has to be trusted
            (`ccat.extensions.trust`). Such a factory is called with those of `channels`, `size` and
            `classes` (or `in_chans`, `img_size`, `num_classes`) that it has parameters for, and the
            weights it chooses are kept.
        generator: The source of the initial weights.
        **arguments: What the network is built from, as `arguments_for` gives it.

    Raises:
        UntrustedError: If nobody has trusted `package.module:factory`.
        ValueError: If there is no such network, or it cannot be built from these arguments.
    """
    if is_name(name):
        seed = torch.randint(2**63 - 1, (), generator=generator)
        model = build_external(name, arguments, int(seed))
        require_shapes(name, model)
        return model
    model = build_model(name, arguments)
    _initialise(model, generator)
    return model


def build_model(name: str, arguments: Mapping[str, Any]) -> nn.Module:
    """Build a network whose weights are about to be loaded; see `create_model`."""
    if is_name(name):
        return build_external(name, arguments, seed=0)
    network = _network(name)
    try:
        with torch.random.fork_rng(devices=[]):  # new layers draw from the global generator
            return network.factory(**arguments)
    except TypeError as wrong:
        raise ValueError(f"{name} cannot be built from {dict(arguments)}: {wrong}") from wrong


def _network(name: str) -> Network:
    if name not in MODELS:
        raise ValueError(
            f"there is no model {name!r}; there are {', '.join(MODELS)}, "
            "or package.module:factory of your own"
        )
    return MODELS[name]


def _initialise(model: nn.Module, generator: Generator) -> None:
    """Draw weights (He et al. 2015) in the order in which the layers are registered."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(
                module.weight, mode="fan_out", nonlinearity="relu", generator=generator
            )
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            nn.init.zeros_(module.bias)
