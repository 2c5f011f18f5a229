"""Weights from elsewhere, under the names that published checkpoints have."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from published_networks import THEIRS, TheirCNN, their_lenet
from safetensors.torch import save_file
from torch import Tensor, nn

from ccat import extensions, sealed
from ccat.models import (
    MODELS,
    ModelFileError,
    Normalised,
    create_model,
    import_model,
    load_model,
    save_model,
)


@pytest.fixture(autouse=True)
def _trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the factories of this file, and forget that after each test."""
    monkeypatch.setattr(extensions, "_trusted", set())
    extensions.trust("test_published:Flat", "test_published:Own")


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
    torch.save(
        {
            "state_dict": {f"module.{key}": value for key, value in theirs.state_dict().items()},
            "epoch": 3,
        },
        tmp_path / "w.pt",
    )
    ours = import_model(name, tmp_path / "w.pt", channels=channels, classes=10)
    assert not ours.training
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)
    if count < 12_000_000:
        save_model(ours, tmp_path / "ours.safetensors")
        again = load_model(tmp_path / "ours.safetensors")
        with torch.no_grad():
            assert again(x).equal(ours(x))


def test_all_models_of_the_table_are_there() -> None:
    assert set(MODELS) == {"lenet", "wide-lenet", "steep-lenet", "resnet20", *THEIRS}


def test_other_names_of_the_same_layers_are_understood(tmp_path: Path) -> None:
    """Of torchvision, and of TRADES, whose network holds a block that it does not use."""
    for name, others in [
        ("resnet34", [("shortcut.", "downsample."), ("linear.", "fc.")]),
        ("wrn-28-10", [("fc.", "logits.")]),
    ]:
        state = THEIRS[name][0]().state_dict()
        for theirs, other in others:
            state = {key.replace(theirs, other): value for key, value in state.items()}
        torch.save({**state, "sub_block1.layer.0.bn1.weight": torch.ones(3)}, tmp_path / "w.pt")
        ours = import_model(name, tmp_path / "w.pt")
        kept = [value for key, value in state.items() if "num_batches" not in key]
        have = [value for key, value in ours.state_dict().items() if "num_batches" not in key]
        assert {value.sum().item() for value in have} == {value.sum().item() for value in kept}


def test_layers_have_published_names_as_far_as_they_agree() -> None:
    theirs = TheirCNN().state_dict(), their_lenet().state_dict()
    for name, state in zip(("trades-cnn", "msd-lenet"), theirs, strict=True):
        assert list(create_model(name, torch.Generator()).state_dict()) == list(state)


class Flat(nn.Module):
    """A module of a user, with weights that are shared."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(784, 10)
        self.two = self.one

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.one(x.flatten(1)) + self.two(x.flatten(1))
        return logits


def test_modules_of_a_user_with_normalisation(tmp_path: Path) -> None:
    model = Flat()
    save_file(
        {name: value.clone() for name, value in model.state_dict().items()},
        tmp_path / "w.safetensors",
    )
    brought = Normalised(
        import_model("test_published:Flat", tmp_path / "w.safetensors"), [0.1], [0.3]
    )
    x = torch.rand(4, 1, 28, 28)
    torch.testing.assert_close(brought(x), model((x - 0.1) / 0.3))
    save_model(brought, tmp_path / "m.safetensors")
    torch.testing.assert_close(
        load_model(tmp_path / "m.safetensors", factory="test_published:Flat")(x), brought(x)
    )
    with pytest.warns(
        UserWarning, match=r"with normalisation: pass --mean 0.1 --std 0.3 to keep it"
    ):
        import_model("test_published:Flat", tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="normalises 1 channels, the images have 3"):
        brought(torch.rand(1, 3, 28, 28))
    with pytest.raises(ValueError, match="a positive, finite std for each channel"):
        Normalised(model, [0.1], [0.0])


class Own(nn.Module):
    """A module with a name in it that wrappers have as well."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x.flatten(1))
        return logits


def test_names_are_taken_as_they_are_where_they_fit(tmp_path: Path) -> None:
    own = Own()
    for prefix in ("", "module."):
        torch.save(
            {"net": {prefix + k: v for k, v in own.state_dict().items()}, "epoch": torch.tensor(3)},
            tmp_path / "own.pt",
        )
        x = torch.rand(2, 1, 28, 28)
        torch.testing.assert_close(
            import_model("test_published:Own", tmp_path / "own.pt")(x), own(x)
        )
    torch.save({**own.state_dict(), "normalize.mean": torch.tensor([0.5])}, tmp_path / "norm.pt")
    with pytest.warns(
        UserWarning, match=r"normalize.mean = \[0.5\]: the model may need normalised images"
    ):
        import_model("test_published:Own", tmp_path / "norm.pt")
    loop: dict[str, Any] = {}
    loop["state_dict"] = loop
    torch.save(loop, tmp_path / "loop.pt")
    with pytest.raises(ModelFileError, match="holds no weights by name"):
        import_model("test_published:Own", tmp_path / "loop.pt")


def test_a_weights_file_runs_no_code(tmp_path: Path) -> None:
    evil = {"schema": 2, "architecture": "os:abort", "arguments": {}}
    (tmp_path / "evil.safetensors").write_bytes(sealed.pack({"a": torch.zeros(1)}, evil))
    with pytest.raises(ModelFileError, match="needs os:abort, which is not part of ccat"):
        load_model(tmp_path / "evil.safetensors")
    odd = {"schema": 2, "architecture": 7, "arguments": {}}
    (tmp_path / "odd.safetensors").write_bytes(sealed.pack({"a": torch.zeros(1)}, odd))
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
            r"does not fit msd-lenet: it lacks 9\.weight",
        ),
        "more.pt": ({**state, "11.weight": torch.zeros(3)}, r"it also has 11\.weight \(3,\)"),
        "shape.pt": (
            {**state, "9.weight": torch.zeros(7, 1024)},
            r"shapes differ: 9\.weight is \(7, 1024\), not \(10, 1024\)",
        ),
        "none.pt": ({"epoch": 3}, "holds no weights by name"),
    }
    for file, (content, message) in bad.items():
        torch.save(content, tmp_path / file)
        with pytest.raises(ModelFileError, match=message):
            import_model("msd-lenet", tmp_path / file)
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"state_dict": Evil()}))
    with pytest.raises(ModelFileError, match=r"holds more than tensors|damaged"):
        import_model("msd-lenet", tmp_path / "evil.pt")
    assert "executed" not in capsys.readouterr().out
    (tmp_path / "short.pt").write_bytes(b"no")
    with pytest.raises(ModelFileError, match=r"short\.pt"):
        import_model("msd-lenet", tmp_path / "short.pt")
    with pytest.raises(ModelFileError, match="there is no weights file"):
        import_model("msd-lenet", tmp_path / "nowhere.pt")
    with pytest.raises(
        ModelFileError, match="msd-lenet has no weights of its own: name a weights file"
    ):
        import_model("msd-lenet", None)
    for name, message in [
        ("nowhere.at:all", "No module named"),
        ("test_published:none", "no attribute 'none'"),
        ("os:getcwd", r"os:getcwd\(\) returned an object of type str: it has to return"),
        ("vgg", "there is no model 'vgg'; there are lenet, wide-lenet, steep-lenet, resnet20"),
    ]:
        extensions.trust(name)
        with pytest.raises(ValueError, match=message):
            import_model(name, None)
