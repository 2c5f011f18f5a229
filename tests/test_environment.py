"""The command in other surroundings: interrupted while it starts, in locales without Greek."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs import says

from ccat.runs import Run

PLAIN = os.environ | {
    "LC_ALL": "POSIX",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "",
}


def test_importing_ccat_takes_no_torch() -> None:
    program = "import sys, ccat; assert 'torch' not in sys.modules; print(ccat.Linf(0.3))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "Linf(epsilon=0.3)\n", done.stderr


@pytest.mark.parametrize("delay", [0.02, 0.3, 0.8])
def test_an_interrupt_while_it_starts_is_no_traceback(delay: float, tmp_path: Path) -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from ccat.cli import main; print('here', flush=True); main(['data', 'list'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert process.returncode in (0, 130)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["suites", "demo"], ["proposition"]]
)
def test_help_and_tables_are_printed_in_every_locale(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ccat", *arguments],
        env=PLAIN,
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert len(done.stdout) > 200


def test_a_report_is_written_in_every_locale(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1")
    for command in (["evaluate", "tiny", "--tpr", "0.9"], ["report", "tiny", "--tpr", "0.9"]):
        done = subprocess.run(
            [sys.executable, "-m", "ccat", *command], env=PLAIN, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "τ" in Path("report/index.html").read_text(encoding="utf-8")
