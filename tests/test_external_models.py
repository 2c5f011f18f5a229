"""Models that a user's own factory makes: `package.module:factory`."""

import copy
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from truth import seeded

from ccat import extensions, sealed
from ccat.errors import UntrustedError
from ccat.models import (
    LeNet,
    ModelFileError,
    Normalised,
    arguments_for,
    create_model,
    import_model,
    load_model,
    save_model,
)


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_trusted", set())


def own(factory: str) -> str:
    """Return the trusted name of a factory of this file."""
    name = f"{__name__}:{factory}"
    extensions.trust(name)
    return name


def made_by(model: nn.Module) -> tuple[object, object]:
    return model.architecture, model.arguments


class Net(nn.Module):
    """A module with an initialisation of its own and a name that none of ours has."""

    def __init__(self, channels: int, size: int = 28, classes: int = 10, *, width: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.last = nn.Linear(width * size * size, classes)
        nn.init.constant_(self.conv.weight, 0.25)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.norm(self.conv(x)).relu().flatten(1))
        return logits


def no_arguments() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 2))


def some(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, classes))


def everything(**shape: int) -> nn.Module:
    model = some(shape["classes"])
    model.seen = shape  # type: ignore[assignment]
    return model


def as_in_timm(num_classes: int = 1000, in_chans: int = 3, drop: float = 0.0) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(drop), nn.Linear(16 * in_chans, num_classes))


def both_names(classes: int, num_classes: int = 1000) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, classes if num_classes == 1000 else 1))


def normalised(channels: int) -> nn.Module:
    return Normalised(Net(channels, 4, 3), [0.5] * channels, [0.25] * channels)


def ours() -> nn.Module:
    return LeNet(1, 8, 3)


@cache
def once() -> nn.Module:
    return no_arguments()


GIVEN = {"channels": 2, "size": 4, "classes": 3}


@pytest.mark.parametrize(
    ("factory", "passed"),
    [
        ("Net", GIVEN),
        ("no_arguments", {}),
        ("some", {"classes": 3}),
        ("everything", GIVEN),
        ("as_in_timm", {"num_classes": 3, "in_chans": 2}),
        ("both_names", {"classes": 3}),
        ("normalised", {"channels": 2}),
        ("ours", {}),
    ],
)
def test_a_factory_gets_what_it_has_parameters_for_and_the_model_remembers_it(
    factory: str, passed: dict[str, int], tmp_path: Path
) -> None:
    name = own(factory)
    model = create_model(name, seeded(), **GIVEN).eval()
    assert made_by(model) == (name, passed)
    assert getattr(model, "seen", passed) == passed
    assert copy.deepcopy(model).arguments == passed
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors", factory=name)
    assert made_by(again) == (name, passed)
    assert type(again) is type(model)
    taken = {"Net": (2, 4), "normalised": (2, 4), "as_in_timm": (2, 4), "ours": (1, 8)}
    shape = taken.get(factory, (3, 2))
    x = torch.rand(5, shape[0], shape[1], shape[1], generator=seeded(1))
    with torch.no_grad():
        assert again(x).equal(model(x))


def test_other_arguments_are_passed_on_and_unknown_ones_refused(tmp_path: Path) -> None:
    model = create_model(own("Net"), seeded(), **GIVEN, width=2)
    assert model.arguments == {**GIVEN, "width": 2}
    save_model(Normalised(model, [0.1, 0.2], [1, 2]), tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors", factory=own("Net"))
    x = torch.rand(1, 2, 4, 4)
    torch.testing.assert_close(again(x), Normalised(model.eval(), [0.1, 0.2], [1, 2])(x))
    with pytest.raises(ValueError, match="unexpected keyword argument 'depth'"):
        create_model(own("Net"), seeded(), **GIVEN, depth=2)
    with pytest.raises(
        ValueError, match=r"test_external_models:Net cannot be called with \(size=4\): mis"
    ):
        create_model(own("Net"), seeded(), size=4)


def test_arguments_for_a_users_factory_import_nothing() -> None:
    assert arguments_for("not_there:factory", 3, 32, 32, 7) == {
        "channels": 3,
        "classes": 7,
        "size": 32,
    }
    assert arguments_for("not_there:factory", 3, 32, 48, 7) == {"channels": 3, "classes": 7}


def test_initial_weights_are_the_users_and_depend_on_the_generator_alone() -> None:
    name, state = own("Net"), torch.get_rng_state()
    first = create_model(name, seeded(1), **GIVEN).state_dict()
    assert torch.get_rng_state().equal(state), "the global generator is not touched"
    torch.rand(1)
    second = create_model(name, seeded(1), **GIVEN).state_dict()
    other = create_model(name, seeded(2), **GIVEN).state_dict()
    assert all(first[key].equal(second[key]) for key in first)
    assert not first["last.weight"].equal(other["last.weight"])
    assert (first["conv.weight"] == 0.25).all(), "ours would have drawn it"
    assert first["last.bias"].abs().max() > 0, "ours would be zero"
    generator = seeded(1)
    create_model(name, generator, **GIVEN)
    following = create_model(name, generator, **GIVEN).state_dict()
    assert not first["last.weight"].equal(following["last.weight"])


def test_only_trusted_factories_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(create_model(own("Net"), seeded(), **GIVEN), tmp_path / "model.safetensors")
    monkeypatch.setattr(extensions, "_trusted", set())
    name = f"{__name__}:Net"
    with pytest.raises(UntrustedError, match="Net is code that is not part of ccat"):
        create_model(name, seeded(), **GIVEN)
    with pytest.raises(UntrustedError):
        import_model(name, None, **GIVEN)
    with pytest.raises(UntrustedError):
        load_model(tmp_path / "model.safetensors", factory=name)
    extensions.trust(name)
    for other in (None, "lenet", own("some")):
        with pytest.raises(ModelFileError, match=r"needs test_external_models:Net.*factory="):
            load_model(tmp_path / "model.safetensors", factory=other)


def test_nothing_here_changes_where_modules_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lying_about.py").write_text(
        "from torch import nn\ndef net(): return nn.Linear(1, 1)"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    extensions.trust("lying_about:net")
    with pytest.raises(ValueError, match="No module named 'lying_about'"):
        create_model("lying_about:net", seeded())
    assert sys.path == before


def raises() -> NoReturn:
    raise KeyError("pretrained")


def a_tuple() -> tuple[nn.Module, int]:
    return no_arguments(), 1


def nothing() -> None:
    return None


def lazy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))


class Named(nn.Module):
    architecture = "mine"


class Arguing(nn.Module):
    def arguments(self) -> None: ...


class Computed(nn.Module):
    @property
    def architecture(self) -> str:
        raise AssertionError("nobody should ask")


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.arguments = nn.Linear(1, 1)


made = nn.Linear(1, 1)
number = 7


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("raises", r"test_external_models:raises\(\) raised KeyError: 'pretrained'"),
        ("a_tuple", "returned an object of type tuple: it has to return an nn.Module"),
        ("nothing", "of type NoneType"),
        ("lazy", r"lazy layers, whose weights \(1.weight\) do not exist"),
        ("Named", "a Named that has an attribute `architecture` of its own.*rename"),
        ("Arguing", "an attribute `arguments` of its own"),
        ("Computed", "an attribute `architecture` of its own"),
        ("Nested", "an attribute `arguments` of its own"),
        ("made", "of type Linear: name a function or class that returns the model"),
        ("number", "of type int: name a function or class"),
        ("missing", "cannot be imported"),
    ],
)
def test_what_a_factory_does_wrong_is_said(factory: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_model(own(factory), seeded())


def test_a_factory_may_give_the_same_module_again() -> None:
    assert create_model(own("once"), seeded()) is create_model(own("once"), seeded())


def test_a_file_that_does_not_fit_its_factory_is_refused(tmp_path: Path) -> None:
    path, name = tmp_path / "model.safetensors", own("Net")
    save_model(create_model(name, seeded(), **GIVEN), path)
    tensors = load_file(path)

    def written(architecture: str, arguments: Any) -> None:
        about = {"schema": 2, "architecture": architecture, "arguments": arguments}
        path.write_bytes(sealed.pack(tensors, about))

    for arguments, message in [
        ({**GIVEN, "classes": 4}, "do not fit the test_external_models:Net .*size mismatch"),
        ({"size": 4}, "holds a test_external_models:Net that cannot be built: .*'channels'"),
        ([1, 2], "cannot be built"),
    ]:
        written(name, arguments)
        with pytest.raises(ModelFileError, match=re.compile(message, re.DOTALL)):
            load_model(path, factory=name)
    written(own("raises"), {})
    with pytest.raises(ModelFileError, match=r"cannot be built: .*raised KeyError"):
        load_model(path, factory=own("raises"))


def test_imported_weights_fill_a_users_model(tmp_path: Path) -> None:
    theirs = Net(**GIVEN).eval()
    torch.save({"model": theirs.state_dict()}, tmp_path / "w.pt")
    x = torch.rand(2, 2, 4, 4)
    with torch.no_grad():
        assert import_model(own("Net"), tmp_path / "w.pt", **GIVEN)(x).equal(theirs(x))
        without = [import_model(own("Net"), None, **GIVEN)(x) for _ in range(2)]
    assert without[0].equal(without[1])
    torch.save({"1.weight": torch.zeros(10, 3), "1.bias": torch.zeros(10)}, tmp_path / "lazy.pt")
    assert import_model(own("lazy"), tmp_path / "lazy.pt")(torch.rand(2, 3, 1, 1)).shape == (2, 10)
