"""A small convolutional network for CPUs.

It has 42,106 weights on MNIST, about a hundredth of the paper's ResNet-20.
"""

from torch import Tensor, nn


class LeNet(nn.Module):
    """Three strided convolutions (16, 32, 64 channels), each batch-normalised, and a linear layer.

    Args:
        channels: The channels of the images.
        size: The height of the images, which is also their width.
        classes: The number of classes.
    """

    architecture = "lenet"

    def __init__(self, channels: int = 1, size: int = 28, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "size": size, "classes": classes}
        self.conv1, self.bn1, self.relu1 = _convolution(channels, 16, 5)
        self.conv2, self.bn2, self.relu2 = _convolution(16, 32, 5)
        self.conv3, self.bn3, self.relu3 = _convolution(32, 64, 3)
        last = -(-size // 8)  # halved three times, rounded up
        self.fc = nn.Linear(64 * last * last, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x)))
        x = self.relu2(self.bn2(self.conv2(x)))
        x = self.relu3(self.bn3(self.conv3(x)))
        logits: Tensor = self.fc(x.flatten(1))
        return logits


def _convolution(
    inputs: int, outputs: int, kernel: int
) -> tuple[nn.Conv2d, nn.BatchNorm2d, nn.ReLU]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride=2, padding=kernel // 2, bias=False)
    return conv, nn.BatchNorm2d(outputs), nn.ReLU()
