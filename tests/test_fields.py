import json
from typing import Any

import pytest

from ccat import L0, L1, L2, PGD, Adversarial, ConfidenceCalibrated, Frame, Linf, Normal
from ccat.cookbook import RECIPES
from ccat.data import Augmentation
from ccat.fields import digest, flatten, from_plain, override, to_plain
from ccat.objectives import other_class_confidence
from ccat.recipes import KINDS, contains, label, parse_threat, recipe_from_plain
from ccat.suites import SUITES


def test_every_recipe_and_suite_survives_json() -> None:
    for recipe in RECIPES.values():
        assert from_plain(json.loads(json.dumps(to_plain(recipe))), KINDS) == recipe
    for suite in SUITES.values():
        for case in suite:
            assert from_plain(json.loads(json.dumps(to_plain(case))), KINDS) == case


def test_every_recipe_is_found_by_its_name_and_every_case_is_its_own() -> None:
    assert all(name == recipe.name for name, recipe in RECIPES.items())
    for suite in SUITES.values():
        assert len({digest(case.identity()) for case in suite}) == len(suite)
        assert len({(case.name, label(case.threat), case.source) for case in suite}) == len(suite)


def test_the_papers_settings_on_mnist() -> None:
    ccat, at = RECIPES["mnist-ccat"], RECIPES["mnist-at"]
    assert isinstance(ccat.method, ConfidenceCalibrated)
    assert isinstance(at.method, Adversarial)
    assert (ccat.epochs, ccat.batch, ccat.rate, ccat.momentum, ccat.model) == (100, 100, 0.1, 0.9, "resnet20")
    assert ccat.schedule(0.0, 100) == 1
    assert ccat.schedule(2.7, 100) == pytest.approx(0.95**2)
    assert RECIPES["mnist-ccat-small"].schedule(3, 6) == 0.5
    assert ccat.method.rho == 10
    assert ccat.method.threat == at.method.threat == Linf(0.3)
    for method in (ccat.method, at.method):
        assert isinstance(method.attack, PGD)
        assert (method.attack.iterations, method.attack.momentum, method.attack.backtracking) == (40, 0.9, 1.5)
        assert 31.1 * method.attack.rate >= 0.3  # a zero start reaches the boundary


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
    ],
)
def test_any_field_can_be_set(name: str, text: str, value: object) -> None:
    recipe = RECIPES["mnist-ccat"]
    changed = override(recipe, {name: text})
    plain: Any = to_plain(changed)
    for part in name.split("."):
        plain = plain[part]
    assert plain == value
    assert {k: v for k, v in flatten(changed).items() if k != name} == {k: v for k, v in flatten(recipe).items() if k != name}


def test_fields_of_what_is_none_are_set_from_its_defaults() -> None:
    recipe = RECIPES["mnist-ccat"]
    assert recipe.augmentation is None
    assert override(recipe, {"augmentation.padding": "2", "augmentation.flip": "true"}).augmentation == Augmentation(2, flip=True)
    with pytest.raises(ValueError, match=r"no field 'augmentation.pading'; did you mean augmentation.padding"):
        override(recipe, {"augmentation.pading": "2"})


def test_fields_are_set_together() -> None:
    """400 images are too few for the 500 held out, but not for the 100 that are asked for with them."""
    recipe = override(RECIPES["mnist-ccat"], {"images": "400", "held_out": "100", "method.rho": "2", "method.attack.rate": "1/2"})
    assert (recipe.images, recipe.held_out) == (400, 100)
    assert isinstance(recipe.method, ConfidenceCalibrated)
    assert recipe.method.rho == 2
    assert recipe.method.attack == PGD(40, 0.5, backtracking=1.5, start="either")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("epoch", "3", "did you mean epochs"),
        ("method.rh", "3", "did you mean method.rho"),
        ("method", "3", "there is no field 'method'"),
        ("epochs", "3.5", "epochs must be a whole number"),
        ("epochs", "0", "epochs must be a whole number of at least 1"),
        ("rate", "fast", "rate must be a number"),
        ("rate", "1/0", "rate must be a number"),
        ("method.attack.start", "middle", "one of zero, near, random, either"),
        ("method.threat.epsilon", "8", "8/255"),
        ("probe.objective", "accuracy", "one of cross-entropy"),
        ("dataset", "imagenet", "there is no dataset"),
        ("model", "vgg", "there is no model"),
        ("images", "10", "fewer than one batch"),
    ],
)
def test_wrong_fields_and_values_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        override(RECIPES["mnist-ccat"], {name: text})


def test_foreign_data_is_refused() -> None:
    plain = to_plain(RECIPES["mnist-ccat"])
    with pytest.raises(ValueError, match="unknown kind 'Popen'"):
        recipe_from_plain({**plain, "method": {"kind": "Popen"}})
    with pytest.raises(ValueError, match="no field 'colour'"):
        recipe_from_plain({**plain, "colour": 3})
    with pytest.raises(ValueError, match="not a recipe"):
        recipe_from_plain(to_plain(Linf(0.3)))
    with pytest.raises(ValueError, match="not in the table of objectives"):
        to_plain(Adversarial(Linf(0.3), PGD(1, 0.1), objective=lambda logits, labels: labels))


def test_a_digest_is_of_content_not_of_order() -> None:
    assert digest({"a": 1, "b": [2, 0.5]}) == digest({"b": [2, 0.5], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


@pytest.mark.parametrize("threat", [Linf(0.3), L2(3.0), L1(18.0), L0(15), L0(15, per="entry"), Frame(2)])
def test_threats_are_read_as_they_are_written(threat: Linf | L2 | L1 | L0 | Frame) -> None:
    assert parse_threat(label(threat)) == threat


def test_threats_that_cannot_be_read_are_refused() -> None:
    assert parse_threat("Linf:8/255") == Linf(8 / 255)
    for text in ("Linf", "linf:0.3", "L3:1", "Linf:", "L0:1.5", "Linf:x", "Linf:-1"):
        with pytest.raises(ValueError, match=r"such as|must be"):
            parse_threat(text)


def test_a_larger_ball_holds_a_smaller_one_of_its_kind() -> None:
    assert contains(Linf(0.4), Linf(0.3))
    assert contains(L2(1.0), L2(1.0, boxed=False))
    assert not contains(Linf(0.3), Linf(0.4))
    assert not contains(L2(30.0), Linf(0.01))
    assert not contains(L0(15), L0(5, per="entry"))


def test_the_objective_is_part_of_a_method() -> None:
    assert to_plain(Adversarial(Linf(0.3), PGD(1, 0.1), objective=other_class_confidence))["objective"] == "other-class confidence"
    assert to_plain(Normal()) == {"kind": "Normal"}
