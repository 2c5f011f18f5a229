"""Wide residual networks (Zagoruyko & Komodakis 2016), without dropout.

On colour images with ten classes WRN-28-10 has 36,479,194 weights and WRN-34-10 has 46,160,474.
"""

from collections import OrderedDict
from typing import Literal

from torch import Tensor, nn

from ccat.models.blocks import PreActBlock, convolution, stages


class WideResNet(nn.Module):
    """Three stages of pre-activation blocks, for images of any size.

    Args:
        channels: The channels of the images.
        classes: The number of classes.
        depth: The number of layers; each stage has (depth − 4) / 6 blocks.
        wide: The stages are `wide` times 16, 32 and 64 channels wide.
    """

    def __init__(
        self, channels: int = 3, classes: int = 10, depth: Literal[28, 34] = 34, wide: int = 10
    ) -> None:
        super().__init__()
        self.architecture = f"wrn-{depth}-{wide}"
        self.arguments = {"channels": channels, "classes": classes}
        self.conv1 = convolution(channels, 16, 3)
        self.block1, self.block2, self.block3 = (
            nn.Sequential(OrderedDict(layer=stage))  # published weights: block1.layer.0.bn1 ...
            for stage in stages(
                PreActBlock, 16, (16 * wide, 32 * wide, 64 * wide), 3 * ((depth - 4) // 6,)
            )
        )
        self.bn1 = nn.BatchNorm2d(64 * wide)
        self.fc = nn.Linear(64 * wide, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        logits: Tensor = self.fc(self.bn1(x).relu().mean((2, 3)))
        return logits
