"""`ccat predict`: a line for each picture, whatever else lies beside it."""

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from classifiers import make_run, pixels, save_picture
from runs import says

import ccat
from ccat.cli import main


@pytest.fixture
def clf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ccat.Rejecting:
    """A run with twelve pictures beside it, some in folders below and some of other kinds."""
    monkeypatch.chdir(tmp_path)
    run = make_run(Path("runs/shapes"))
    for n, image in enumerate(pixels(12, 11)):
        save_picture(image, Path(f"pictures/{'below/' if n % 2 else ''}{n:02}.png"))
    Path("pictures/notes.txt").write_text("no picture")
    Path("pictures/.hidden.png").write_text("no picture")
    return ccat.load(run.path, tpr=0.5)


def test_lines_say_what_the_classifier_decides(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["predict", "shapes", "--tpr", "0.5"]
    lines = says(capsys, *command, "pictures").splitlines()
    files = sorted(Path("pictures").rglob("[0-9]*.png"))
    images = pixels(12, 11)
    decision = clf(images)
    assert len({*decision.labels.tolist()}) > 2, "the test can tell"
    assert len(lines) == 12
    for line, file in zip(lines, files, strict=True):
        name, label, confidence, *tau = line.split()
        number = int(file.stem)
        assert (name, label) == (str(file), clf.name(int(decision.labels[number])))
        assert float(confidence) == pytest.approx(decision.confidence[number].item(), abs=1e-5)
        assert tau == ["(τ", f"{clf.tau:.6f})"]
    assert len({line.index("(") for line in lines}) == 1, "aligned"

    before = datetime.now(UTC)
    table = list(csv.DictReader(io.StringIO(says(capsys, *command, "--format=csv", "pictures"))))
    objects = [
        json.loads(line)
        for line in says(capsys, *command, "--format=json", "pictures").splitlines()
    ]
    assert list(table[0]) == ["time", "picture", "label", "confidence", "tau"]
    for row, one in zip(table, objects, strict=True):
        assert one["picture"] == row["picture"]
        assert (one["label"], one["tau"]) == (row["label"], float(row["tau"]))
        assert one["tau"] == clf.tau, "exactly, for `ccat monitor`"
        assert datetime.fromisoformat(row["time"]) <= datetime.fromisoformat(one["time"])
        assert abs((datetime.fromisoformat(row["time"]) - before).total_seconds()) < 60


def test_a_wrong_file_does_not_stop_the_others(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    content = Path("pictures/00.png").read_bytes()
    Path("pictures/04.png").write_bytes(content[: len(content) // 2])
    Path("none").mkdir()
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["predict", "shapes", "pictures", "gone.png", "pictures/notes.txt", "none"])
    assert end.value.code == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 11
    errors = said.err.splitlines()
    assert len(errors) == 4
    for part in (
        "none holds no pictures",
        "pictures/04.png is damaged",
        "there is no file gone.png",
    ):
        assert sum(part in line for line in errors) == 1, said.err
    assert "pictures/notes.txt is damaged or not an image" in said.err


def test_a_stored_classifier_decides_as_its_run(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    clf.save("shapes.safetensors")
    by_run = says(capsys, "predict", "shapes", "--tpr", "0.5", "pictures")
    assert says(capsys, "predict", "shapes.safetensors", "pictures") == by_run
    assert says(capsys, "predict", "runs/shapes", "--tpr", "0.5", "pictures") == by_run
    assert "holds one threshold" in says(
        capsys, "predict", "shapes.safetensors", "--tpr", "0.5", "pictures", error=True
    )
    accepted = says(capsys, "predict", "shapes", "--tau", "0", "pictures")
    assert "rejected" not in accepted


def test_mistakes_are_answered_with_a_sentence(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*arguments: str) -> str:
        return says(capsys, "predict", *arguments, error=True)

    assert "there is no run 'shape'; did you mean shapes?" in wrong("shape", "pictures")
    for tau in ("1.5", "-0.1", "none"):
        said = wrong("shapes", f"--tau={tau}", "pictures")
        assert "tau must be a number at least 0 and at most 1" in said
    assert "not allowed with" in wrong("shapes", "--tau", "0.5", "--tpr", "0.9", "pictures")
    assert "required: PICTURE" in wrong("shapes")
    ccat.save_model(clf.model, "model.safetensors")
    assert "model without a threshold" in wrong("model.safetensors", "pictures")
    assert "is damaged or not a safetensors file" in wrong("pictures/notes.txt", "pictures")


def test_progress_is_shown_on_many(
    clf: ccat.Rejecting, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ccat.cli.commands.predict._MANY", 10)
    monkeypatch.setattr("ccat.cli.commands.predict._BATCH", 5)
    capsys.readouterr()
    main(["predict", "shapes", "--tpr", "0.5", "pictures"])
    said = capsys.readouterr()
    assert "12 of 12 pictures" in said.err
    assert len(said.out.splitlines()) == 12
