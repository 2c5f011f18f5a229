"""A small convolutional network for CPUs: 42,106 weights on MNIST, about a hundredth of the paper's ResNet-20."""

from torch import Tensor, nn


class LeNet(nn.Module):
    """Three strided convolutions with batch normalisation (16, 32, 64 channels) and one linear layer."""

    architecture = "lenet"

    def __init__(self, channels: int = 1, size: int = 28, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "size": size, "classes": classes}
        last = -(-size // 8)  # three times halved, rounded up
        self.features = nn.Sequential(*_block(channels, 16, 5), *_block(16, 32, 5), *_block(32, 64, 3), nn.Flatten())
        self.classifier = nn.Linear(64 * last * last, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


def _block(inputs: int, outputs: int, kernel: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=2, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs), nn.ReLU()
