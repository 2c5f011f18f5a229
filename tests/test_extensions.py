"""Code outside of ccat: imported if it was typed or trusted, and never because a run names it."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccat import (
    PGD,
    RECIPES,
    Attack,
    Case,
    Linf,
    Objective,
    Recipe,
    Refined,
    Square,
    Threat,
    codec,
    extensions,
)
from ccat.codec import Unresolved, decode, encode
from ccat.errors import UntrustedError
from ccat.overrides import flatten

SIDE_EFFECT = 'from pathlib import Path\nPath(__file__).with_name("ran").write_text("")\n'
THINGS = '''
from dataclasses import dataclass
import ccat

@dataclass(frozen=True)
class Halved(ccat.Normal):
    """A method of a stranger."""

    share: float = 0.5

@dataclass(frozen=True)
class Quiet(ccat.Attack):
    """An attack of a stranger."""

    iterations: int = 3

    def __call__(self, problem, generator):
        return problem.evaluate(0 * problem.x)

    def cost(self, shape):
        return ccat.Counts(1)

class Outer:
    class Inner:
        pass

quiet = Quiet(5)

def flat(logits, labels):
    return 0 * logits[:, 0]
'''


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a package of a stranger, which nobody has imported or trusted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extensions, "_trusted", set())
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger/__init__.py").write_text(SIDE_EFFECT)
    (tmp_path / "stranger/things.py").write_text(SIDE_EFFECT + THINGS)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "stranger"]:
        del sys.modules[name]


def ran(place: Path) -> bool:
    return (place / "stranger/ran").exists() or "stranger" in sys.modules


# ---- names


@pytest.mark.parametrize("name", ["a:b", "package.module:Name", "a.b.c:Outer.Inner", "_a1:_b2"])
def test_names_are_told_from_texts(name: str) -> None:
    assert extensions.is_name(name)


MALFORMED = ["", "a", "a.b", ":b", "a:", "a:b:c", "a b:c", "a/b:c", "a..b:c", "1a:b", "a:1", "*"]


@pytest.mark.parametrize("name", [*MALFORMED, "a:b\n", "a:<lambda>", "../a:b", "a:b()"])
def test_malformed_names_are_refused_and_trusted_by_nobody(name: str) -> None:
    assert not extensions.is_name(name)
    for load in (extensions.resolve, extensions.load_typed):
        with pytest.raises(ValueError, match=r"is not of the form package\.module:Name"):
            load(name)
    assert extensions.trusted() == frozenset()


def test_a_class_and_a_function_know_their_names() -> None:
    assert extensions.name_of(Linf) == "ccat.threats.balls:Linf"
    assert extensions.name_of(os.path.join) == "posixpath:join"


# ---- trust


def test_a_typed_name_may_lie_in_the_working_directory(place: Path) -> None:
    quiet = extensions.load_typed("stranger.things:quiet")
    assert (type(quiet).__name__, quiet.iterations) == ("Quiet", 5)
    assert extensions.load_typed("stranger.things:Outer.Inner").__qualname__ == "Outer.Inner"
    assert (place / "stranger/ran").exists()
    assert extensions.trusted() == {"stranger.things:quiet", "stranger.things:Outer.Inner"}


def test_the_working_directory_hides_nothing_that_is_installed(place: Path) -> None:
    (place / "json").mkdir()
    (place / "json/__init__.py").write_text("raise SystemExit('the wrong one')")
    (place / "fractions.py").write_text("raise SystemExit('the wrong one')")
    assert extensions.load_typed("json:dumps").__module__ == "json"
    code = "from ccat import extensions; print(extensions.load_typed('fractions:Fraction')(1, 2))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "1/2", done.stderr


def test_trust_is_by_name_and_everything_is_everything(place: Path) -> None:
    assert not extensions.is_trusted("stranger.things:Quiet")
    extensions.trust("stranger.things:Quiet")
    assert extensions.is_trusted("stranger.things:Quiet")
    assert not extensions.is_trusted("stranger.things:Halved")
    with pytest.raises(UntrustedError):
        extensions.resolve("stranger.things:Halved")
    extensions.trust_everything()
    assert extensions.is_trusted("stranger.things:Halved")
    assert extensions.resolve("stranger.things:Halved").__name__ == "Halved"


def test_workers_trust_what_their_driver_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    extensions.trust_everything()
    handed_over = extensions.trusted()
    monkeypatch.setattr(extensions, "_trusted", set())
    assert not extensions.is_trusted("stranger.things:Halved")
    extensions.trust(*handed_over)
    assert extensions.is_trusted("stranger.things:Halved")


# ---- what is refused


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("stranger:thing", "stranger/__init__.py"),
        ("stranger.things:Quiet", "stranger/things.py"),
        ("stranger.things:missing", "stranger/things.py"),
    ],
)
def test_an_untrusted_name_is_refused_with_the_file_but_without_importing_it(
    place: Path, name: str, where: str
) -> None:
    with pytest.raises(UntrustedError) as refused:
        extensions.resolve(name)
    message = str(refused.value)
    assert message.startswith(f"{name} is code that is not part of ccat ({place / where})")
    assert "Pass --trust to import and run it, if you trust where this run comes from" in message
    assert not ran(place)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("nobody_has_this:x", r"\(there is no module nobody_has_this here\)"),
        ("stranger.nothing:x", r"\(there is no module stranger\.nothing here\)"),
        ("stranger.things.deeper:x", r"\(there is no module stranger\.things\.deeper here\)"),
        ("os:abort", r"\(.*os\.py\)"),
        ("builtins:exec", r"\(a part of Python\)"),
        ("bare:x", r"\(.*bare\)"),
    ],
)
def test_what_would_be_imported_is_said_as_far_as_it_is_known(
    place: Path, name: str, where: str
) -> None:
    (place / "bare").mkdir()  # a directory without __init__.py can be imported, too
    with pytest.raises(UntrustedError, match=where):
        extensions.resolve(name)
    assert not ran(place)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("raise RuntimeError('no licence')", r"RuntimeError: no licence"),
        ("def f(:", r"SyntaxError: "),
        ("import nobody_has_this", r"ModuleNotFoundError: No module named 'nobody_has_this'"),
        ("import sys\nsys.exit(3)", r"SystemExit: 3"),
        ("x = 1", r"AttributeError: .*thing"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_reason(
    place: Path, content: str, reason: str
) -> None:
    (place / "stranger/broken.py").write_text(content)
    with pytest.raises(ValueError, match=rf"stranger\.broken:thing cannot be imported \({reason}"):
        extensions.load_typed("stranger.broken:thing")


def test_a_module_that_is_not_there_is_named(place: Path) -> None:
    with pytest.raises(ValueError, match=r"nobody_has_this:x cannot be imported \(ModuleNotFound"):
        extensions.load_typed("nobody_has_this:x")
    with pytest.raises(ValueError, match=r"stranger:No\.Such cannot be imported \(AttributeError"):
        extensions.load_typed("stranger:No.Such")


# ---- what a run names and nobody trusts

RECIPE = RECIPES["mnist-ccat"]
CASE = Case("mine", Linf(0.3), PGD(2, 0.1))
QUIET = {"kind": "stranger.things:Quiet", "iterations": 3}
ROWS = {"kind": "stranger.threats:Rows", "epsilon": 4, "inside": {"kind": "L2", "epsilon": 1.0}}
FLAT = {"function": "stranger.things:flat"}


def stored(value: Any, **parts: Any) -> dict[str, Any]:
    """What lies in a run in which these parts are of a stranger's classes."""
    return {**encode(value), **parts}


@pytest.mark.parametrize(
    ("plain", "hint"),
    [
        (stored(RECIPE, method={"kind": "stranger.things:Halved", "share": 0.25}), Recipe),
        (stored(RECIPE, method=stored(RECIPE.method, attack=QUIET)), Recipe),
        (stored(RECIPE, method=stored(RECIPE.method, threat=ROWS)), Recipe),
        (stored(RECIPE, probe=stored(RECIPE.probe, attack=QUIET, objective=FLAT)), Recipe),
        (stored(RECIPE, schedule={"kind": "stranger.things:Cosine"}), Recipe),
        (stored(CASE, attack=QUIET), Case),
        (stored(CASE, threat=ROWS), Case),
        (stored(CASE, threat=ROWS, attack=encode(Square(5))), Case),
        (stored(CASE, attack=stored(Refined(PGD(1, 0.1), PGD(1, 0.1)), first=QUIET)), Case),
        (stored(CASE, objective=FLAT), Case),
    ],
)
def test_a_strangers_classes_are_read_shown_compared_and_stored_again(
    place: Path, plain: dict[str, Any], hint: Any
) -> None:
    value = decode(plain, hint)
    assert isinstance(value, hint)
    assert not codec.is_resolved(value)
    assert encode(value) == plain
    assert codec.digest(encode(value)) == codec.digest(plain)
    assert value == decode(plain, hint)
    assert hash(value) == hash(decode(plain, hint))
    assert value != dataclasses.replace(value, name="other")
    assert all(isinstance(text, str) for text in flatten(value).values())
    assert not ran(place)


def test_fields_of_a_strangers_class_are_shown_by_their_names(place: Path) -> None:
    case = decode(stored(CASE, attack=QUIET, threat=ROWS, objective=FLAT), Case)
    shown = flatten(case)
    assert shown["attack.iterations"] == "3"
    assert shown["threat.epsilon"] == "4"
    assert shown["threat.inside.epsilon"] == "1.0"
    assert shown["objective"] == "stranger.things:flat"
    assert codec.short_name(case.attack) == "Quiet"
    assert not any("kind" in name for name in shown)
    assert not ran(place)


@pytest.mark.parametrize(
    ("plain", "hint"), [(QUIET, Attack), (ROWS, Threat), (FLAT, Objective | None)]
)
def test_a_strangers_class_cannot_be_called_until_it_is_trusted(
    place: Path, plain: dict[str, Any], hint: Any
) -> None:
    value = decode(plain, hint)
    name = str(plain.get("kind", plain.get("function")))
    assert value == Unresolved(name, value.content)
    assert value.plain == plain
    with pytest.raises(UntrustedError, match=f"{name} is code that is not part of ccat"):
        value("anything", generator=None)
    assert not ran(place)


def test_what_was_read_before_it_was_trusted_is_read_again(place: Path) -> None:
    before = decode(stored(CASE, attack=QUIET, objective=FLAT), Case)
    extensions.trust_everything()
    with pytest.raises(UntrustedError, match="was not trusted when the run was opened: open it ag"):
        before.attack(None, None)
    after = decode(encode(before), Case)
    assert codec.is_resolved(after)
    assert type(after.attack).__name__ == "Quiet"
    assert after.attack.iterations == 3
    assert after.objective.__name__ == "flat"
    assert encode(after) == encode(before)
    assert after.identity() == before.identity(), "results are found again"


def test_names_in_plain_data_are_found_wherever_they_are() -> None:
    plain = stored(
        CASE, attack=stored(Refined(PGD(1, 0.1), PGD(1, 0.1)), then=QUIET), objective=FLAT
    )
    assert list(codec.external_names([plain, ROWS])) == [
        "stranger.things:Quiet",
        "stranger.things:flat",
        "stranger.threats:Rows",
    ]
