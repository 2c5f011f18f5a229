import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from truth import seeded

from ccat import MODELS, Linf, ModelFileError, create_model, load_model, save_model, sealed
from ccat.bounds import certify
from ccat.models import arguments_for, is_model_name
from ccat.models.blocks import BasicBlock


def weights(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("name", "arguments", "count"),
    [
        ("resnet20", {"channels": 1}, 4_326_602),
        ("resnet20", {"channels": 3}, 4_327_754),
        ("lenet", {}, 42_106),
        ("wide-lenet", {}, 455_274),
        ("steep-lenet", {}, 455_274),
    ],
)
def test_the_numbers_of_weights(name: str, arguments: dict[str, int], count: int) -> None:
    assert weights(create_model(name, seeded(), **arguments)) == count


def test_the_steep_network_sees_black_and_white_alike_within_0_4() -> None:
    model = create_model("steep-lenet", seeded()).eval()
    x = (torch.rand(3, 1, 28, 28, generator=seeded(1)) < 0.3).float()
    seen = model(x)
    inward = (x - (2 * x - 1) * 0.4 * torch.rand(x.shape, generator=seeded(2))).clamp(0, 1)
    torch.testing.assert_close(model(inward), seen, atol=1e-5, rtol=0)
    torch.testing.assert_close(model(0.6 * x + 0.4 * (1 - x)), seen, atol=1e-5, rtol=0)
    assert not model(0.5 * x).isclose(seen, atol=1e-3).all(), "grey is something else"
    grey = torch.full_like(x, 0.5)
    plain = without_curve(model)
    torch.testing.assert_close(model(grey), plain(grey), atol=1e-5, rtol=0)
    possible = certify(model, x, seen.argmax(1), Linf(0.39))
    assert not possible.wrong.any(), "of black and white nothing is lost to any rounding"


def without_curve(model: nn.Module) -> nn.Module:
    """Return the wide LeNet with the weights of a steep one."""
    plain = create_model("wide-lenet", seeded()).eval()
    plain.load_state_dict(
        {name.removeprefix("network."): one for name, one in model.state_dict().items()}
    )
    return plain


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("resnet20", {"channels": 1, "classes": 2}, (2, 1, 28, 28)),
        ("resnet20", {"channels": 3}, (2, 3, 32, 32)),
        ("lenet", {"channels": 3, "size": 32, "classes": 7}, (2, 3, 32, 32)),
        ("lenet", {}, (2, 1, 28, 28)),
    ],
)
def test_models_come_back_from_disk_as_they_were(
    tmp_path: Path, name: str, arguments: dict[str, int], shape: tuple[int, ...]
) -> None:
    model = create_model(name, seeded(1), **arguments)
    model.train()
    x = torch.rand(shape, generator=seeded())
    model(x)  # moves the statistics of batch normalisation
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert type(again) is MODELS[name].factory
    assert not again.training
    assert again(x).equal(model.eval()(x))
    assert again(x).shape == (2, arguments.get("classes", 10))
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_the_same_model_is_the_same_file(tmp_path: Path) -> None:
    """Past defect: several entries of metadata are written in any order, which changed the SHA."""
    model = create_model("lenet", seeded())
    contents = set()
    for _ in range(10):
        save_model(model, tmp_path / "model.safetensors")
        contents.add((tmp_path / "model.safetensors").read_bytes())
    assert len(contents) == 1


def test_the_resnet_halves_twice_and_ends_in_averages_of_positive_features() -> None:
    model = create_model("resnet20", seeded(), channels=1)
    shapes = []
    for module in model.modules():
        if isinstance(module, BasicBlock):
            module.register_forward_hook(
                lambda _, __, output: shapes.append(
                    (tuple(output.shape[1:]), bool((output >= 0).all()))
                )
            )
    model(torch.rand(2, 1, 28, 28, generator=seeded()))
    assert (
        shapes
        == [((64, 28, 28), True)] * 3 + [((128, 14, 14), True)] * 3 + [((256, 7, 7), True)] * 3
    )


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
    assert not first["fc.weight"].equal(other["fc.weight"])


def test_a_model_of_another_precision_comes_back_in_it(tmp_path: Path) -> None:
    save_model(create_model("lenet", seeded()).double(), tmp_path / "model.safetensors")
    assert (
        load_model(tmp_path / "model.safetensors")(
            torch.zeros(1, 1, 28, 28, dtype=torch.float64)
        ).dtype
        == torch.float64
    )


def test_an_unfinished_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def sealed_again(path: Path, **about: object) -> None:
    path.write_bytes(sealed.pack(load_file(path), about))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def of_another_architecture(path: Path) -> None:
    sealed_again(path, schema=2, architecture="resnet20", arguments={"channels": 1})


def of_an_unknown_architecture(path: Path) -> None:
    sealed_again(path, schema=2, architecture="vgg", arguments={})


def of_schema(schema: int) -> Callable[[Path], None]:
    def written(path: Path) -> None:
        about = {"schema": schema, "architecture": "lenet", "arguments": {}}
        save_file(load_file(path), path, {"ccat": json.dumps(about)})

    return written


def of_impossible_arguments(path: Path) -> None:
    sealed_again(path, schema=2, architecture="lenet", arguments={"depth": 3})


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "damaged"),
        (flip, "damaged .*its content is not what was written"),
        (lambda path: path.write_bytes(b""), "damaged"),
        (lambda path: path.write_text("hello"), "damaged"),
        (lambda path: path.unlink(), "no weights file"),
        (lambda path: save_file(load_file(path), path), "not written by ccat: `ccat import`"),
        (lambda path: save_file(load_file(path), path, {"ccat": "[]"}), "not written by ccat"),
        (of_schema(1), "by an older version of ccat .*: train the model again, or import its"),
        (of_schema(3), "by a newer version of ccat .*: upgrade"),
        (of_another_architecture, "do not fit the resnet20"),
        (of_an_unknown_architecture, "'vgg'; ccat knows lenet, wide-lenet, steep-lenet, resnet20"),
        (of_impossible_arguments, "a lenet that cannot be built: .*depth"),
    ],
)
def test_a_bad_weights_file_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    path = tmp_path / "model.safetensors"
    save_model(create_model("lenet", seeded()), path)
    damage(path)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_wrong_names_and_foreign_modules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are lenet, wide-lenet, steep-lenet, resnet20"):
        create_model("resnet51", seeded())
    with pytest.raises(ValueError, match="depth"):
        create_model("lenet", seeded(), depth=3)
    with pytest.raises(ValueError, match="not this Linear"):
        save_model(nn.Linear(2, 2), tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*nowhere"):
        save_model(create_model("lenet", seeded()), tmp_path / "nowhere" / "model.safetensors")


DRAWN = {  # Σ_k k · the first weight of the k-th convolution or linear layer
    "lenet": 0.216788,
    "resnet20": -1.780399,
    "trades-cnn": 0.242766,
    "msd-lenet": 0.112444,
    "preact-resnet18": -0.675332,
    "resnet34": -7.807239,
    "resnet50": -3.146324,
    "wrn-28-10": 1.492662,
    "wrn-34-10": -3.244853,
}


@pytest.mark.parametrize("name", DRAWN)
def test_the_weights_of_a_seed_do_not_move_from_one_version_to_the_next(name: str) -> None:
    layers = [weight for weight in create_model(name, seeded(5)).parameters() if weight.ndim > 1]
    drawn = sum(k * weight.flatten()[0].item() for k, weight in enumerate(layers, start=1))
    assert drawn == pytest.approx(DRAWN[name], abs=1e-4)


def test_what_images_a_network_takes() -> None:
    assert arguments_for("lenet", 3, 32, 32, 7) == {"channels": 3, "size": 32, "classes": 7}
    assert arguments_for("resnet20", 3, 32, 48, 7) == {"channels": 3, "classes": 7}
    assert arguments_for("trades-cnn", 1, 28, 28, 10) == {"channels": 1, "classes": 10}
    with pytest.raises(
        ValueError, match=r"^lenet takes square images, not 32x48: choose --model r"
    ):
        arguments_for("lenet", 3, 32, 48, 7)
    for name in ("trades-cnn", "msd-lenet"):
        with pytest.raises(
            ValueError, match=rf"^{name} takes images of 28x28, not 32x32: choose -"
        ):
            arguments_for(name, 3, 32, 32, 7)
    with pytest.raises(ValueError, match="there is no model 'vgg'"):
        arguments_for("vgg", 3, 32, 32, 7)


@pytest.mark.parametrize("name", ["lenet", "resnet20", "trades-cnn", "preact-resnet18"])
def test_networks_are_built_from_the_arguments_for_their_images(name: str) -> None:
    model = create_model(name, seeded(), **arguments_for(name, 2, 28, 28, 3)).eval()
    assert model(torch.rand(1, 2, 28, 28)).shape == (1, 3)


def test_names_of_models() -> None:
    assert all(is_model_name(name) for name in ("lenet", "wrn-34-10", "a.b:c"))
    assert not any(is_model_name(name) for name in ("vgg", "", "a.b:", ":c", "a b:c", "a/b.py:c"))
