import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from truth import seeded

from ccat import MODELS, ModelFileError, create_model, load_model, save_model


def weights(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("name", "arguments", "count"),
    [
        ("resnet20", {"channels": 1}, 4_326_602),
        ("resnet20", {"channels": 3}, 4_327_754),
        ("lenet", {}, 42_106),
    ],
)
def test_the_papers_numbers_of_weights(name: str, arguments: dict[str, int], count: int) -> None:
    assert weights(create_model(name, seeded(), **arguments)) == count


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("resnet20", {"channels": 1, "classes": 2}, (2, 1, 28, 28)),
        ("resnet20", {"channels": 3}, (2, 3, 32, 32)),
        ("lenet", {"channels": 3, "size": 32, "classes": 7}, (2, 3, 32, 32)),
        ("lenet", {}, (2, 1, 28, 28)),
    ],
)
def test_models_come_back_from_disk_as_they_were(tmp_path: Path, name: str, arguments: dict[str, int], shape: tuple[int, ...]) -> None:
    model = create_model(name, seeded(1), **arguments)
    model.train()
    x = torch.rand(shape, generator=seeded())
    model(x)  # moves the statistics of batch normalisation
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert type(again) is MODELS[name]
    assert not again.training
    assert again(x).equal(model.eval()(x))
    assert again(x).shape == (2, arguments.get("classes", 10))
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_the_same_model_is_the_same_file(tmp_path: Path) -> None:
    """Past defect: several entries of metadata are written in any order, so that equal weights had different SHAs."""
    model = create_model("lenet", seeded())
    contents = set()
    for _ in range(10):
        save_model(model, tmp_path / "model.safetensors")
        contents.add((tmp_path / "model.safetensors").read_bytes())
    assert len(contents) == 1


def test_the_resnet_halves_twice_and_ends_in_averages_of_positive_features() -> None:
    model = create_model("resnet20", seeded(), channels=1)
    shapes = []
    for block in model.blocks:  # type: ignore[union-attr]
        block.register_forward_hook(lambda _, __, output: shapes.append((tuple(output.shape[1:]), bool((output >= 0).all()))))
    model(torch.rand(2, 1, 28, 28, generator=seeded()))
    assert shapes == [((64, 28, 28), True)] * 3 + [((128, 14, 14), True)] * 3 + [((256, 7, 7), True)] * 3


def test_fresh_weights_are_kaiming_fan_out() -> None:
    model = create_model("resnet20", seeded())
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert module.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)
        if isinstance(module, nn.Linear):
            assert abs(module.weight.mean().item()) < 0.005
            assert module.weight.abs().max().item() <= 1 / 16


def test_fresh_weights_depend_on_the_generator_only(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    save_model(create_model("lenet", seeded(1)), tmp_path / "model.safetensors")
    load_model(tmp_path / "model.safetensors")
    assert torch.get_rng_state().equal(state), "the global generator is not touched"
    first = create_model("lenet", seeded(1)).state_dict()
    torch.rand(1)
    second = create_model("lenet", seeded(1)).state_dict()
    other = create_model("lenet", seeded(2)).state_dict()
    assert all(first[key].equal(second[key]) for key in first)
    assert not first["classifier.weight"].equal(other["classifier.weight"])


def test_a_model_of_another_precision_comes_back_in_it(tmp_path: Path) -> None:
    save_model(create_model("lenet", seeded()).double(), tmp_path / "model.safetensors")
    assert load_model(tmp_path / "model.safetensors")(torch.zeros(1, 1, 28, 28, dtype=torch.float64)).dtype == torch.float64


def test_an_unfinished_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    save_model(create_model("lenet", seeded(1)), path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_model(create_model("lenet", seeded(2)), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def about(**entries: object) -> dict[str, str]:
    return {"ccat": json.dumps(entries)}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def of_another_architecture(path: Path) -> None:
    tensors = load_file(path)
    save_file(tensors, path, about(schema=1, architecture="resnet20", arguments={"channels": 1}))


def of_an_unknown_architecture(path: Path) -> None:
    save_file(load_file(path), path, about(schema=1, architecture="vgg", arguments={}))


def of_impossible_arguments(path: Path) -> None:
    save_file(load_file(path), path, about(schema=1, architecture="lenet", arguments={"depth": 3}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "damaged"),
        (lambda path: path.write_bytes(b""), "damaged"),
        (lambda path: path.write_text("hello"), "damaged"),
        (lambda path: path.unlink(), "no weights file"),
        (lambda path: save_file(load_file(path), path), "not written by this version"),
        (of_another_architecture, "do not fit the resnet20"),
        (of_an_unknown_architecture, "'vgg'; known are lenet, resnet20"),
        (of_impossible_arguments, "do not fit the lenet"),
    ],
)
def test_a_bad_weights_file_is_refused(tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "model.safetensors"
    save_model(create_model("lenet", seeded()), path)
    damage(path)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_wrong_names_and_foreign_modules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are lenet, resnet20"):
        create_model("resnet51", seeded())
    with pytest.raises(ValueError, match="depth"):
        create_model("lenet", seeded(), depth=3)
    with pytest.raises(ValueError, match="not Linear"):
        save_model(nn.Linear(2, 2), tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*nowhere"):
        save_model(create_model("lenet", seeded()), tmp_path / "nowhere" / "model.safetensors")
