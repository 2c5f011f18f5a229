"""A small network that reads digits: something to attack, trained once per test process."""

import copy
from functools import cache

import torch
from torch import nn
from truth import seeded

from ccat import Images, Normal, create_model, load_mnist


def reader() -> nn.Module:
    """Return a copy of the network, in evaluation mode."""
    return copy.deepcopy(_trained())


@cache
def _trained() -> nn.Module:
    images: Images = load_mnist("train")
    generator = seeded(3)
    net = create_model("lenet", generator).train()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for rows in torch.randperm(8000, generator=generator).view(-1, 100):
        loss = Normal()(net, net, images[rows].floats(), images[rows].y, generator)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net.eval()
