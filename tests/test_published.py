"""Weights of others. The modules below are written with the names that published checkpoints have, and compute what those models do."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from ccat.models import MODELS, ModelFileError, Normalised, bring_model, load_model, save_model


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class TheirBlock(nn.Module):
    """Basic or bottleneck."""

    def __init__(self, inputs: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        outputs = width * expansion
        widths = [(inputs, width, 3, stride), (width, width, 3, 1)] if expansion == 1 else []
        widths = widths or [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
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
            setattr(self, "convShortcut" if wide else "shortcut", shortcut if wide else nn.Sequential(shortcut))

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.bn1(x))
        shortcut = getattr(self, "shortcut", None) or getattr(self, "convShortcut", None)
        kept = shortcut(out) if shortcut is not None else x
        residual: Tensor = self.conv2(functional.relu(self.bn2(self.conv1(out))))
        return residual + kept


def stage(
    make: Callable[[int, int, int], nn.Module], inputs: int, outputs: int, count: int, stride: int, expansion: int = 1
) -> nn.Sequential:
    blocks = [make(inputs if n == 0 else outputs * expansion, outputs, stride if n == 0 else 1) for n in range(count)]
    return nn.Sequential(*blocks)


class Their(nn.Module):
    """All of their residual networks, at full size or narrower."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind.startswith("resnet"):
            e = 1 if kind == "resnet34" else 4
            self.conv1, self.bn1 = conv(3, 64), nn.BatchNorm2d(64)
            for k, (width, count) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True), start=1):
                inputs = 64 if k == 1 else width // 2 * e
                setattr(self, f"layer{k}", stage(lambda i, w, s: TheirBlock(i, w, s, e), inputs, width, count, 1 if k == 1 else 2, e))
            self.linear = nn.Linear(512 * e, 10)
        elif kind == "preact-resnet18":
            self.conv1, self.bn = conv(3, 64), nn.BatchNorm2d(512)
            for k, width in enumerate((64, 128, 256, 512), start=1):
                inputs = 64 if k == 1 else width // 2
                setattr(self, f"layer{k}", stage(lambda i, w, s: TheirPreBlock(i, w, s, wide=False), inputs, width, 2, 1 if k == 1 else 2))
            self.linear = nn.Linear(512, 10)
        else:
            count = (int(kind.split("-")[1]) - 4) // 6
            self.conv1, self.bn1 = conv(3, 16), nn.BatchNorm2d(640)
            for k, width in enumerate((160, 320, 640), start=1):
                block = nn.Module()
                inputs = 16 if k == 1 else width // 2
                block.layer = stage(lambda i, w, s: TheirPreBlock(i, w, s, wide=True), inputs, width, count, 1 if k == 1 else 2)
                setattr(self, f"block{k}", block)
            self.fc = nn.Linear(640, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor
        if self.kind.startswith("wrn"):
            x = self.conv1(x)
            for k in (1, 2, 3):
                x = getattr(self, f"block{k}").layer(x)
            logits = self.fc(functional.adaptive_avg_pool2d(functional.relu(self.bn1(x)), 1).flatten(1))
            return logits
        x = self.conv1(x)
        x = functional.relu(self.bn1(x)) if self.kind.startswith("resnet") else x
        for k in (1, 2, 3, 4):
            x = getattr(self, f"layer{k}")(x)
        x = functional.relu(self.bn(x)) if self.kind == "preact-resnet18" else x
        logits = self.linear(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def their_lenet() -> nn.Module:
    first = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10))


class TheirCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.feature_extractor, self.classifier = nn.Module(), nn.Module()
        for n, (i, o) in enumerate(((1, 32), (32, 32), (32, 64), (64, 64)), start=1):
            setattr(self.feature_extractor, f"conv{n}", nn.Conv2d(i, o, 3))
        for n, (i, o) in enumerate(((1024, 200), (200, 200), (200, 10)), start=1):
            setattr(self.classifier, f"fc{n}", nn.Linear(i, o))

    def forward(self, x: Tensor) -> Tensor:
        f, c = self.feature_extractor, self.classifier
        x = functional.max_pool2d(functional.relu(f.conv2(functional.relu(f.conv1(x)))), 2)  # type: ignore[operator]
        x = functional.max_pool2d(functional.relu(f.conv4(functional.relu(f.conv3(x)))), 2)  # type: ignore[operator]
        x = functional.relu(c.fc2(functional.relu(c.fc1(x.flatten(1)))))  # type: ignore[operator]
        logits: Tensor = c.fc3(x)  # type: ignore[operator]
        return logits


THEIRS: dict[str, tuple[Callable[[], nn.Module], int, int]] = {  # and the weights they are known to have
    "trades-cnn": (TheirCNN, 1, 312_202),
    "msd-lenet": (their_lenet, 1, 3_274_634),
    "preact-resnet18": (lambda: Their("preact-resnet18"), 3, 11_172_170),
    "resnet34": (lambda: Their("resnet34"), 3, 21_282_122),
    "resnet50": (lambda: Their("resnet50"), 3, 23_520_842),
    "wrn-28-10": (lambda: Their("wrn-28-10"), 3, 36_479_194),
    "wrn-34-10": (lambda: Their("wrn-34-10"), 3, 46_160_474),
}


@pytest.mark.parametrize("name", THEIRS)
def test_published_checkpoints_load_and_say_the_same(name: str, tmp_path: Path) -> None:
    make, channels, count = THEIRS[name]
    torch.manual_seed(1)
    theirs = make().eval()
    for module in theirs.modules():
        if isinstance(module, nn.BatchNorm2d):  # as if it had been trained
            assert module.running_mean is not None
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    assert sum(weight.numel() for weight in theirs.parameters()) == count
    size = 28 if channels == 1 else 32
    x = torch.rand(2, channels, size, size)
    torch.save({"state_dict": {f"module.{key}": value for key, value in theirs.state_dict().items()}, "epoch": 3}, tmp_path / "w.pt")
    ours = bring_model(name, tmp_path / "w.pt", channels=channels, classes=10)
    assert not ours.training
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)
    if count < 12_000_000:
        save_model(ours, tmp_path / "ours.safetensors")
        again = load_model(tmp_path / "ours.safetensors")
        with torch.no_grad():
            assert again(x).equal(ours(x))


def test_all_models_of_the_table_are_there() -> None:
    assert set(MODELS) == {"lenet", "resnet20", *THEIRS}


class Flat(nn.Module):
    """A module of one's own, with weights that are shared."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(784, 10)
        self.two = self.one

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.one(x.flatten(1)) + self.two(x.flatten(1))
        return logits


def test_modules_of_ones_own_with_normalisation(tmp_path: Path) -> None:
    model = Flat()
    save_file({name: value.clone() for name, value in model.state_dict().items()}, tmp_path / "w.safetensors")
    brought = Normalised(bring_model("test_published:Flat", tmp_path / "w.safetensors"), [0.1], [0.3])
    x = torch.rand(4, 1, 28, 28)
    torch.testing.assert_close(brought(x), model((x - 0.1) / 0.3))
    save_model(brought, tmp_path / "m.safetensors")
    torch.testing.assert_close(load_model(tmp_path / "m.safetensors", factory="test_published:Flat")(x), brought(x))
    with pytest.warns(UserWarning, match=r"with normalisation: --mean 0.1 --std 0.3 would give it the same"):
        bring_model("test_published:Flat", tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="normalisation is for 1 channels, the images have 3"):
        brought(torch.rand(1, 3, 28, 28))
    with pytest.raises(ValueError, match="a positive std for each channel"):
        Normalised(model, [0.1], [0.0])


class Own(nn.Module):
    """Has a name in it that wrappers have, too."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x.flatten(1))
        return logits


def test_names_are_taken_as_they_are_where_they_fit(tmp_path: Path) -> None:
    own = Own()
    for prefix in ("", "module."):
        torch.save({"net": {prefix + k: v for k, v in own.state_dict().items()}, "epoch": torch.tensor(3)}, tmp_path / "own.pt")
        x = torch.rand(2, 1, 28, 28)
        torch.testing.assert_close(bring_model("test_published:Own", tmp_path / "own.pt")(x), own(x))
    torch.save({**own.state_dict(), "normalize.mean": torch.tensor([0.5])}, tmp_path / "norm.pt")
    with pytest.warns(UserWarning, match=r"normalize.mean = \[0.5\]: images may have to be normalised"):
        bring_model("test_published:Own", tmp_path / "norm.pt")
    loop: dict[str, Any] = {}
    loop["state_dict"] = loop
    torch.save(loop, tmp_path / "loop.pt")
    with pytest.raises(ModelFileError, match="holds no weights by name"):
        bring_model("test_published:Own", tmp_path / "loop.pt")


def test_a_weights_file_runs_no_code(tmp_path: Path) -> None:
    save_file(
        {"a": torch.zeros(1)},
        tmp_path / "evil.safetensors",
        {"ccat": json.dumps({"schema": 1, "architecture": "os:abort", "arguments": {}})},
    )
    with pytest.raises(ModelFileError, match="is made by os:abort, which is code of your own"):
        load_model(tmp_path / "evil.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "odd.safetensors", {"ccat": json.dumps({"schema": 1, "architecture": 7, "arguments": {}})})
    with pytest.raises(ModelFileError, match="holds the architecture 7"):
        load_model(tmp_path / "odd.safetensors")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def test_bad_weights_and_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = their_lenet().state_dict()
    bad: dict[str, tuple[Any, str]] = {
        "lacks.pt": (
            {k: v for k, v in state.items() if not k.startswith("9")},
            r"does not fit msd-lenet: it lacks classifier\.2\.weight",
        ),
        "more.pt": ({**state, "11.weight": torch.zeros(3)}, r"it has besides 11\.weight \(3,\)"),
        "shape.pt": ({**state, "9.weight": torch.zeros(7, 1024)}, r"classifier\.2\.weight is \(7, 1024\), not \(10, 1024\)"),
        "none.pt": ({"epoch": 3}, "holds no weights by name"),
    }
    for file, (content, message) in bad.items():
        torch.save(content, tmp_path / file)
        with pytest.raises(ModelFileError, match=message):
            bring_model("msd-lenet", tmp_path / file)
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"state_dict": Evil()}))
    with pytest.raises(ModelFileError, match=r"holds more than tensors|damaged"):
        bring_model("msd-lenet", tmp_path / "evil.pt")
    assert "executed" not in capsys.readouterr().out
    (tmp_path / "short.pt").write_bytes(b"no")
    with pytest.raises(ModelFileError, match=r"short\.pt"):
        bring_model("msd-lenet", tmp_path / "short.pt")
    with pytest.raises(ModelFileError, match="there is no weights file"):
        bring_model("msd-lenet", tmp_path / "nowhere.pt")
    with pytest.raises(ModelFileError, match="which weights"):
        bring_model("msd-lenet", None)
    for name, message in [
        ("nowhere.at:all", "No module named"),
        ("test_published:none", "no attribute 'none'"),
        ("os:getcwd", "gives a str"),
    ]:
        with pytest.raises(ModelFileError, match=message):
            bring_model(name, None)
