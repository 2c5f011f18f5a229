"""Tables on a terminal: within its width, with every number, and readable without colour."""

import math
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import run_outcomes

from ccat.evaluation.evaluate import evaluate
from ccat.report import main_table, tables
from ccat.report.formats import percent
from ccat.report.table import Share, Table
from ccat.report.terminal import as_terminal

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    return _STYLE.sub("", text)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_line_fits_and_no_number_is_lost(width: int) -> None:
    evaluations = [[evaluate(run_outcomes(seed), 0.9)] for seed in (0, 1)]
    for table in tables(evaluations):
        text = plain(as_terminal(table, width))
        assert max(map(len, text.splitlines())) <= width
        words = text.replace("\n", " ").split()
        for row in table.rows:
            for cell in row:
                if isinstance(cell, Share) and cell.interval and not math.isnan(cell.value):
                    low, high = (percent(end) for end in cell.interval)
                    assert f"{percent(cell.value)}{cell.mark}" in words
                    assert f"{low}–{high}" in words


def test_the_best_is_bold_and_the_worst_underlined_each_way() -> None:
    rows = (("a", _share(0.1), _share(0.9)), ("b", _share(0.2), _share(0.8)))
    table = Table("main", "Errors", ("run", "Err", "coverage"), rows, ())
    text = as_terminal(table, 80, colour=False)
    bold, underlined = (re.findall(rf"\x1b\[{code}m *([^\x1b]+)", text) for code in (1, 4))
    assert [found for found in bold if found[0].isdigit()] == ["10.0", "90.0"]
    assert underlined == ["20.0", "80.0"]


def _share(value: float) -> Share:
    return Share(value, (value - 0.05, value + 0.05))


def test_doubts_are_counted_and_the_legend_has_two_lines() -> None:
    legend = ("one", "two", "three", "‡ a doubt", "‡ another")
    table = Table("main", "T", ("run", "Err"), (("a", _share(0.1)),), legend)
    last = plain(as_terminal(table, 80)).splitlines()[-3:]
    assert last[:2] == ["one", "two"]
    assert last[2].startswith("‡ There are 2 reasons to doubt these")


def test_a_bound_stands_between_the_value_and_its_interval() -> None:
    cell = _share(0.1)._replace(upper=0.3)
    table = Table("main", "T", ("run", "Linf:0.3"), (("a", cell),), ())
    lines = [line.split() for line in plain(as_terminal(table, 80)).splitlines()]
    assert lines[-3:] == [["a", "10.0"], ["≤", "30.0"], ["5.0–15.0"]]


def test_a_terminal_without_unicode_gets_question_marks(tmp_path: Path) -> None:
    """`ccat evaluate` itself writes to it, in a pseudo-terminal of 80 columns."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from synthetic import run_outcomes\n"
        "from ccat.cli.program import prepare\n"
        "prepare([])\n"
        "from ccat.cli.tabulate import print_tables\n"
        "from ccat.evaluation.evaluate import evaluate\n"
        "from ccat.report import main_table\n"
        "print_tables([main_table([evaluate(run_outcomes(), 0.9)])], None, [])\n"
    )
    for encoding, dash in (("ascii", "?"), ("utf-8", "–")):
        out, end = pty.openpty()
        environment = {
            **os.environ,
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "PYTHONIOENCODING": encoding,
        }
        command = [sys.executable, "-c", program, str(Path(__file__).parent)]
        with subprocess.Popen(command, stdout=end, env=environment) as process:
            os.close(end)
            content = b""
            while True:
                try:
                    part = os.read(out, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                content += part
        os.close(out)
        assert process.returncode == 0
        text = content.decode(encoding)
        assert f"0{dash}" in plain(text)
        assert "\x1b[3" not in text, "no colour"
        shown = plain(text).split("Errors of what is accepted")[1]
        assert max(map(len, shown.splitlines())) <= 80


def test_markdown_is_printed_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from ccat.cli.tabulate import print_tables  # noqa: PLC0415 (imports torch)

    table = main_table([evaluate(run_outcomes(), 0.9)])
    print_tables([table], None, ["a note"])
    text = capsys.readouterr().out
    assert text.startswith("**Errors of what is accepted")
    assert text.endswith("\na note\n")
