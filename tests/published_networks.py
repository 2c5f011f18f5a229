"""Networks as others published them: independent code whose layers have their published names."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class TheirBlock(nn.Module):
    """A basic block or a bottleneck."""

    def __init__(self, inputs: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        outputs = width * expansion
        widths = [(inputs, width, 3, stride), (width, width, 3, 1)] if expansion == 1 else []
        widths = widths or [
            (inputs, width, 1, 1),
            (width, width, 3, stride),
            (width, outputs, 1, 1),
        ]
        self.count = len(widths)
        for n, one in enumerate(widths, start=1):
            setattr(self, f"conv{n}", conv(*one))
            setattr(self, f"bn{n}", nn.BatchNorm2d(one[1]))
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for n in range(1, self.count + 1):
            out = getattr(self, f"bn{n}")(getattr(self, f"conv{n}")(out))
            out = functional.relu(out) if n < self.count else out
        return functional.relu(out + self.shortcut(x))


class TheirPreBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, wide: bool) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv(inputs, outputs, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv(outputs, outputs)
        if inputs != outputs or stride != 1:
            shortcut = conv(inputs, outputs, 1, stride)
            setattr(
                self,
                "convShortcut" if wide else "shortcut",
                shortcut if wide else nn.Sequential(shortcut),
            )

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.bn1(x))
        shortcut = getattr(self, "shortcut", None) or getattr(self, "convShortcut", None)
        kept = shortcut(out) if shortcut is not None else x
        residual: Tensor = self.conv2(functional.relu(self.bn2(self.conv1(out))))
        return residual + kept


def stage(
    make: Callable[[int, int, int], nn.Module],
    inputs: int,
    outputs: int,
    count: int,
    stride: int,
    expansion: int = 1,
) -> nn.Sequential:
    blocks = [
        make(inputs if n == 0 else outputs * expansion, outputs, stride if n == 0 else 1)
        for n in range(count)
    ]
    return nn.Sequential(*blocks)


class Their(nn.Module):
    """Any of their residual networks."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind.startswith("resnet"):
            e = 1 if kind == "resnet34" else 4
            self.conv1, self.bn1 = conv(3, 64), nn.BatchNorm2d(64)
            for k, (width, count) in enumerate(
                zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True), start=1
            ):
                inputs = 64 if k == 1 else width // 2 * e
                setattr(
                    self,
                    f"layer{k}",
                    stage(
                        lambda i, w, s: TheirBlock(i, w, s, e),
                        inputs,
                        width,
                        count,
                        1 if k == 1 else 2,
                        e,
                    ),
                )
            self.linear = nn.Linear(512 * e, 10)
        elif kind == "preact-resnet18":
            self.conv1, self.bn = conv(3, 64), nn.BatchNorm2d(512)
            for k, width in enumerate((64, 128, 256, 512), start=1):
                inputs = 64 if k == 1 else width // 2
                setattr(
                    self,
                    f"layer{k}",
                    stage(
                        lambda i, w, s: TheirPreBlock(i, w, s, wide=False),
                        inputs,
                        width,
                        2,
                        1 if k == 1 else 2,
                    ),
                )
            self.linear = nn.Linear(512, 10)
        else:
            count = (int(kind.split("-")[1]) - 4) // 6
            self.conv1, self.bn1 = conv(3, 16), nn.BatchNorm2d(640)
            for k, width in enumerate((160, 320, 640), start=1):
                block = nn.Module()
                inputs = 16 if k == 1 else width // 2
                block.layer = stage(
                    lambda i, w, s: TheirPreBlock(i, w, s, wide=True),
                    inputs,
                    width,
                    count,
                    1 if k == 1 else 2,
                )
                setattr(self, f"block{k}", block)
            self.fc = nn.Linear(640, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor
        if self.kind.startswith("wrn"):
            x = self.conv1(x)
            for k in (1, 2, 3):
                x = getattr(self, f"block{k}").layer(x)
            logits = self.fc(
                functional.adaptive_avg_pool2d(functional.relu(self.bn1(x)), 1).flatten(1)
            )
            return logits
        x = self.conv1(x)
        x = functional.relu(self.bn1(x)) if self.kind.startswith("resnet") else x
        for k in (1, 2, 3, 4):
            x = getattr(self, f"layer{k}")(x)
        x = functional.relu(self.bn(x)) if self.kind == "preact-resnet18" else x
        logits = self.linear(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def their_lenet() -> nn.Module:
    first = [
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]
    return nn.Sequential(
        *first, nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )


class TheirCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.feature_extractor, self.classifier = nn.Module(), nn.Module()
        for n, (i, o) in enumerate(((1, 32), (32, 32), (32, 64), (64, 64)), start=1):
            setattr(self.feature_extractor, f"conv{n}", nn.Conv2d(i, o, 3))
        for n, (i, o) in enumerate(((1024, 200), (200, 200), (200, 10)), start=1):
            setattr(self.classifier, f"fc{n}", nn.Linear(i, o))

    def forward(self, x: Tensor) -> Tensor:
        f: Any = self.feature_extractor
        c: Any = self.classifier
        x = functional.max_pool2d(functional.relu(f.conv2(functional.relu(f.conv1(x)))), 2)
        x = functional.max_pool2d(functional.relu(f.conv4(functional.relu(f.conv3(x)))), 2)
        x = functional.relu(c.fc2(functional.relu(c.fc1(x.flatten(1)))))
        logits: Tensor = c.fc3(x)
        return logits


# How each is built, the channels of its images, and the number of weights it is known to have.
THEIRS: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "trades-cnn": (TheirCNN, 1, 312_202),
    "msd-lenet": (their_lenet, 1, 3_274_634),
    "preact-resnet18": (lambda: Their("preact-resnet18"), 3, 11_172_170),
    "resnet34": (lambda: Their("resnet34"), 3, 21_282_122),
    "resnet50": (lambda: Their("resnet50"), 3, 23_520_842),
    "wrn-28-10": (lambda: Their("wrn-28-10"), 3, 36_479_194),
    "wrn-34-10": (lambda: Their("wrn-34-10"), 3, 46_160_474),
}
