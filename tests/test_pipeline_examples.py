"""Adversarial examples go out as they are counted, and come in from elsewhere."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from runs import says, table
from safetensors.torch import load_file

from ccat import PGD, SUITES, Case, Images, Linf, Suite
from ccat.runs import Run

ATTACK = ("attack", "tiny", "--suite", "tiny", "--workers", "1")
EXPORT = ("export", "tiny", "--threat", "Linf:0.2", "--out")


def test_perturbations_that_were_not_kept_are_computed_when_they_are_wanted(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*ATTACK, "--examples", "100"]
    export = [*EXPORT, "x.npz"]
    assert "was not attacked within Linf:0.2" in says(capsys, *export, error=True)
    assert "6 blocks computed" in says(capsys, *arguments, "--keep", "none")
    assert not (trained.path / "worst").exists()
    assert "has not kept all perturbations within Linf:0.2" in says(capsys, *export, error=True)
    assert "6 blocks computed" in says(capsys, *arguments)
    assert "100 adversarial examples" in says(capsys, *export)
    (kept,) = trained.path.glob("worst/test-Linf-0.2/*/0000.safetensors")
    kept.unlink()
    assert "has not kept all" in says(capsys, *export, error=True)
    assert "1 blocks computed" in says(capsys, *arguments)
    assert "100 adversarial examples" in says(capsys, *export)


def test_what_is_exported_is_what_is_counted(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst of a larger ball includes that of the smaller one, in both."""
    strong = Case("strong", Linf(0.2), PGD(20, 0.1))
    weak = Case("weak", Linf(64 / 255), PGD(1, 1e-6))
    monkeypatch.setitem(SUITES, "both", Suite((strong, weak)))
    says(capsys, "attack", "tiny", "--suite", "both", "--examples", "100", "--workers", "1")
    shown = table(says(capsys, "evaluate", "tiny", "--tau", "none"))
    assert shown["Linf:0.2"].strip("*‡") == shown["Linf:64/255"].strip("*‡")
    says(capsys, "export", "tiny", "--threat", "Linf:64/255", "--out", "x.npz")
    arrays = np.load("x.npz")
    clean = load_file(trained.path / "clean.safetensors")["probabilities"][:100].argmax(1).numpy()
    y, prediction = arrays["y"], arrays["prediction"]
    errors = (prediction != y) | (clean != y)
    assert shown["Linf:64/255"].strip("*‡") == f"{100 * errors.mean():.1f}"
    by_strong, by_weak = (
        next(
            torch.cat([block.probabilities for block in stored.blocks]).numpy()
            for stored in trained.attempts.all()
            if stored.record.name == name
        )
        for name in ("strong", "weak")
    )
    both = np.stack([by_strong, by_weak])
    wrong = both.argmax(2) != y
    score = np.where(wrong, both.max(2), -np.inf)
    found, worst = wrong.any(0), score.argmax(0)
    rows = np.arange(100)
    assert found.any()
    assert np.array_equal(prediction[found], both.argmax(2)[worst, rows][found])
    assert np.array_equal(arrays["score"][found], score.max(0)[found])


def test_where_no_attempt_is_wrong_the_image_itself_is_exported(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, *ATTACK, "--examples", "100")
    says(capsys, *EXPORT, "x.npz")
    arrays = np.load("x.npz")
    clean = load_file(trained.path / "clean.safetensors")["probabilities"][:100]
    attempts = [
        stored.blocks[0].probabilities.argmax(1).numpy()
        for stored in trained.attempts.all()
        if stored.record.condition.title in ("Linf:0.1", "Linf:0.2")
    ]
    nobody = np.all([answers == arrays["y"] for answers in attempts], axis=0)
    changed = np.abs(arrays["x_adv"] - arrays["x"]).max((1, 2, 3)) > 0
    assert nobody.any()
    assert not changed[nobody].any()
    assert changed[~nobody].all()
    assert np.array_equal(arrays["prediction"][nobody], clean.argmax(1).numpy()[nobody])
    assert np.array_equal(arrays["score"][nobody], clean.amax(1).double().numpy()[nobody])
    assert (arrays["prediction"] != arrays["y"])[~nobody].all()


def test_examples_go_out_and_come_in(
    trained: Run, mnist_test: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, *ATTACK, "--examples", "200")
    assert "200 adversarial examples" in says(capsys, *EXPORT, "deep/er/worst.npz")
    arrays = np.load("deep/er/worst.npz")
    assert np.array_equal(arrays["x"], mnist_test[:200].floats().numpy())
    assert np.array_equal(arrays["y"], mnist_test[:200].y.numpy())
    assert np.abs(arrays["x_adv"] - arrays["x"]).max() <= 0.2 + 1e-6
    model = trained.training.model()
    probabilities = model(torch.from_numpy(arrays["x_adv"])).softmax(1).max(1)
    assert np.array_equal(probabilities.indices.numpy(), arrays["prediction"])
    np.testing.assert_allclose(probabilities.values.detach().numpy(), arrays["score"], atol=1e-4)

    before = table(says(capsys, "evaluate", "tiny", "--tpr", "0.9"))
    score = ("score", "tiny", "deep/er/worst.npz", "--threat", "Linf:0.2", "--name", "again")
    assert "200 examples scored within Linf:0.2" in says(capsys, *score)
    after = table(says(capsys, "evaluate", "tiny", "--tpr", "0.9"))
    assert after == before, "what was found already changes nothing"
    assert "again" in says(capsys, "show", "tiny")
    strong = np.where(arrays["x"] > 0.5, 0.0, 1.0)  # negatives, far outside the ball
    np.savez("negatives.npz", x_adv=strong)
    far = ("score", "tiny", "negatives.npz", "--threat", "Linf:0.2", "--name", "negatives")
    assert "negatives went beyond Linf:0.2: to 1, first in example 0; 200 in all" in says(
        capsys, *far, error=True
    )
    assert "negatives" not in says(capsys, "show", "tiny")
    np.savez("bytes.npz", x_adv=mnist_test.x[:100].numpy())
    assert "100 examples scored" in says(
        capsys, "score", "tiny", "bytes.npz", "--threat", "Linf:0.2", "--name", "clean"
    )


def test_examples_go_out_as_pictures(
    trained: Run, mnist_test: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, *ATTACK, "--examples", "100")
    says(capsys, *EXPORT, "pictures")
    assert "not empty" in says(capsys, *EXPORT, "pictures", error=True)
    assert "without an ending" in says(capsys, *EXPORT, "x.csv", error=True)
    assert len(list(Path("pictures").iterdir())) == 200
    (original,) = Path("pictures").glob("0007-is-*.png")
    assert np.array_equal(np.asarray(Image.open(original)), mnist_test.x[7, 0].numpy())
