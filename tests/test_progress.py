"""Progress as people read it, on a terminal and elsewhere, and what is logged beside it."""

import io
import logging
import re
from functools import partial

import pytest
from tqdm import tqdm

import ccat
from ccat.cli import main
from ccat.data.sources import Source, first_verified
from ccat.progress import ProgressBar, inner_of


def test_progress_is_plain_lines_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    report = ProgressBar("work", every=3600)
    for done in range(4):
        report(done, 3, f"part {done}")
    shown = re.sub(r"\d+ s", "T", capsys.readouterr().err)
    assert shown == "work: 0 %, part 0 (T)\nwork: 100 %, part 3 (T)\n"


def test_the_time_left_is_told_by_the_work_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = ProgressBar("work", every=0)
    begin = report.begin
    monkeypatch.setattr("ccat.progress.time.monotonic", lambda: begin + 60)
    report(25, 100, "")
    assert capsys.readouterr().err == "work: 25 % (60 s, about 3 min left)\n"


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_bars_nest_on_a_terminal_and_end_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("ccat.progress.tqdm", partial(tqdm, mininterval=0))
    report = ProgressBar("work")
    for done in range(3):
        report(done, 3, f"part {done}")
        inner_of(report)(done + 1, 4, f"inside {done}")
    shown = terminal.getvalue()
    for text in ("work:   0%|", ", part 2", "inside 0: 1/4|", "inside 2: 3/4|"):
        assert text in shown
    assert shown.index("work:   0%|") < shown.index("\n") < shown.index("inside 0: 1/4|")
    report(3, 3, "three parts, all well")
    assert re.search(r"work: 100 %, three parts, all well \(\d+ s\)\n$", terminal.getvalue())
    assert not report.bars


def test_only_bars_show_what_is_inside(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    inner_of(lambda done, total, text: told.append(text))(1, 2, "inside")
    inner_of(ProgressBar("work"))(1, 2, "inside")
    assert not told
    assert not capsys.readouterr().err


def test_the_package_logs_and_is_silent_unless_asked(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ccat.__name__ == "ccat"
    handlers = logging.getLogger("ccat").handlers
    assert any(isinstance(one, logging.NullHandler) for one in handlers)

    def missing() -> int:
        raise FileNotFoundError("not here")

    sources = [Source("a folder", missing), Source("another", lambda: 7)]

    def read() -> None:
        found = first_verified("a set", "set", sources, lambda _: None, lambda *_: None, "")
        assert found == 7

    with caplog.at_level(logging.INFO, "ccat"):
        read()
    assert caplog.messages == [
        "a set is not in a folder (not here)",
        "a set comes from another, verified",
    ]
    before = list(handlers)
    try:
        main(["-v", "schema"])
        main(["schema", "--verbose"])
        read()
        assert len(handlers) == len(before) + 1
        err = capsys.readouterr().err
        assert "ccat: a set comes from another, verified\n" in err
        assert err.count("verified") == 1
    finally:
        logging.getLogger("ccat").handlers[:] = before
        logging.getLogger("ccat").setLevel(logging.NOTSET)
