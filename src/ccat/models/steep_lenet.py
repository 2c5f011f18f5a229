"""The wide LeNet behind a steep curve, for images whose pixels are nearly black or white.

Grey up to 0.4 becomes black and grey from 0.6 on white, so that nothing within L∞ 0.4 changes what
the network sees of a black or a white pixel. That is knowledge about data such as MNIST;
photographs would lose most of what is in them.
"""

from torch import Tensor, nn

from ccat.models.wide_lenet import WideLeNet

BLACK, WHITE = 0.4, 0.6  # what is darker, or brighter, looks the same


class SteepLeNet(nn.Module):
    """The 455,274 weights of the wide LeNet; the curve has none.

    Args:
        channels: The channels of the images.
        size: The height of the images, which is also their width.
        classes: The number of classes.
    """

    architecture = "steep-lenet"

    def __init__(self, channels: int = 1, size: int = 28, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "size": size, "classes": classes}
        self.limits = nn.Hardtanh(0.0, 1.0)
        self.network = WideLeNet(channels, size, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(self.limits((x - BLACK) / (WHITE - BLACK)))
        return logits
