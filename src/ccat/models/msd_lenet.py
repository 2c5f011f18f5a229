"""The network that MSD (Maini et al. 2020) and Madry et al. (2018) use on MNIST."""

from torch import nn


class MsdLeNet(nn.Sequential):
    """Two convolutions and two linear layers for images of 28×28: 3,274,634 weights on MNIST.

    Args:
        channels: The channels of the images.
        classes: The number of classes.
    """

    architecture = "msd-lenet"

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 1024),
            nn.ReLU(),
            nn.Linear(1024, classes),
        )
        self.arguments = {"channels": channels, "classes": classes}
