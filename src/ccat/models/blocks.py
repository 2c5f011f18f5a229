"""Residual blocks and the stages made of them, as all residual networks here share them.

Shapes: a block of width w and stride s takes (N, inputs, H, W) to (N, w·expansion, ⌈H/s⌉, ⌈W/s⌉).
"""

from collections.abc import Sequence

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3×3 convolutions F and a shortcut around them: relu(F(x) + shortcut(x))."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = convolution(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(inputs, width, stride)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        activated: Tensor = self.relu2(out + self.shortcut(x))
        return activated


class Bottleneck(nn.Module):
    """A 1×1, a 3×3 and a 1×1 convolution, which widens four times, with a shortcut around them."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU()
        self.conv3 = convolution(width, 4 * width, 1)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = _shortcut(inputs, 4 * width, stride)
        self.relu3 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.relu2(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        activated: Tensor = self.relu3(out + self.shortcut(x))
        return activated


class PreActBlock(nn.Module):
    """A block that normalises and rectifies before each of two 3×3 convolutions (He et al. 2016b).

    Where the shape changes, the shortcut convolves relu(bn1(x)) and not x itself.
    """

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = convolution(inputs, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width, 3)
        self.shortcut = (
            nn.Sequential()
            if inputs == width and stride == 1
            else nn.Sequential(convolution(inputs, width, 1, stride))
        )

    def forward(self, x: Tensor) -> Tensor:
        active = self.bn1(x).relu()
        out: Tensor = self.conv2(self.bn2(self.conv1(active)).relu())
        return out + (self.shortcut(active) if len(self.shortcut) else x)


def stages(
    block: type[BasicBlock] | type[Bottleneck] | type[PreActBlock],
    inputs: int,
    widths: Sequence[int],
    counts: Sequence[int],
) -> list[nn.Sequential]:
    """Build the stages of a residual network; every stage but the first halves the image.

    Args:
        block: The kind of block all stages are made of.
        inputs: The channels that enter the first stage.
        widths: The width of each stage.
        counts: The number of blocks of each stage.
    """
    built = []
    for number, (width, count) in enumerate(zip(widths, counts, strict=True)):
        outputs = width * block.expansion
        first = block(inputs, width, 1 if number == 0 else 2)
        built.append(nn.Sequential(first, *(block(outputs, width) for _ in range(count - 1))))
        inputs = outputs
    return built


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """Build a convolution without bias, padded such that stride 1 keeps the size of the image."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Return the identity, or a normalised 1×1 convolution where the shape changes."""
    if inputs == outputs and stride == 1:
        return nn.Sequential()
    return nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
