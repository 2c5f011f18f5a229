import dataclasses
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from ccat import L0, L1, L2, Frame, Linf, Problem, extensions
from ccat.errors import UntrustedError
from ccat.threats import (
    THREATS,
    Box,
    Condition,
    Goal,
    Source,
    Threat,
    UnknownThreat,
    contains,
    label,
    order,
    parse_threat,
)

NAMES: dict[str, Threat] = {
    "Linf:0.3": Linf(0.3),
    "Linf:8/255": Linf(8 / 255),
    "Linf:0.1234567": Linf(0.1234567),
    "L2:3": L2(3.0),
    "L2:300/255": L2(300 / 255),
    "L2:1e+300": L2(1e300),
    "L2:1.2345678e+307": L2(1.2345678e307),
    "L2:1234567.0": L2(1234567.0),
    "L2:1.5,boxed=false": L2(1.5, boxed=False),
    "L1:18": L1(18.0),
    "L1:18,density=0.05": L1(18.0, density=0.05),
    "L1:18,density=1/255,boxed=false": L1(18.0, density=1 / 255, boxed=False),
    "L0:15": L0(15),
    "L0:1234567": L0(1234567),
    "L0:15,per=entry": L0(15, per="entry"),
    "L0:15,per=entry,boxed=false": L0(15, per="entry", boxed=False),
    "Frame:2": Frame(2),
}


@dataclass(frozen=True)
class Ring:
    """A threat of a user's own: its size is its first field."""

    radius: float
    inner: float
    thick: bool = False
    weights: tuple[float, ...] = field(default_factory=tuple)

    @property
    def epsilon(self) -> float:
        return self.radius

    def size(self, delta: Tensor) -> Tensor:
        return delta.abs().amax((1, 2, 3))

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        return delta.clamp(-self.radius, self.radius).clamp(-x, 1 - x)

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        return gradient.sign()

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        return torch.zeros_like(x)


@dataclass(frozen=True)
class NoThreat:
    epsilon: float


RING = "test_threat_names:Ring"


@pytest.fixture(autouse=True)
def _forget_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_trusted", set())


@pytest.mark.parametrize("name", NAMES)
def test_threats_are_read_as_they_are_written(name: str) -> None:
    assert label(NAMES[name]) == name
    assert parse_threat(name) == NAMES[name]


@given(st.floats(1e-300, 1e300), st.floats(1e-9, 1), st.booleans())
def test_every_number_is_read_as_it_is_written(epsilon: float, density: float, boxed: bool) -> None:
    threat = L1(epsilon, density, boxed)
    assert parse_threat(label(threat)) == threat


@given(st.integers(1, 2**53 - 1))
def test_every_count_is_read_as_it_is_written(epsilon: int) -> None:
    assert parse_threat(label(L0(epsilon))) == L0(epsilon)


def test_two_threats_that_differ_never_share_a_name() -> None:
    names = [label(threat) for threat in NAMES.values()]
    assert len(set(names)) == len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a threat is written as one of Linf:ε.*such as Linf:8/255"),
        (":", "a threat is written as one of"),
        (":0.3", "a threat is written as one of"),
        ("Linf", "a threat is written as one of"),
        ("Linf:", "a threat is written as one of"),
        ("linf:0.3", r"not 'linf:0\.3'; did you mean Linf\?"),
        ("L3:1", r"did you mean L[0-2] or L[0-2] or L[0-2]\?"),
        ("Square:1", r"such as Linf:8/255, or package\.module:Class:ε, not 'Square:1'$"),
        ("Linf:x", "Linf: epsilon must be a finite number, such as 0.3 or 8/255, not 'x'"),
        ("Linf:-1", "Linf: epsilon must be a number above 0"),
        ("Linf:8", "8/255"),
        ("Linf:8/0", "must be a finite number"),
        ("Linf:nan", "must be a finite number"),
        ("L2:1e999", "must be a finite number, such as 0.3 or 8/255, not '1e999'"),
        ("L2:" + "9" * 400 + "/1", "must be a finite number, .* not '9{40}…'"),
        ("L0:1.5", "L0: epsilon must be a whole number"),
        ("L0:" + "9" * 20, "L0: epsilon must be a whole number below 9007199254740992"),
        ("L0:" + "9" * 5000, "L0: epsilon must be a whole number, not '9{40}…'"),
        ("L0:15/entry", "L0: epsilon must be a whole number"),
        ("L0:15,per=channel", "L0: per must be one of pixel, entry, not 'channel'"),
        ("L0:15,colour=red", "L0 has no field 'colour'; it has epsilon, per, boxed"),
        ("L0:15,entry", "NAME:ε,field=value with every field once, such as L0:15,per=entry"),
        ("L0:15,per=entry,per=entry", "every field once"),
        ("L0:15,epsilon=3", "every field once"),
        ("L2:1,boxed=no", "L2: boxed must be one of true, false, not 'no'"),
        ("L1:18,density=2", "L1: density"),
        ("Frame:0", "at least 1"),
    ],
)
def test_threats_that_cannot_be_read_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_threat(text)


def test_a_users_own_threat_is_named_by_its_module_and_read_once_trusted() -> None:
    ring = Ring(0.3, inner=8 / 255, thick=True)
    assert label(ring) == f"{RING}:0.3,inner=8/255,thick=true"
    with pytest.raises(UntrustedError, match="test_threat_names:Ring is code that is not part of"):
        parse_threat(label(ring))
    extensions.trust(RING)
    assert parse_threat(label(ring)) == ring
    with pytest.raises(ValueError, match=f"{RING} must be given its field inner: add ,inner=value"):
        parse_threat(f"{RING}:0.3")
    with pytest.raises(ValueError, match="weights cannot be written in a name"):
        parse_threat(f"{RING}:0.3,inner=0.1,weights=1")


@pytest.mark.parametrize("name", ["NoThreat", "NAMES", "_forget_trust"])
def test_what_is_no_threat_is_refused(name: str) -> None:
    extensions.trust(f"test_threat_names:{name}")
    with pytest.raises(ValueError, match="is not a threat: it has no size, project"):
        parse_threat(f"test_threat_names:{name}:0.3")


def test_a_class_that_only_has_the_name_of_a_threat_of_ccat_is_not_taken_for_it() -> None:
    @dataclass(frozen=True)
    class Linf(Ring):
        pass

    assert label(Linf(0.3, 0.1)).startswith("test_threat_names:test_a_class")
    assert not contains(Linf(0.3, 0.1), NAMES["Linf:0.3"])


def test_a_threat_without_a_size_cannot_be_named() -> None:
    class Bare(Ring):
        pass

    class Plain:
        epsilon = 0.3

    assert label(Bare(0.3, 0.1)).endswith("Bare:0.3,inner=0.1")
    plain: Any = Plain()
    with pytest.raises(ValueError, match="must be a frozen dataclass whose field `epsilon`"):
        label(plain)


def test_a_larger_ball_holds_a_smaller_one_that_differs_in_nothing_else() -> None:
    assert contains(Linf(0.4), Linf(0.3))
    assert contains(Linf(0.3), Linf(0.3))
    assert contains(Frame(3), Frame(2))
    assert contains(Ring(0.4, 0.1), Ring(0.3, 0.1))
    assert not contains(Linf(0.3), Linf(0.4))
    assert not contains(L2(30.0), Linf(0.01))
    assert not contains(L0(15), L0(5, per="entry"))
    assert not contains(L2(1.0), L2(1.0, boxed=False))
    assert not contains(L1(9.0), L1(1.0, density=0.05))
    assert not contains(Ring(0.4, 0.1), Ring(0.3, 0.2))


def test_threats_are_sorted_by_kind_then_by_size() -> None:
    wanted: list[Threat | UnknownThreat] = [
        Linf(0.1),
        Linf(0.3),
        L2(0.5),
        L1(18.0),
        L0(2),
        L0(15),
        Frame(1),
        UnknownThreat("away:Thing:0.1"),
        Ring(0.1, 0.5),
        Ring(0.3, 0.2),
    ]
    shuffled = [*wanted[5:], *wanted[4::-1]]
    assert sorted(shuffled, key=order) == wanted
    assert list(THREATS) == ["Linf", "L2", "L1", "L0", "Frame"]


def test_an_unknown_threat_can_be_shown_and_compared_but_not_used() -> None:
    unknown = UnknownThreat("away:Thing:0.3")
    assert label(unknown) == "away:Thing:0.3"
    assert contains(unknown, UnknownThreat("away:Thing:0.3"))
    assert not contains(unknown, UnknownThreat("away:Thing:0.2"))
    assert not contains(unknown, Linf(0.3))
    assert not contains(Linf(0.3), unknown)
    used: Any = unknown
    for name in ("epsilon", "size", "project", "ascent", "sample"):
        with pytest.raises(UntrustedError, match=r"away:Thing:0\.3 is a threat .* Pass --trust"):
            getattr(used, name)
    with pytest.raises(UntrustedError, match="--trust"):
        Problem(torch.rand(1, 1, 4, 4), used, lambda images, rows: images.sum((1, 2, 3)))
    assert not isinstance(unknown, Box)
    assert dataclasses.replace(unknown, text="a:B:1") == UnknownThreat("a:B:1")


def test_boxes_are_known_by_their_bounds() -> None:
    boxes = {type(threat).__name__ for threat in NAMES.values() if isinstance(threat, Box)}
    assert boxes == {"Linf", "Frame"}


@pytest.mark.parametrize(("name", "source"), list(itertools.product(NAMES, ["test", "noise"])))
def test_conditions_are_read_as_they_are_written(name: str, source: Source) -> None:
    condition = Condition(NAMES[name], source)
    assert condition.key == f"{source} {name}"
    assert condition.title == (name if source == "test" else f"distal {name}")
    assert condition.on_noise == (source == "noise")
    assert Condition.parse(condition.key) == Condition.parse(condition.title) == condition


@pytest.mark.parametrize("name", NAMES)
def test_a_condition_says_if_the_attacker_wants_rejection(name: str) -> None:
    condition = Condition(NAMES[name], goal="rejection")
    assert condition.title == condition.key == f"reject {name}"
    assert condition.rejects
    assert not Condition(NAMES[name]).rejects
    assert Condition.parse(condition.key) == condition


def test_a_goal_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="goal must be 'error' or 'rejection', not 'harm'"):
        Condition(Linf(0.3), goal="harm")  # type: ignore[arg-type]
    goal: Goal = "rejection"
    with pytest.raises(ValueError, match="noise ought to be rejected"):
        Condition(Linf(0.3), "noise", goal)


def test_a_condition_of_a_strangers_threat_is_read_without_importing_it() -> None:
    condition = Condition.parse("noise away.module:Thing:0.3,inner=2")
    assert condition == Condition(UnknownThreat("away.module:Thing:0.3,inner=2"), "noise")
    assert condition.title == "distal away.module:Thing:0.3,inner=2"
    assert condition.includes(Condition.parse(condition.key))
    ring = Condition(Ring(0.3, 0.1))
    assert isinstance(Condition.parse(ring.key).threat, UnknownThreat)
    extensions.trust(RING)
    assert Condition.parse(ring.key) == ring


@pytest.mark.parametrize("text", ["", "test", "noise ", "train Linf:0.3", "noise noise Linf:0.3"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a threat is written as one of"):
        Condition.parse(text)
    with pytest.raises(ValueError, match="source must be 'test' or 'noise', not 'train'"):
        Condition(Linf(0.3), "train")  # type: ignore[arg-type]


def test_a_condition_includes_smaller_threats_around_the_same_images() -> None:
    assert Condition(Linf(0.3)).includes(Condition(Linf(0.2)))
    assert not Condition(Linf(0.2)).includes(Condition(Linf(0.3)))
    assert not Condition(Linf(0.3)).includes(Condition(Linf(0.2), "noise"))
    low = Condition(Linf(0.2), goal="rejection")
    assert Condition(Linf(0.3), goal="rejection").includes(low)
    assert not Condition(Linf(0.3)).includes(low)
    assert not low.includes(Condition(Linf(0.1)))
    conditions = [
        Condition(Linf(0.1)),
        Condition(Linf(0.3)),
        Condition(L0(3)),
        Condition(Linf(0.2), "noise"),
        low,
    ]
    shuffled = [*conditions[2:], *conditions[1::-1]]
    assert sorted(shuffled, key=lambda one: one.order) == conditions
