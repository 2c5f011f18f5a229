"""Progress as people read it where there is no terminal."""

import re

import pytest

from ccat.progress import ProgressBar


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
