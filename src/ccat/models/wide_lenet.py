"""A convolutional network for CPUs with few, wide layers, as interval bounds like them.

It has 455,274 weights on MNIST, eleven times as many as the LeNet.
"""

from torch import Tensor, nn


class WideLeNet(nn.Module):
    """Two strided convolutions (32, 64 channels) and a hidden layer of 128, each normalised.

    Args:
        channels: The channels of the images.
        size: The height of the images, which is also their width.
        classes: The number of classes.
    """

    architecture = "wide-lenet"

    def __init__(self, channels: int = 1, size: int = 28, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "size": size, "classes": classes}
        self.conv1 = nn.Conv2d(channels, 32, 5, stride=2, padding=2, bias=False)
        self.bn1, self.relu1 = nn.BatchNorm2d(32), nn.ReLU()
        self.conv2 = nn.Conv2d(32, 64, 5, stride=2, padding=2, bias=False)
        self.bn2, self.relu2 = nn.BatchNorm2d(64), nn.ReLU()
        last = -(-size // 4)  # halved twice, rounded up
        self.fc1 = nn.Linear(64 * last * last, 128)
        self.bn3, self.relu3 = nn.BatchNorm1d(128), nn.ReLU()
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x)))
        x = self.relu2(self.bn2(self.conv2(x)))
        x = self.relu3(self.bn3(self.fc1(x.flatten(1))))
        logits: Tensor = self.fc2(x)
        return logits
