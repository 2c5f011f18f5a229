"""What the README and the help text show is run, or, where that would take hours, understood."""

import re
import shlex
from pathlib import Path

import pytest

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
    exec(compile("\n".join(blocks("python")), "README.md", "exec"), {})
    printed = re.fullmatch(r"Err ([\d.]+)%, RErr ([\d.]+)%, accepted ([\d.]+)%\n", capsys.readouterr().out)
    assert printed
    error, robust_error, accepted = map(float, printed.groups())
    assert error < 20 < robust_error
    assert accepted > 80


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
    assert "DEMO_" not in README


def test_there_are_commands_to_understand() -> None:
    assert len(COMMANDS) >= 8
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert f"\n{target}:" in makefile
