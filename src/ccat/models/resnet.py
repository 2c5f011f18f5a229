"""The paper's "ResNet-20": three stages of three basic blocks (He et al. 2016), 64, 128 and 256 channels wide.

4,326,602 weights on MNIST, 4,327,754 on colour images; He's own ResNet-20 is 16, 32 and 64 channels wide and has 0.27 million.
"""

from torch import Tensor, nn


class ResNet20(nn.Module):
    """Takes images of any size: the last feature map is averaged."""

    def __init__(self, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes}
        widths = (64, 128, 256)
        self.stem = nn.Sequential(_convolution(channels, widths[0], 3), nn.BatchNorm2d(widths[0]), nn.ReLU())
        blocks = []
        for inputs, outputs in zip((64, *widths), widths, strict=False):
            blocks += [
                Block(inputs, outputs, 1 if inputs == outputs else 2),
                Block(outputs, outputs),
                Block(outputs, outputs),
            ]
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.blocks(self.stem(x)).mean((2, 3)))
        return logits


class Block(nn.Module):
    """relu(F(x) + shortcut(x)) with two 3×3 convolutions in F; a 1×1 convolution as the shortcut where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            _convolution(inputs, outputs, 3, stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            _convolution(outputs, outputs, 3),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.residual(x) + self.shortcut(x))


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
