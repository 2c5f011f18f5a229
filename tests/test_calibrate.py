"""`ccat calibrate` and `ccat.load` of runs: thresholds are chosen, stored, and outlive the data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from classifiers import CLASSES, labelled, make_run, pixels, save_picture
from runs import says
from scipy import stats

import ccat
from ccat import DataUnavailableError, Detection
from ccat.cli import main
from ccat.errors import PipelineError
from ccat.rejection import Calibration
from ccat.runs import Run, RunError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return make_run(Path("runs/shapes"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that cannot do what was asked: exit code 1."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code == 1
    return capsys.readouterr().out


def test_the_threshold_of_a_rate_is_stored_and_counted(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    said = says(capsys, "calibrate", "shapes", "--tpr", "0.9")
    clf = ccat.load("runs/shapes")
    x, y = labelled(1500, 4)
    order = ccat.data.load_own("runs/data.npz", "test")
    assert len(order) == len(x)
    x, y = order.x[-750:], order.y[-750:]
    chances = clf.predict_proba(x)
    right = chances.argmax(1) == y.numpy()
    confidence = np.sort(chances.max(1)[right])
    expected = confidence[len(confidence) - int(np.ceil(0.9 * len(confidence)))]
    assert clf.tau == pytest.approx(expected, abs=1e-9)
    labels = clf.predict(x)
    chosen = clf.calibration
    wrong = int(((labels != y.numpy()) & (labels != -1)).sum())
    assert (chosen.images, chosen.rejected, chosen.wrong) == (750, int((labels == -1).sum()), wrong)
    assert chosen.coverage == pytest.approx((labels != -1).mean())
    assert f"keeps 0.9 of correct answers; {chosen.rejected} of 750 calibration images" in said
    assert "not for attacked ones" in said
    assert "Stored in runs/shapes" in said


def test_a_risk_is_promised_or_nothing_is_stored(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "calibrate", "shapes", "--risk", "0.0001")
    assert "0.01 % risk at 95 % confidence needs at least 29956 accepted images" in said
    assert said.endswith("Nothing was stored.\n")
    assert run.classifier.read() is None
    said = says(capsys, "calibrate", "shapes", "--risk", "0.05", "--confidence", "0.9")
    chosen = ccat.load("runs/shapes").calibration
    accepted = chosen.images - chosen.rejected
    assert "promises that at most 0.05 of accepted answers are wrong, with confidence 0.9" in said
    assert stats.binom.cdf(chosen.wrong, accepted, 0.05) <= 0.1
    assert chosen.wrong > 0
    refused(capsys, "calibrate", "shapes", "--risk", "0.0001")
    assert ccat.load("runs/shapes").calibration == chosen, "what was stored stays"
    assert "belongs to --risk" in says(
        capsys, "calibrate", "shapes", "--confidence", "0.9", error=True
    )
    for wrong in (("--tpr", "1"), ("--risk", "0"), ("--risk", "0.1", "--tpr", "0.9")):
        assert "error: " in says(capsys, "calibrate", "shapes", *wrong, error=True)


def test_a_risk_that_is_kept_without_rejection_is_said(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    said = says(capsys, "calibrate", "shapes", "--risk", "0.99")
    assert ccat.load("runs/shapes").calibration.rejected == 0
    assert "It rejects none of them" in said
    assert "It rejects none" not in says(capsys, "calibrate", "shapes", "--tpr", "0.9")


def test_images_of_ones_own_choose_it(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = labelled(90, 9)
    np.savez("more.npz", images=x[:, 0].numpy(), labels=y.numpy())
    for n, (image, label) in enumerate(zip(x, y.tolist(), strict=True)):
        save_picture(image, Path(f"more/{label}/{n:03}.png"))
    says(capsys, "calibrate", "shapes", "--tpr", "0.97", "--on", "more.npz")
    by_arrays = run.classifier.read()
    says(capsys, "calibrate", "shapes", "--tpr", "0.97", "--on", "more")
    by_pictures = run.classifier.read()
    assert by_arrays is not None
    assert by_pictures is not None
    assert by_pictures.chosen.images == 90
    for one, other in zip(
        (by_arrays.chosen, *by_arrays.others),
        (by_pictures.chosen, *by_pictures.others),
        strict=True,
    ):
        assert one.tau == pytest.approx(other.tau, abs=1e-6), "the same images in another order"
    assert [one.level for one in by_pictures.others] == [0.98, 0.95], "90 are too few for 99 %"
    assert ccat.load("runs/shapes", tpr=0.95).calibration.images == 90

    save_picture(x[0], Path("more/cat/1.png"))
    assert "more has a folder 'cat', which is no class of the classifier: it knows 0, 1, 2" in says(
        capsys, "calibrate", "shapes", "--on", "more", error=True
    )
    for name, arrays, message in (
        ("high", {"images": x.numpy(), "labels": y.numpy() + 1}, "labels reach 3, but"),
        ("wide", {"images": x[..., :7].numpy(), "labels": y.numpy()}, "not (1, 8, 8)"),
        ("bare", {"images": x.numpy()}, "has no array labels"),
        ("real", {"images": x.numpy() / 255, "labels": y.numpy()}, "must be bytes"),
    ):
        np.savez(f"{name}.npz", **arrays)  # type: ignore[arg-type]
        said = says(capsys, "calibrate", "shapes", "--on", f"{name}.npz", error=True)
        assert message in said
    Path("empty").mkdir()
    assert "has no pictures in folders named 0, 1, 2" in says(
        capsys, "calibrate", "shapes", "--on", "empty", error=True
    )
    assert "neither a folder" in says(capsys, "calibrate", "shapes", "--on", "none", error=True)
    (tmp_path / "more/1/000.png").write_bytes(b"no picture")
    (tmp_path / "more/cat/1.png").unlink()
    (tmp_path / "more/cat").rmdir()
    assert "more/1/000.png is damaged or not an image" in says(
        capsys, "calibrate", "shapes", "--on", "more", error=True
    )
    assert run.classifier.read() == by_pictures, "mistakes change nothing"


def test_too_few_images_are_said_with_what_they_support(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = labelled(40, 9)
    np.savez("few.npz", images=x.numpy(), labels=y.numpy())
    said = says(capsys, "calibrate", "shapes", "--on", "few.npz", error=True)
    assert "a TPR of 0.99 needs at least 100 correctly classified" in said
    assert "--tpr 0.97" in said
    assert run.classifier.read() is None


def test_a_run_is_loaded_with_the_threshold_that_was_asked_for(run: Run) -> None:
    plain = ccat.load(run.path)
    assert (plain.calibration.chosen, plain.calibration.level) == ("tpr", 0.99)
    assert plain.classes == ("0", "1", "2")
    assert run.classifier.read() is None, "loading stores nothing"
    lower = ccat.load(run.path, tpr=0.8)
    assert lower.tau > plain.tau
    assert lower.calibration.level == 0.8
    assert ccat.load(run.path, tau=0.7).calibration == ccat.Calibration(0.7)
    with pytest.raises(PipelineError, match="by its TPR or give tau, not both"):
        ccat.load(run.path, tpr=0.9, tau=0.5)
    for tau in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="tau must be a number at least 0 and at most 1"):
            ccat.load(run.path, tau=tau)
    with pytest.raises(RunError, match="there is no run at runs/other"):
        ccat.load("runs/other")


def test_thresholds_outlive_the_data(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    says(capsys, "calibrate", "shapes", "--tpr", "0.9")
    x = pixels(100, 10)
    before = {tpr: ccat.load(run.path, tpr=tpr).predict(x) for tpr in (None, 0.98, 0.95)}
    assert (before[0.98] != before[0.95]).any()
    Path("runs/data.npz").unlink()
    for tpr, labels in before.items():
        assert (ccat.load(run.path, tpr=tpr).predict(x) == labels).all()
    assert -1 in ccat.load(run.path, tau=0.9).predict(x)
    with pytest.raises((ValueError, DataUnavailableError), match=r"data\.npz"):
        ccat.load(run.path, tpr=0.7)


@pytest.mark.parametrize("asked", [("--tpr", "0.9"), ("--risk", "0.05", "--confidence", "0.9")])
def test_a_threshold_that_does_not_follow_from_the_calibration_images_is_refused(
    asked: tuple[str, ...], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, "calibrate", "shapes", *asked)
    stored = run.classifier.read()
    assert stored is not None
    assert "every file is as it was written" in says(capsys, "verify", "shapes")
    chosen = stored.chosen
    for change, message in (
        ({"tau": chosen.tau * 0.99}, f"follows τ = {chosen.tau:.6g}: `ccat calibrate"),
        ({"rejected": chosen.rejected + 5}, f"images {chosen.rejected} are rejected"),
        ({"images": chosen.images + 1}, f"of the {chosen.images} calibration images"),
    ):
        run.classifier.save(replace(stored, chosen=replace(chosen, **change)))
        assert message in says(capsys, "verify", "shapes", error=True)
    other = replace(stored.others[-1], tau=0.123)
    run.classifier.save(replace(stored, others=(other,)))
    assert "τ = 0.123 keeps" in says(capsys, "verify", "shapes", error=True)
    run.classifier.save(replace(stored, chosen=Calibration(0.123)))
    assert "every file" in says(capsys, "verify", "shapes"), "given, and following from nothing"
    run.classifier.save(replace(stored, chosen=replace(chosen, tau=0.123), elsewhere=True))
    assert "every file" in says(capsys, "verify", "shapes"), "images from elsewhere chose it"


def test_a_damaged_file_of_thresholds_is_named(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, "calibrate", "shapes")
    file = run.path / "classifier.json"
    file.write_text(file.read_text().replace('"rejected": ', '"rejected": 1'))
    with pytest.raises(RunError, match=r"classifier.json is damaged .*`ccat calibrate` makes it"):
        ccat.load(run.path)
    assert "classifier.json is damaged" in says(capsys, "verify", "shapes", error=True)
    file.unlink()
    says(capsys, "calibrate", "shapes")
    stored = run.classifier.read()
    assert stored is not None
    with torch.no_grad():
        model = run.training.model()
        next(model.parameters()).mul_(1.5)
    run.training.save_model(model)
    again = Run.open(run.path)
    assert again.classifier.read() is None, (
        "thresholds are those of the weights they were chosen for"
    )


def test_a_detector_rejects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(Path("runs/guarded"), Detection("mahalanobis"))
    assert "rejects by a detector, whose scores have no scale" in says(
        capsys, "calibrate", "guarded", "--risk", "0.05", error=True
    )
    says(capsys, "calibrate", "guarded", "--tpr", "0.9")
    clf = ccat.load("runs/guarded")
    assert clf.rejection == run.rejection
    x = pixels(400, 10)
    dark = (x * 0.3).to(torch.uint8)
    shares = [(clf.predict(images) == -1).mean() for images in (x, dark)]
    assert shares[0] < 0.25
    assert shares[1] > 0.9, "what it was fitted to tell apart"
    assert set(clf.predict(x).tolist()) <= {-1, *range(CLASSES)}
    said = says(capsys, "predict", "guarded", str(save_picture(dark[0], tmp_path / "dark.png")))
    assert "rejected" in said
    assert f"(τ of mahalanobis {clf.tau:.6f})" in said
