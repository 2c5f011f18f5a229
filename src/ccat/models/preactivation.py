"""Residual networks that normalise before they convolve (He et al. 2016b), for 32×32 images.

PreActResNet-18 has 11,172,170 weights, WRN-28-10 36,479,194 and WRN-34-10 46,160,474, on colour images with ten classes.
"""

from itertools import pairwise
from typing import Literal

from torch import Tensor, nn


class PreActResNet18(nn.Module):
    """Four stages of two blocks, 64 to 512 channels; normalised before the average."""

    architecture = "preact-resnet18"

    def __init__(self, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes}
        self.stem = _convolution(channels, 64)
        self.stages = _stages((64, 64, 128, 256, 512), 2)
        self.norm = nn.BatchNorm2d(512)
        self.classifier = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.norm(self.stages(self.stem(x))).relu().mean((2, 3)))
        return logits


class WideResNet(nn.Module):
    """Three stages of (depth − 4) / 6 blocks, `wide` times 16, 32 and 64 channels (Zagoruyko & Komodakis 2016), without dropout."""

    def __init__(self, channels: int = 3, classes: int = 10, depth: Literal[28, 34] = 34, wide: int = 10) -> None:
        super().__init__()
        self.architecture = f"wrn-{depth}-{wide}"
        self.arguments = {"channels": channels, "classes": classes}
        self.stem = _convolution(channels, 16)
        self.stages = _stages((16, 16 * wide, 32 * wide, 64 * wide), (depth - 4) // 6)
        self.norm = nn.BatchNorm2d(64 * wide)
        self.classifier = nn.Linear(64 * wide, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.norm(self.stages(self.stem(x))).relu().mean((2, 3)))
        return logits


class Block(nn.Module):
    """Normalise, rectify, convolve, twice. Where the shape changes, the shortcut convolves what was normalised and rectified first."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.convolution1, self.convolution2 = _convolution(inputs, outputs, 3, stride), _convolution(outputs, outputs)
        self.shortcut = None if inputs == outputs and stride == 1 else _convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        active = self.norm1(x).relu()
        residual: Tensor = self.convolution2(self.norm2(self.convolution1(active)).relu())
        return residual + (x if self.shortcut is None else self.shortcut(active))


def _stages(widths: tuple[int, ...], count: int) -> nn.Sequential:
    """From each width to the next, `count` blocks a stage; every stage but the first halves the image."""
    stages = []
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        first = Block(inputs, outputs, 1 if number == 0 else 2)
        stages.append(nn.Sequential(first, *(Block(outputs, outputs) for _ in range(count - 1))))
    return nn.Sequential(*stages)


def _convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
