"""The examples of the documents are run or, where that would take hours, parsed."""

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ccat
from ccat import Images, extensions
from ccat.catalog import RECIPES, SUITES
from ccat.cli import main
from ccat.cli.commands import train
from ccat.cli.program import HELP, parser
from ccat.evaluation import rates
from ccat.threats import parse_threat

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "docs" / "GUIDE.md").read_text()
API = (ROOT / "docs" / "API.md").read_text()
EXTENDING = (ROOT / "docs" / "EXTENDING.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_python_of_the_readme_runs(
    mnist_test: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a model as small as can be."""
    (block,) = blocks("python")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    images = torch.rand(306, 1, 4, 4)
    labels = model(images).argmax(1)
    names = {
        "digits": mnist_test[:5].floats(),
        "model": model,
        "images": images[:6],
        "labels": labels[:6],
        "held_out": (images[6:], labels[6:]),
    }
    exec(compile(block, "README.md", "exec"), names)
    assert names["answers"].tolist() == mnist_test[:5].y.tolist()
    assert "| model  " in capsys.readouterr().out


def test_the_python_of_the_guide_runs(
    mnist_train: Images,
    mnist_test: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its blocks are one program."""
    monkeypatch.chdir(tmp_path)
    exec(
        compile(
            "\n".join(one for one in blocks("python", GUIDE) if "ccat.evaluate(" not in one),
            "GUIDE.md",
            "exec",
        ),
        {},
    )
    printed = re.fullmatch(
        r"Err ([\d.]+)%, RErr ([\d.]+)%, coverage ([\d.]+)%\n", capsys.readouterr().out
    )
    assert printed
    error, robust_error, coverage = map(float, printed.groups())
    assert error < 20 < robust_error
    assert coverage > 80


def test_the_model_of_your_own_in_the_guide_is_attacked_and_evaluated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a model and images as small as can be, and a suite that takes seconds."""
    (block,) = [one for one in blocks("python", GUIDE) if "ccat.evaluate(" in one]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    images = torch.rand(306, 1, 4, 4)
    labels = model(images).argmax(1)
    names = {
        "model": model,
        "images": images[:6],
        "labels": labels[:6],
        "x_val": images[6:],
        "y_val": labels[6:],
    }
    exec(compile(block.replace("standard", "demo"), "GUIDE.md", "exec"), names)
    assert "| model  " in capsys.readouterr().out
    assert (names["x_adv"] - images[:6]).abs().max() <= 8 / 255 + 1e-6


def commands(text: str) -> set[str]:
    """The commands in a text, without comments, explanations after two spaces, and redirections."""
    lines = [line.split("#")[0].strip() for line in re.sub(r"\\\n\s*", "", text).splitlines()]
    return {re.sub(r"\s{2,}.*| > .*", "", line) for line in lines if line.startswith("ccat ")}


DOCUMENTS = [README, *(file.read_text() for file in sorted((ROOT / "docs").glob("*.md")))]
COMMANDS = sorted(
    {
        command
        for text in [HELP, *(block for one in DOCUMENTS for block in blocks("sh", one))]
        for command in commands(text)
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_shown_are_understood(command: str) -> None:
    words = shlex.split(command)[1:]
    options, rest = parser().parse_known_args(words)
    assert "command" in options
    if options.command == "train" and options.config is None:
        name = options.recipe or rest.pop(0)
        if not extensions.is_name(name):  # yours are run below
            train.with_fields(RECIPES[name], _without_own(rest), options.unverified)
    else:
        assert not rest
    if options.command == "attack":
        assert options.suite is None or options.suite in SUITES
    threats = getattr(options, "threat", None) or []
    for threat in [threats] if isinstance(threats, str) else threats:
        if not extensions.is_name(threat.rpartition(":")[0]):
            parse_threat(threat)


def _without_own(fields: list[str]) -> list[str]:
    """Leave out fields that are set to classes of a user's package, and fields of these."""
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    own = tuple(name for name, value in pairs if extensions.is_name(value))
    return [part for pair in pairs if not pair[0].startswith(own) for part in pair]


def test_no_number_is_missing() -> None:
    """Places that wait for a measurement are written in capitals."""
    known = {"CCAT_DATA", "CCAT_CACHE", "NO_COLOR"}
    known |= {name for name in vars(rates) if name.endswith("_RATES")}
    for file in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")):
        waiting = set(re.findall(r"\b[A-Z]+_[A-Z0-9_]+\b", file.read_text())) - known
        assert not waiting, file


def test_there_are_commands_to_understand() -> None:
    assert len(COMMANDS) >= 30
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs"])
def test_links_lead_to_files(file: str) -> None:
    path = ROOT / file
    for one in path.glob("*.md") if path.is_dir() else [path]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", one.read_text()):
            assert (one.parent / target).exists(), f"{one.name}: {target}"


def test_the_examples_of_the_api_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)  # they are written as a user would, without a generator
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("\n".join(blocks("python", API)), "API.md", "exec"), names)
    shown = capsys.readouterr().out
    assert "| model  " in shown
    assert "towards_grey" in shown
    assert names["scores"].shape == (50,)


def test_every_public_name_is_documented() -> None:
    missing = [
        name for name in ccat.__all__ if not re.search(rf"`[^`]*\b{re.escape(name)}\b[^`]*`", API)
    ]
    assert not missing


@pytest.fixture
def mypackage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the files of docs/EXTENDING.md, each named in its first line."""
    for block in blocks("python", EXTENDING):
        if first := re.match(r"# (mypackage/\w+\.py)\n", block):
            file = tmp_path / first[1]
            file.parent.mkdir(exist_ok=True)
            file.write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extensions, "_trusted", set())
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "mypackage"]:
        del sys.modules[name]


@pytest.mark.filterwarnings("default:.*calibration images support a TPR")
def test_the_commands_about_extending_run(
    mypackage: Path, capsys: pytest.CaptureFixture[str], mnist_train: Images, mnist_test: Images
) -> None:
    """In order, as shown, but on fewer images and with fewer attacks."""
    smaller = {
        "train": ["--images", "700", "--epochs", "1"],
        "attack": ["--examples", "100", "--workers", "1"],
    }
    run_blocks(block for block in blocks("python", EXTENDING) if "np.savez" in block)
    lines = re.findall(r"^ccat .*", "\n".join(blocks("sh", EXTENDING)), re.MULTILINE)
    for line in lines:
        words = shlex.split(line)[1:]
        named = ["--run", "runs/mnist-normal-demo"] if line == lines[0] else []
        part = ["--only", "*pgd*"] if "--suite" in words else []
        main([*words, *smaller.get(words[0], []), *named, *part])
    shown = capsys.readouterr().out
    for name in ("| Corners", "| towards_grey", "mypackage.threats:Ring:0.5"):
        assert name in shown


def test_the_program_about_extending_runs(
    mypackage: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(mypackage)
    torch.manual_seed(0)
    program = [block for block in blocks("python", EXTENDING) if not block.startswith("# mypack")]
    run_blocks(program)
    shown = capsys.readouterr().out
    assert "| Corners" in shown
    assert 0 < float(shown.split()[-1]) < 1


def run_blocks(program: Iterable[str]) -> None:
    names: dict[str, Any] = {"np": np}
    exec(compile("\n".join(program), "EXTENDING.md", "exec"), names)
