"""Small networks of others, for 28×28 grey images: the ones their methods were published with on MNIST."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class TradesCNN(nn.Module):
    """Four convolutions and three linear layers, as TRADES uses it: 312,202 weights."""

    architecture = "trades-cnn"

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes}
        self.features = nn.Sequential(
            *_convolutions((channels, 32, 32), 3, 0), nn.MaxPool2d(2), *_convolutions((32, 64, 64), 3, 0), nn.MaxPool2d(2), nn.Flatten()
        )
        self.classifier = nn.Sequential(
            nn.Linear(1024, 200), nn.ReLU(), nn.Dropout(0.5), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


class MsdLeNet(nn.Module):
    """Two convolutions and two linear layers, as MSD and Madry et al. use it: 3,274,634 weights."""

    architecture = "msd-lenet"

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes}
        self.features = nn.Sequential(
            *_convolutions((channels, 32), 5, 2), nn.MaxPool2d(2), *_convolutions((32, 64), 5, 2), nn.MaxPool2d(2), nn.Flatten()
        )
        self.classifier = nn.Sequential(nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


def _convolutions(widths: Sequence[int], kernel: int, padding: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.ReLU()]
    return layers
