"""The small network that TRADES (Zhang et al. 2019) uses on MNIST."""

from collections import OrderedDict

from torch import Tensor, nn


class TradesCNN(nn.Module):
    """Four convolutions and three linear layers for images of 28×28: 312,202 weights on MNIST.

    Args:
        channels: The channels of the images.
        classes: The number of classes.
    """

    architecture = "trades-cnn"

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.arguments = {"channels": channels, "classes": classes}
        self.feature_extractor = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(channels, 32, 3),
                relu1=nn.ReLU(),
                conv2=nn.Conv2d(32, 32, 3),
                relu2=nn.ReLU(),
                maxpool1=nn.MaxPool2d(2),
                conv3=nn.Conv2d(32, 64, 3),
                relu3=nn.ReLU(),
                conv4=nn.Conv2d(64, 64, 3),
                relu4=nn.ReLU(),
                maxpool2=nn.MaxPool2d(2),
            )
        )
        self.classifier = nn.Sequential(
            OrderedDict(
                fc1=nn.Linear(64 * 4 * 4, 200),
                relu1=nn.ReLU(),
                drop=nn.Dropout(0.5),
                fc2=nn.Linear(200, 200),
                relu2=nn.ReLU(),
                fc3=nn.Linear(200, classes),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.feature_extractor(x).flatten(1))
        return logits
