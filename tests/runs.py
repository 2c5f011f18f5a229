"""What tests of the pipeline share: tiny trainings, tiny attacks, and commands as users type them.

Every test can ask for the fixtures: `here` is an empty working directory with the suite "tiny",
`trained` is a run in it.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccat import (
    L2,
    PGD,
    SUITES,
    Case,
    Frame,
    Images,
    Linf,
    Suite,
    any_class_confidence,
    cross_entropy,
    other_class_confidence,
)
from ccat.cli import main
from ccat.runs import Run

TINY = [
    "mnist-ccat-demo",
    "--images=400",
    "--monitor",
    "100",
    "--method.attack.iterations",
    "2",
    "--probe.attack.iterations",
    "2",
]
RANDOM = PGD(2, 0.05, start="random")
CASES = (
    Case("Conf", Linf(0.1), RANDOM, other_class_confidence, restarts=2, family="PGD"),
    Case("Conf", Linf(0.2), PGD(2, 0.05), other_class_confidence, family="PGD"),
    Case("CE", L2(1.0), PGD(2, 0.5), cross_entropy, family="PGD"),
    Case("Conf", Frame(2), PGD(2, 0.5, start="random"), other_class_confidence, family="PGD"),
    Case("distal", Linf(0.1), PGD(2, 0.05), any_class_confidence, source="noise", family="PGD"),
)


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mnist_train: Images, mnist_test: Images
) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SUITES, "tiny", Suite(CASES))
    return tmp_path


@pytest.fixture
def trained(here: Path) -> Run:
    main(["train", *TINY, "--epochs", "1", "--run", "runs/tiny"])
    return Run.open(Path("runs/tiny"))


def says(capsys: pytest.CaptureFixture[str], *arguments: str, error: bool = False) -> str:
    """What a command prints; with `error`, what it says before it ends with exit code 2."""
    capsys.readouterr()
    if error:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        assert end.value.code == 2
        text = capsys.readouterr().err
        assert "Traceback" not in text
        return text
    main(list(arguments))
    return capsys.readouterr().out


def table(text: str) -> dict[str, str]:
    """The first row of the first Markdown table by its head, without intervals."""
    head, _, row = [line for line in text.splitlines() if line.startswith("|")][:3]
    cells = (
        [cell.split("(")[0].strip() for cell in line.strip("|").split("|")] for line in (head, row)
    )
    return dict(zip(*cells, strict=True))


def files_of(run: Path) -> dict[str, bytes]:
    """All files that attacks left in a run, timings aside."""
    return {
        str(file.relative_to(run)): file.read_bytes()
        for kind in ("attempts", "worst")
        for file in sorted((run / kind).rglob("*.safetensors"))
    }


def same(one: Path, other: Path) -> bool:
    """Whether attacks left the same in two runs, byte for byte."""
    return files_of(one) == files_of(other)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from runs import CASES
from ccat import SUITES, Suite
from ccat.cli import main
if __name__ == "__main__":
    SUITES["tiny"] = Suite(CASES)
    main(sys.argv[2:])
"""


def start(program: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command in a process that an interrupt reaches.

    A shell ignores interrupts of what it runs in the background, and what is ignored by the tests
    would be ignored by the process.
    """
    program.write_text(PROGRAM)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, program, Path(__file__).parent, *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for(pattern: str, process: "subprocess.Popen[str]") -> None:
    """Wait until a file matches the pattern; fails if the process ends before."""
    while not list(Path().glob(pattern)):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def killed(program: Path, arguments: list[str], seconds: float, progress: str) -> bool:
    """Start a command and kill it `seconds` after a file matching `progress` is new.

    Returns False if the command was faster.
    """
    before = {file: file.stat().st_mtime_ns for file in Path().glob(progress)}
    process = start(program, *arguments)
    while process.poll() is None and before == {
        file: file.stat().st_mtime_ns for file in Path().glob(progress)
    }:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    text = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL), text
    return process.returncode == -signal.SIGKILL
