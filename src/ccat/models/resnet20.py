"""The paper's "ResNet-20": three stages of three basic blocks (He et al. 2016).

The stages are 64, 128 and 256 channels wide, which makes 4,326,602 weights on MNIST and 4,327,754
on colour images. He's own ResNet-20 is 16, 32 and 64 channels wide (`width=16`): 0.27 million.
"""

from torch import Tensor, nn

from ccat.models.blocks import BasicBlock, convolution, stages


class ResNet20(nn.Module):
    """The paper's residual network of 20 layers, for images of any size.

    Args:
        channels: The channels of the images.
        classes: The number of classes.
        width: The width of the first stage; the second and the third have 2 and 4 times as much.
    """

    architecture = "resnet20"

    def __init__(self, channels: int = 3, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes, "width": width}
        self.conv1 = convolution(channels, width, 3)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.layer1, self.layer2, self.layer3 = stages(
            BasicBlock, width, (width, 2 * width, 4 * width), (3, 3, 3)
        )
        self.fc = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
