"""Residual networks (He et al. 2016) for small images: a 3×3 stem without pooling, the last feature map averaged.

The paper's "ResNet-20" is three stages of three basic blocks, 64, 128 and 256 channels wide: 4,326,602 weights on MNIST, 4,327,754 on
colour images; He's own ResNet-20 is 16, 32 and 64 channels wide (`width=16`) and has 0.27 million. ResNet-34 has 21,282,122 weights on
colour images, ResNet-50 23,520,842.
"""

from typing import Literal

from torch import Tensor, nn


class ResNet20(nn.Module):
    """Takes images of any size: the last feature map is averaged."""

    architecture = "resnet20"

    def __init__(self, channels: int = 3, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes, "width": width}
        self.stem = _stem(channels, width)
        self.blocks = _stages(Block, (width, 2 * width, 4 * width), (3, 3, 3))
        self.classifier = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.blocks(self.stem(x)).mean((2, 3)))
        return logits


class ResNet(nn.Module):
    """Four stages, 64 to 512 channels: 34 layers of basic blocks, or 50 of bottlenecks that put out four times as many channels."""

    def __init__(self, channels: int = 3, classes: int = 10, depth: Literal[34, 50] = 34) -> None:
        super().__init__()
        self.architecture = f"resnet{depth}"
        self.arguments = {"channels": channels, "classes": classes}
        kind = Block if depth == 34 else Bottleneck
        self.stem = _stem(channels, 64)
        self.blocks = _stages(kind, (64, 128, 256, 512), (3, 4, 6, 3))
        self.classifier = nn.Linear(512 * kind.expansion, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.blocks(self.stem(x)).mean((2, 3)))
        return logits


class Block(nn.Module):
    """relu(F(x) + shortcut(x)) with two 3×3 convolutions in F; a 1×1 convolution as the shortcut where the shape changes."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *_normalised(inputs, width, 3, stride),
            nn.ReLU(),
            *_normalised(width, width, 3),
        )
        self.shortcut = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.residual(x) + self.shortcut(x))


class Bottleneck(nn.Module):
    """As Block, with a 1×1, a 3×3 and a 1×1 convolution in F."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *_normalised(inputs, width, 1),
            nn.ReLU(),
            *_normalised(width, width, 3, stride),
            nn.ReLU(),
            *_normalised(width, 4 * width, 1),
        )
        self.shortcut = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.residual(x) + self.shortcut(x))


def _stem(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(*_normalised(channels, width, 3), nn.ReLU())


def _stages(kind: type[Block] | type[Bottleneck], widths: tuple[int, ...], counts: tuple[int, ...]) -> nn.Sequential:
    """Every stage but the first halves the image in its first block."""
    blocks: list[nn.Module] = []
    inputs = widths[0]
    for stage, (width, count) in enumerate(zip(widths, counts, strict=True)):
        for number in range(count):
            blocks.append(kind(inputs, width, 2 if stage > 0 and number == 0 else 1))
            inputs = width * kind.expansion
    return nn.Sequential(*blocks)


def _normalised(inputs: int, outputs: int, kernel: int, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    same = inputs == outputs and stride == 1
    return nn.Identity() if same else nn.Sequential(*_normalised(inputs, outputs, 1, stride))
