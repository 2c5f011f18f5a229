"""Configurations as plain data: stored, read back, hashed, and refused if they cannot be stored."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from torch import Tensor

from ccat import (
    ATTACKS,
    METHODS,
    OBJECTIVES,
    PGD,
    RECIPES,
    SUITES,
    THREATS,
    Adversarial,
    Attack,
    Case,
    Confidence,
    Counts,
    Detection,
    Found,
    Linf,
    Method,
    Normal,
    Objective,
    Recipe,
    Rejection,
    Threat,
    codec,
    extensions,
    other_class_confidence,
)
from ccat.codec import decode, digest, encode, require_implements, require_storable
from ccat.rejection import Aware


def through_json(value: Any, hint: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value))), hint)


def half_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    return other_class_confidence(logits, labels) / 2


@dataclass(frozen=True)
class Still(Attack):
    """An attack of somebody's own that changes nothing."""

    iterations: int = 1
    sizes: tuple[int, ...] = (1, 2)
    scale: float | None = None
    first: Attack = PGD(1, 0.1)  # noqa: RUF009 (frozen)

    def __call__(self, problem: Any, generator: Any) -> Found:
        found: Found = problem.evaluate(0 * problem.x)
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)


@pytest.fixture
def nobody_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_trusted", set())


def test_every_recipe_and_suite_survives_json() -> None:
    for recipe in RECIPES.values():
        assert through_json(recipe, Recipe) == recipe
    for suite in SUITES.values():
        for case in suite.cases:
            assert through_json(case, Case) == case


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (Case("aware", Linf(0.3), PGD(2, 0.1), Aware(0.5), 3, "noise", "PGD"), Case),
        (Confidence(), Rejection),
        (Detection("lid", "PGD"), Rejection),
    ],
)
def test_cases_and_rejections_survive_json(value: Any, hint: Any) -> None:
    assert through_json(value, hint) == value
    require_storable(value, hint)


@pytest.mark.parametrize(
    ("table", "protocol"),
    [(ATTACKS, Attack), (THREATS, Threat), (METHODS, Method), (OBJECTIVES, Objective)],
)
def test_ccats_own_are_stored_by_their_names_in_the_tables(table: Any, protocol: Any) -> None:
    (known,) = codec.tables_of(protocol)
    assert known.items() >= table.items()
    for name, entry in table.items():
        assert (codec.kind_of(entry) if isinstance(entry, type) else encode(entry)) == name


def test_plain_data_says_everything() -> None:
    assert encode(Normal()) == {"kind": "Normal"}
    assert encode(Linf(0.3)) == {"kind": "Linf", "epsilon": 0.3}
    method = Adversarial(Linf(0.3), PGD(1, 0.1), objective=other_class_confidence)
    plain = encode(method)
    assert plain["objective"] == "other-class confidence"
    assert plain["attack"]["kind"] == "PGD"
    assert plain["share"] == 0.5


def test_a_digest_is_of_content_not_of_order() -> None:
    assert digest({"a": 1, "b": [2, 0.5]}) == digest({"b": [2, 0.5], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_a_seed_depends_on_nothing_but_the_plain_data() -> None:
    assert codec.seed_from(["case", 1]) == codec.seed_from(["case", 1]) < 2**60
    assert codec.seed_from(["case", 1]) != codec.seed_from(["case", 2])


def test_ones_own_class_and_function_are_stored_by_module_and_name(nobody_trusted: None) -> None:
    case = Case("mine", Linf(0.3), Still(2, (3,), 0.5), half_confidence)
    plain = encode(case)
    assert plain["attack"]["kind"] == f"{__name__}:Still"
    assert plain["objective"] == {"function": f"{__name__}:half_confidence"}
    assert set(codec.external_names(plain)) == {
        f"{__name__}:Still",
        f"{__name__}:half_confidence",
    }
    require_storable(case, Case)  # what this process made is trusted by it
    assert decode(plain, Case) == case
    assert codec.short_name(case.attack) == "Still"
    assert codec.short_name(PGD(1, 0.1)) == "PGD"


@pytest.mark.parametrize(
    ("plain", "hint", "message"),
    [
        ({"kind": "Popen"}, Method, "unknown kind 'Popen'; known here are .*Adversarial.*Trades"),
        ({"kind": "Linf", "epsilon": 0.3}, Attack, "unknown kind 'Linf'; known here are .*PGD"),
        ({"kind": "PGD", "iterations": 1, "rate": 0.1}, Threat, "unknown kind 'PGD'"),
        ({}, Threat, "unknown kind ''"),
        ({"function": "print"}, Objective, "unknown kind 'print'"),
        ("accuracy", Objective, "unknown function 'accuracy'; known are cross-entropy"),
        ({"kind": "Linf", "epsilon": 0.3, "colour": 3}, Threat, "no field 'colour'; it has eps"),
        ({"kind": "Linf"}, Threat, "Linf cannot be made of what is stored .*epsilon"),
        ({"kind": "Linf", "epsilon": -1}, Threat, "epsilon must be"),
    ],
)
def test_foreign_data_is_refused(plain: Any, hint: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(plain, hint)


def test_a_recipe_with_foreign_parts_is_refused() -> None:
    plain = encode(RECIPES["mnist-ccat"])
    with pytest.raises(ValueError, match="unknown kind 'Popen'"):
        decode({**plain, "method": {"kind": "Popen"}}, Recipe)
    with pytest.raises(ValueError, match="Recipe has no field 'colour'"):
        decode({**plain, "colour": 3}, Recipe)
    with pytest.raises(ValueError, match="unknown kind 'Linf'; known here are Recipe"):
        decode(encode(Linf(0.3)), Recipe)


def test_a_name_that_is_no_dataclass_is_refused(nobody_trusted: None) -> None:
    extensions.trust("json:dumps", "json:JSONDecoder")
    for name in ("json:dumps", "json:JSONDecoder"):
        with pytest.raises(ValueError, match=f"{name} is not a dataclass"):
            decode({"kind": name}, Attack)


@dataclass
class Loose:
    n: int = 1


@dataclass(frozen=True)
class Holding:
    what: Any


def _local() -> Callable[[], None]:
    def inside() -> None: ...

    return inside


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (Loose(), "Loose must be frozen: @dataclass"),
        (object(), "Holding.what is a object, which cannot be stored: use numbers, texts"),
        ({"a": 1}, "Holding.what is a dict"),
        ((1, {2}), "Holding.what is a set"),
        (partial(print), "Holding.what is a partial"),
        (lambda: None, "Holding.what is .*<lambda>, a function that cannot be stored: define it"),
        (_local(), "Holding.what is .*<locals>.inside, a function that cannot be stored"),
        (Holding({1}), "Holding.what is a set"),
    ],
)
def test_what_cannot_be_stored_is_said_with_its_class_and_field(what: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(Holding(what))


def test_in_memory_what_cannot_be_stored_is_known_by_its_class_alone() -> None:
    plain = encode(Holding((object(), lambda: None, 3)), opaque=True)
    assert plain["what"][0] == {"opaque": "builtins:object"}
    assert plain["what"][1]["opaque"].endswith("<lambda>")
    assert plain["what"][2] == 3
    assert codec.is_opaque(plain)
    assert not codec.is_opaque(encode(RECIPES["mnist-ccat"]))


def test_what_does_not_come_back_equal_is_not_stored(nobody_trusted: None) -> None:
    with pytest.raises(ValueError, match="does not come back equal after it is stored"):
        require_storable(Listing([1, 2]), Listing)
    with pytest.raises(ValueError, match="_gone cannot be imported"):
        require_storable(Holding(_gone), Holding)


@dataclass(frozen=True)
class Listing:
    items: list[int] = field(default_factory=list)


def _gone() -> None: ...


_gone.__qualname__ = "_gone"
_gone.__module__ = "no_such_module"


@dataclass(frozen=True)
class HalfAnAttack:
    n: int = 1


@dataclass
class NotFrozen:
    n: int = 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (HalfAnAttack(), "the attack .*HalfAnAttack has no .*cost.* inherit from ccat.Attack"),
        (NotFrozen(), "NotFrozen must be frozen: @dataclass"),
        (print, "must be a frozen dataclass"),
    ],
)
def test_what_an_attack_of_ones_own_lacks_is_said(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        require_implements(value, Attack, "the attack")


def test_an_attack_of_ones_own_that_lacks_nothing_passes() -> None:
    require_implements(Still(), Attack, "the attack")
    require_implements(Normal(), Method, "the method")


def test_functions_are_told_from_classes() -> None:
    assert codec.is_function_type(Objective)
    assert codec.is_function_type(Objective | Aware)
    assert codec.is_function_type(Callable[[int], int])
    assert not codec.is_function_type(Threat)
    assert not codec.is_function_type(int | None)
