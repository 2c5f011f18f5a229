"""What the README and the help text show is run, or, where that would take hours, understood."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

import ccat
from ccat import Images
from ccat.cli import making
from ccat.cli.arguments import overridden
from ccat.cli.main import HELP, parser
from ccat.cookbook import RECIPES
from ccat.recipes import parse_threat
from ccat.suites import SUITES

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_of_the_readme_runs(
    mnist_train: Images, mnist_test: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks are one program."""
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(block for block in blocks("python") if "ccat.evaluate(" not in block), "README.md", "exec"), {})
    printed = re.fullmatch(r"Err ([\d.]+)%, RErr ([\d.]+)%, accepted ([\d.]+)%\n", capsys.readouterr().out)
    assert printed
    error, robust_error, accepted = map(float, printed.groups())
    assert error < 20 < robust_error
    assert accepted > 80


def test_the_three_lines_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    """With a model and images as small as can be, and a suite that takes seconds."""
    (three,) = [block for block in blocks("python") if "ccat.evaluate(" in block]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    images = torch.rand(306, 1, 4, 4)
    labels = model(images).argmax(1)
    names = {"model": model, "images": images[:6], "labels": labels[:6], "x_val": images[6:], "y_val": labels[6:]}
    exec(compile(three.replace("standard", "demo"), "README.md", "exec"), names)
    assert all(part in capsys.readouterr().out for part in ("| model |",))


LINES = [line.split("#")[0].strip() for block in [*blocks("sh"), HELP] for line in block.splitlines()]
COMMANDS = sorted({line for line in (re.sub(r"\s{2,}.*", "", line) for line in LINES) if line.startswith("ccat ")})


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_shown_are_understood(command: str) -> None:
    options, rest = parser().parse_known_args(shlex.split(command)[1:])
    assert "function" in options
    if options.function is making.train_command:
        overridden(RECIPES[options.recipe], rest, options.unverified)
    else:
        assert not rest
    if options.function is making.attack_command:
        assert options.suite in SUITES
    threats = getattr(options, "threat", None) or []
    for threat in [threats] if isinstance(threats, str) else threats:
        parse_threat(threat)


def test_no_number_is_missing() -> None:
    """Places that wait for a measurement are written in capitals."""
    root = Path(__file__).parents[1]
    for file in (root / "README.md", root / "CHANGELOG.md", *(root / "docs").glob("*.md")):
        waiting = set(re.findall(r"\b[A-Z]+_[A-Z0-9_]+\b", file.read_text())) - {"CCAT_DATA", "CCAT_CACHE"}
        assert not waiting, file


def test_there_are_commands_to_understand() -> None:
    assert len(COMMANDS) >= 8
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert f"\n{target}:" in makefile


API = (Path(__file__).parents[1] / "docs" / "API.md").read_text()


def test_the_examples_of_the_api_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)  # they are written as a user would, without a generator
    code = "\n".join(re.findall(r"```python\n(.*?)```", API, re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, "API.md", "exec"), names)
    shown = capsys.readouterr().out
    assert "| model | " in shown
    assert "towards grey" in shown
    assert names["scores"].shape == (50,)


def test_every_public_name_is_documented() -> None:
    missing = [name for name in ccat.__all__ if not re.search(rf"`[^`]*\b{re.escape(name)}\b[^`]*`", API)]
    assert not missing
