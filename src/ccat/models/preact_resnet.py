"""PreActResNet-18: a residual network that normalises before it convolves (He et al. 2016b).

On colour images with ten classes it has 11,172,170 weights.
"""

from torch import Tensor, nn

from ccat.models.blocks import PreActBlock, convolution, stages


class PreActResNet18(nn.Module):
    """Four stages of two pre-activation blocks, 64 to 512 channels wide, for images of any size.

    Args:
        channels: The channels of the images.
        classes: The number of classes.
    """

    architecture = "preact-resnet18"

    def __init__(self, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes}
        self.conv1 = convolution(channels, 64, 3)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages(
            PreActBlock, 64, (64, 128, 256, 512), (2, 2, 2, 2)
        )
        self.bn = nn.BatchNorm2d(512)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.conv1(x)))))
        logits: Tensor = self.fc(self.bn(x).relu().mean((2, 3)))
        return logits
