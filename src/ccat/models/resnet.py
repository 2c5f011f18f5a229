"""ResNet-34 and ResNet-50 (He et al. 2016) for small images: no stride or pooling at the start.

On colour images with ten classes they have 21,282,122 and 23,520,842 weights.
"""

from typing import Literal

from torch import Tensor, nn

from ccat.models.blocks import BasicBlock, Bottleneck, convolution, stages


class ResNet(nn.Module):
    """A residual network of four stages, 64 to 512 channels wide, for images of any size.

    Args:
        channels: The channels of the images.
        classes: The number of classes.
        depth: 34 layers of basic blocks, or 50 layers of bottlenecks.
    """

    def __init__(self, channels: int = 3, classes: int = 10, depth: Literal[34, 50] = 34) -> None:
        super().__init__()
        self.architecture = f"resnet{depth}"
        self.arguments = {"channels": channels, "classes": classes}
        block = BasicBlock if depth == 34 else Bottleneck
        self.conv1 = convolution(channels, 64, 3)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.layer1, self.layer2, self.layer3, self.layer4 = stages(
            block, 64, (64, 128, 256, 512), (3, 4, 6, 3)
        )
        self.fc = nn.Linear(512 * block.expansion, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
