"""`ccat monitor`: the log of a classifier in use, against the rate that was calibrated."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from classifiers import make_run, pixels, save_picture
from runs import says

import ccat
from ccat.cli import main

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Row = tuple[str, str, str, float, float]


@pytest.fixture
def clf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> ccat.Rejecting:
    monkeypatch.chdir(tmp_path)
    run = make_run(Path("runs/shapes"))
    says(capsys, "calibrate", "shapes", "--tpr", "0.9")
    return ccat.load(run.path)


def rows(clf: ccat.Rejecting, rejected: list[bool], step: float = 1.0) -> list[Row]:
    return [
        (
            (BEGIN + timedelta(seconds=step * n)).isoformat(),
            f"{n}.png",
            "rejected" if each else "1",
            0.5,
            clf.tau,
        )
        for n, each in enumerate(rejected)
    ]


def write(path: str, written: list[Row], head: str = "time,picture,label,confidence,tau") -> str:
    with Path(path).open("w", newline="") as file:
        file.write(f"{head}\n")
        csv.writer(file).writerows(written)
    return path


def drawn(share: float, count: int, seed: int = 0) -> list[bool]:
    found: list[bool] = (np.random.default_rng(seed).random(count) < share).tolist()
    return found


def alarm(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["monitor", "shapes", *arguments])
    assert end.value.code == 1
    return capsys.readouterr().out


def test_what_predict_writes_is_watched(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    for n, image in enumerate(pixels(40, 12)):
        save_picture(image, Path(f"pictures/{n:02}.png"))
    Path("log.csv").write_text(says(capsys, "predict", "shapes", "--format=csv", "pictures"))
    rejected = int((~clf(pixels(40, 12)).accepted).sum())
    assert rejected > 0
    said = says(capsys, "monitor", "shapes", "log.csv")
    assert said.startswith(f"No alarm: {rejected} of 40 images were rejected")


def test_an_alarm_ends_with_exit_code_1_and_tells_when(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = clf.calibration.rejected / clf.calibration.images
    usual, then = drawn(rate, 1000), drawn(0.6, 300, 1)
    assert "No alarm" in says(capsys, "monitor", "shapes", write("usual.csv", rows(clf, usual)))
    log = rows(clf, usual + then)
    said = alarm(capsys, write("log.csv", log), "--plot", "rate.svg")
    expected = clf.monitor(~np.array(usual + then)).alarm
    assert expected is not None
    assert 1000 < expected.image < 1040
    assert f"Alarm after {expected.image} images: since about image {expected.since}" in said
    assert (BEGIN + timedelta(seconds=expected.image - 1)).isoformat() in said
    assert Path("rate.svg").read_text().startswith("<?xml")
    assert said.endswith("rate.svg\n")
    parts = write("b.csv", log[700:]), write("a.csv", log[:700])
    assert alarm(capsys, *parts).splitlines() == said.splitlines()[:-1], "ordered by time"
    assert "No alarm" in says(capsys, "monitor", "shapes", "--delta", "1e-300", "usual.csv")


def test_what_came_at_once_stays_in_its_order(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sorted by outcome as well, the rejected would all come first and raise an alarm."""
    rate = clf.calibration.rejected / clf.calibration.images
    at_once = rows(clf, drawn(rate, 1000), step=0)
    assert "No alarm" in says(capsys, "monitor", "shapes", write("log.csv", at_once))
    ordered = sorted(at_once, key=lambda row: row[2] != "rejected")
    assert "Alarm" in alarm(capsys, write("ordered.csv", ordered))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((3, 4, 0.25), "line 5 was decided with tau 0.25, and the classifier's is"),
        ((3, 4, "x"), "line 5: the time or tau cannot be read"),
        ((0, 0, "yesterday"), "line 2: the time or tau cannot be read"),
        ((0, 0, "2026-01-01T00:00:00"), "line 2: the time 2026-01-01T00:00:00 names no time zone"),
        (
            (1, 2, "cat"),
            "line 3: the label 'cat' is neither 'rejected' nor one of the classifier's 3",
        ),
        ((1, 1, "x" * 200_000), "field larger than field limit"),
    ],
)
def test_a_wrong_line_is_named(
    change: tuple[int, int, object],
    message: str,
    clf: ccat.Rejecting,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line, column, value = change
    log: list[list[object]] = [list(row) for row in rows(clf, [False] * 5)]
    log[line][column] = value
    path = write("log.csv", log)  # type: ignore[arg-type]
    assert message in says(capsys, "monitor", "shapes", path, error=True)


def test_logs_that_hold_nothing_are_refused(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*arguments: str) -> str:
        return says(capsys, "monitor", "shapes", *arguments, error=True)

    log = rows(clf, [False])
    assert "has no column tau" in wrong(write("a.csv", log, "time,picture,label,confidence,t"))
    assert "has no column time" in wrong(write("a.csv", [], ""))
    assert "has no decisions yet" in wrong(write("empty.csv", []))
    Path("nul.csv").write_bytes(b"\0" * 100)
    assert "nul.csv" in wrong("nul.csv")
    assert "there is no log none.csv" in wrong("none.csv")
    good = write("log.csv", log)
    assert "--plot writes .svg, .png, .pdf, not rate.txt" in wrong(good, "--plot", "rate.txt")
    assert "strictly between 0 and 1" in wrong(good, "--delta", "0")
    Path("log.csv").write_bytes(b"\xef\xbb\xbf" + Path("log.csv").read_bytes())
    assert "No alarm" in says(capsys, "monitor", "shapes", good), "as a spreadsheet saves it"


def test_a_threshold_that_was_given_has_no_rate(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    clf.at(ccat.Calibration(clf.tau)).save("given.safetensors")
    log = write("log.csv", rows(clf, [False]))
    assert "no rejection rate is known" in says(
        capsys, "monitor", "given.safetensors", log, error=True
    )
