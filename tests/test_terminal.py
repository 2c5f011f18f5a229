"""Tables on a terminal: within its width, with every number, and readable without colour."""

import math
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from synthetic import run_outcomes

from ccat.cli.ascii import SUBSTITUTES
from ccat.cli.program import HELP
from ccat.cli.screen import print_tables
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.results import Evaluation
from ccat.report import main_table, tables
from ccat.report.extremes import extremes
from ccat.report.formats import FORMATS, percent
from ccat.report.table import Share, Table
from ccat.report.terminal import as_terminal, rows_on_terminal

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


@cache
def evaluated(seed: int = 0) -> Evaluation:
    return evaluate(run_outcomes(seed), 0.9)


def plain(text: str) -> str:
    return _STYLE.sub("", text)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_line_fits_and_no_number_is_lost(width: int) -> None:
    for table in tables([[evaluated(seed)] for seed in (0, 1)]):
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


def test_colours_say_nothing_that_bold_and_underlined_do_not() -> None:
    rows = (("a", _share(0.1)), ("b", _share(0.2)))
    table = Table("main", "Errors", ("run", "Err"), rows, ())
    coloured, without = (as_terminal(table, 80, colour=colour) for colour in (True, False))
    assert "\x1b[1;32m10.0" in coloured
    assert "\x1b[4;31m20.0" in coloured
    assert plain(coloured) == plain(without)
    assert not re.search(r"\x1b\[(\d+;)*3\d", without)


def test_only_rows_of_different_runs_are_compared() -> None:
    rows = (("a", "L2:3", _share(0.1)), ("a", "Linf:0.3", _share(0.2)))
    assert not extremes(Table("thresholds", "T", ("run", "threat", "RErr"), rows, ()))
    rows = (("a", "L2:3", _share(0.1)), ("b", "L2:3", _share(0.2)))
    found = extremes(Table("thresholds", "T", ("run", "threat", "RErr"), rows, ()))
    assert found == {(0, 2): "best", (1, 2): "worst"}


def test_doubts_are_counted_and_the_legend_has_two_lines() -> None:
    legend = ("one", "x = a / b; " * 20, "three", "‡ a doubt", "‡ another")
    table = Table("main", "T", ("run", "Err"), (("a", _share(0.1)),), legend)
    for width in (80, 120):
        last = plain(as_terminal(table, width)).splitlines()[-3:]
        assert last[0] == "In %; below a number its 95 % interval; --format md says more."
        assert last[1].endswith(" …")
        assert legend[1].startswith(last[1].removesuffix(" …"))
        assert width - 5 <= len(last[1]) <= width
        assert last[2].startswith("‡ There are 2 reasons to doubt these")
    brief = replace(table, brief="What is divided by what.")
    assert plain(as_terminal(brief, 80)).splitlines()[-2] == "What is divided by what."


def test_the_line_below_the_main_table_fits_80_columns() -> None:
    table = main_table([evaluated()])
    assert table.short in plain(as_terminal(table, 80)).splitlines()


def test_rows_of_texts_fit_and_are_whole() -> None:
    rows = [["--epochs", "4", "word " * 30], ["--batch", "x" * 200, ""]]
    text = plain(rows_on_terminal(["field", "value", "meaning"], rows, 80))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("word") == 30
    assert text.count("x") == 200


def test_a_bound_stands_between_the_value_and_its_interval() -> None:
    cell = _share(0.1)._replace(upper=0.3)
    table = Table("main", "T", ("run", "Linf:0.3"), (("a", cell),), ())
    lines = [line.split() for line in plain(as_terminal(table, 80)).splitlines()]
    assert lines[-4:-1] == [["a", "10.0"], ["≤", "30.0"], ["5.0–15.0"]]


def test_a_terminal_without_unicode_gets_substitutes() -> None:
    """`ccat evaluate` itself writes to it, in a pseudo-terminal of 80 columns."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from synthetic import run_outcomes\n"
        "from ccat.cli.program import prepare\n"
        "prepare([])\n"
        "from ccat.cli.screen import print_tables\n"
        "from ccat.evaluation.evaluate import evaluate\n"
        "from ccat.report import main_table\n"
        "print_tables([main_table([evaluate(run_outcomes(), 0.9)])], None, [])\n"
    )
    for encoding, dash, threshold in (("ascii", "-", "tau"), ("utf-8", "–", "τ")):
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
        assert re.search(rf"\d{dash}\d", plain(text))
        assert f" {threshold} " in plain(text)
        assert "?" not in plain(text).split("Errors of what is accepted")[1]
        assert "\x1b[3" not in text, "no colour"
        shown = plain(text).split("Errors of what is accepted")[1]
        assert max(map(len, shown.splitlines())) <= 80


def test_markdown_is_printed_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = main_table([evaluated()])
    print_tables([table], None, ["a note"])
    text = capsys.readouterr().out
    assert text.startswith("**Errors of what is accepted")
    assert text.endswith("\na note\n")


def test_a_terminal_that_cannot_show_styles_gets_markdown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    print_tables([main_table([evaluated()])], None, [])
    assert capsys.readouterr().out.startswith("**Errors of what is accepted")


def test_every_letter_of_the_tables_has_a_substitute() -> None:
    texts = "".join(as_terminal(table, 120) for table in tables([[evaluated()]]))
    texts += "".join(FORMATS["md"](table) for table in tables([[evaluated()]])) + HELP
    letters = {letter for letter in texts if not letter.isascii()}
    assert {"τ", "–", "“"} <= letters <= set(SUBSTITUTES)


READERLESS = """
import os, subprocess, sys
lines = sys.argv[1:]
for line in lines:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "ccat", *line.split()], stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    print(line, done.returncode, done.stderr)
"""


def test_output_that_nobody_reads_ends_a_command_in_silence(tmp_path: Path) -> None:
    """As in `ccat recipes | head -1`, where the pipe is closed early."""
    lines = ["--help", "schema", "runs ."]
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", READERLESS, *lines],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == [f"{line} 0 b''" for line in lines]
