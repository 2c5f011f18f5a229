"""Fields by dotted name: shown as text, and set from text as on the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from ccat import PGD, RECIPES, Adversarial, ConfidenceCalibrated, Linf, Normal, extensions
from ccat.codec import encode
from ccat.data import Augmentation
from ccat.overrides import described, flatten, override, parse, typed_instance
from ccat.training import Method


@dataclass(frozen=True)
class Smoothed(Normal):
    """A method of somebody's own."""

    smoothing: float = 0.1


@dataclass(frozen=True)
class Needy(Normal):
    smoothing: float
    colour: str


mine = Smoothed(0.3)


def negative(logits: Tensor, labels: Tensor) -> Tensor:
    return -logits[:, 0]


@pytest.fixture(autouse=True)
def _nobody_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_trusted", set())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epochs", "3", 3),
        ("rate", "1/10", 0.1),
        ("images", "none", None),
        ("images", "5000", 5000),
        ("method.rho", "6", 6.0),
        ("method.threat.epsilon", "8/255", 8 / 255),
        ("method.attack.backtracking", "None", None),
        ("method.attack.start", "random", "random"),
        ("schedule.factor", "0.9", 0.9),
        ("probe.objective", "cross-entropy", "cross-entropy"),
        ("probe.objective", f"{__name__}:negative", {"function": f"{__name__}:negative"}),
    ],
)
def test_any_field_can_be_set(name: str, text: str, value: object) -> None:
    recipe = RECIPES["mnist-ccat"]
    changed = override(recipe, {name: text})
    plain: Any = encode(changed)
    for part in name.split("."):
        plain = plain[part]
    assert plain == value
    assert {k: v for k, v in flatten(changed).items() if k != name} == {
        k: v for k, v in flatten(recipe).items() if k != name
    }


def test_what_is_shown_can_be_set_again() -> None:
    recipe = RECIPES["mnist-ccat"]
    shown = {name: text for name, text in flatten(recipe).items() if name != "name"}
    assert shown["method.threat.epsilon"] == "0.3"
    assert shown["probe.objective"] == "other-class confidence"
    assert shown["augmentation"] == "None"
    assert override(recipe, shown) == recipe


def test_fields_of_what_is_none_are_set_from_its_defaults() -> None:
    recipe = RECIPES["mnist-ccat"]
    assert recipe.augmentation is None
    changes = {"augmentation.padding": "2", "augmentation.flip": "true"}
    assert override(recipe, changes).augmentation == Augmentation(2, flip=True)
    message = r"no field 'augmentation.pading'; did you mean augmentation.padding"
    with pytest.raises(ValueError, match=message):
        override(recipe, {"augmentation.pading": "2"})


def test_fields_are_set_together() -> None:
    recipe = override(
        RECIPES["mnist-ccat"],
        {"images": "400", "monitor": "100", "method.rho": "2", "method.attack.rate": "1/2"},
    )
    assert (recipe.images, recipe.monitor) == (400, 100)
    assert isinstance(recipe.method, ConfidenceCalibrated)
    assert recipe.method.rho == 2
    assert recipe.method.attack == PGD(40, 0.5, backtracking=1.5, start="either")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("epoch", "3", "did you mean epochs"),
        ("method.rh", "3", "did you mean method.rho"),
        ("method", "3", "method is set by its fields"),
        ("probe", "3", "probe is set by its fields: probe.threat, probe.attack"),
        ("epochs", "3.5", "epochs must be a whole number, not '3.5'"),
        ("epochs", "0", "epochs must be a whole number of at least 1"),
        ("rate", "fast", "rate must be a finite number, such as 0.3 or 8/255, not 'fast'"),
        ("rate", "1/0", "rate must be a finite number"),
        ("rate", "none", "rate must be a finite number"),
        ("method.attack.start", "middle", "one of zero, near, random, either"),
        ("method.threat.epsilon", "8", "8/255"),
        ("probe.objective", "accuracy", "one of cross-entropy"),
        ("probe.objective", "no_such_module:f", "no_such_module:f cannot be imported"),
        ("dataset", "imagenet", "there is no dataset"),
        ("model", "vgg", "there is no model"),
        ("images", "0", "images must be a whole number of at least 1"),
    ],
)
def test_wrong_fields_and_values_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        override(RECIPES["mnist-ccat"], {name: text})


def test_a_method_of_ones_own_is_typed_by_its_name_and_then_its_fields() -> None:
    recipe = RECIPES["mnist-normal-demo"]
    assert override(recipe, {"method": f"{__name__}:Smoothed"}).method == Smoothed()
    assert override(recipe, {"method": f"{__name__}:mine"}).method == Smoothed(0.3)
    both = {"method": f"{__name__}:Smoothed", "method.smoothing": "1/4"}
    assert override(recipe, both).method == Smoothed(0.25)
    adversarial = override(RECIPES["mnist-at"], {"method.objective": f"{__name__}:negative"})
    assert isinstance(adversarial.method, Adversarial)
    assert adversarial.method.objective is negative
    assert flatten(adversarial)["method.objective"] == f"{__name__}:negative"


def test_a_class_that_needs_arguments_is_named_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"Needy cannot be made without arguments .*'colour'"):
        typed_instance(f"{__name__}:Needy")
    with pytest.raises(ValueError, match=rf"defaults, or name an instance, such as {__name__}:mi"):
        typed_instance(f"{__name__}:Needy")


def test_a_module_in_the_working_directory_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/usr/lib/nothing"])
    (tmp_path / "typed_threats.py").write_text("import ccat\nsmall = ccat.Linf(0.01)\n")
    assert typed_instance("typed_threats:small") == Linf(0.01)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("true", bool, True),
        ("False", bool, False),
        ("none", float | None, None),
        ("1e-3", float | None, 0.001),
        ("none", str, "none"),
        (f"{__name__}:mine", Method, Smoothed(0.3)),
    ],
)
def test_texts_are_read_by_the_type_of_their_field(text: str, kind: Any, value: object) -> None:
    assert parse(text, kind, "field") == value


def test_a_truth_is_true_or_false() -> None:
    with pytest.raises(ValueError, match="flip must be one of true, false, not 'yes'"):
        parse("yes", bool, "flip")


@pytest.mark.parametrize("name", RECIPES)
def test_every_field_of_a_recipe_has_a_meaning(name: str) -> None:
    fields = described(RECIPES[name])
    assert [one.name for one in fields if not one.meaning.endswith(".")] == []
    shown = {one.name: one.value for one in fields}
    assert flatten(RECIPES[name]).items() <= shown.items()


def test_fields_are_described_by_the_docstring_of_their_class() -> None:
    fields = {one.name: one for one in described(RECIPES["mnist-ccat"])}
    assert fields["method"].value == "ConfidenceCalibrated"
    assert fields["method.threat.epsilon"].meaning == (
        "The most that an entry moves; 8 grey levels are 8/255."
    )
    assert list(fields).index("method") + 1 == list(fields).index("method.threat")
