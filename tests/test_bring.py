"""Models and data of one's own on the command line, and what may change under a run."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from test_published import Flat, their_lenet

from ccat import Images
from ccat.cli import main
from ccat.models import ModelFileError, load_model
from ccat.recipes import parse_threat
from ccat.store import Run


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def own(path: Path, shift: int = 0, count: int = 150) -> None:
    """Two classes of grey images, told apart by their brightness."""
    g = np.random.default_rng(shift)
    arrays = {}
    for split in ("train", "test"):
        labels = g.integers(0, 2, count)
        arrays[f"{split}_images"] = np.clip(100 * labels[:, None, None] + g.integers(0, 60, (count, 28, 28)) + shift, 0, 255).astype(
            np.uint8
        )
        arrays[f"{split}_labels"] = labels
    np.savez(path, **arrays)


def bright() -> torch.nn.Module:
    """Says 1 where an image is bright."""
    last = torch.nn.Linear(784, 2)
    with torch.no_grad():
        last.weight.copy_(torch.stack([-torch.ones(784), torch.ones(784)]) / 784 * 20)
        last.bias.copy_(torch.tensor([6.0, -6.0]))
    return torch.nn.Sequential(torch.nn.Flatten(), last)


THREAT = ("--suite", "demo", "--threat", "Linf:0.1", "--only", "pgd-conf zero*")


def test_a_model_of_ones_own_is_attacked_in_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own(Path("mine.npz"))
    data = ("--dataset", "mine.npz", "--unverified")
    main(["attack", "--model", "test_bring:bright", *data, "--seen", "Linf:0.2", "--examples", "75", "--workers", "1", *THREAT])
    run = Run.open(Path("runs/bright"))
    assert (run.recipe.model, run.recipe.dataset) == ("test_bring:bright", "unverified:mine.npz")
    x = torch.rand(3, 1, 28, 28)
    with pytest.raises(ModelFileError, match=r"is made by test_bring:bright, which is code of your own: load_model\(path, factory="):
        load_model("runs/bright/model.safetensors")
    torch.testing.assert_close(load_model("runs/bright/model.safetensors", factory="test_bring:bright")(x), bright()(x))
    main(["evaluate", "bright", "--tpr", "0.9"])
    assert re.search(r"\| bright +\|.*\d\*? ", capsys.readouterr().out)
    main(["attack", "--model", "test_bring:bright", "--examples", "75", *THREAT])
    assert "0 blocks computed" in capsys.readouterr().out
    assert "holds test_bring:bright, not test_published:Flat" in fails(capsys, "attack", "bright", "--model", "test_published:Flat")
    main(["export", "bright", "--threat", "Linf:0.1", "--out", "worst.npz"])
    main(["score", "bright", "worst.npz", "--threat", "Linf:0.1", "--name", "again"])
    with np.load("worst.npz") as file:
        np.savez("few.npz", x_adv=file["x_adv"][:70])
        np.savez("far.npz", x_adv=1 - file["x_adv"])
    assert "hundreds of them or all 75" in fails(capsys, "score", "bright", "few.npz", "--threat", "Linf:0.1", "--name", "few")
    assert "far went beyond Linf:0.1" in fails(capsys, "score", "bright", "far.npz", "--threat", "Linf:0.1", "--name", "far")


def test_data_that_changes_under_its_name_is_noticed_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own(Path("mine.npz"))
    main(["import", "runs/b", "--model", "test_bring:bright", "--dataset", "mine.npz", "--unverified"])
    main(["attack", "b", "--examples", "75", "--workers", "1", *THREAT])
    own(Path("mine.npz"), shift=9)
    assert "is not the data that was attacked" in fails(capsys, "attack", "b", "--examples", "75", *THREAT)
    assert "is not the data that was attacked" in fails(capsys, "evaluate", "b", "--tpr", "0.9")
    assert "was not attacked within Linf:0.1" in fails(capsys, "export", "b", "--threat", "Linf:0.1", "--out", "w.npz")


def test_a_threat_that_does_not_fit_leaves_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own(Path("mine.npz"))
    main(["import", "runs/b", "--model", "test_bring:bright", "--dataset", "mine.npz", "--unverified"])
    capsys.readouterr()
    assert "Frame" in fails(capsys, "attack", "b", "--threat", "Frame:14", "--examples", "75")
    assert not Path("runs/b/plan.json").exists()
    partly = ("--threat", "Linf:0.3", "--threat", "Frame:2", "--only", "*then apgd*", "--examples", "75", "--suite", "demo")
    assert "no case of suite quick is called 'nothing'" in fails(capsys, "attack", "b", *partly[:4], "--only", "nothing")
    assert "within L0:3 is called '*then apgd*'" in fails(capsys, "attack", "b", "--threat", "L0:3", *partly)
    assert "which run?" in fails(capsys, "attack")
    assert "on which images?" in fails(capsys, "attack", "--model", "test_bring:bright")
    assert parse_threat("L0:5/entry")
    main(["attack", "b", "--threat", "L0:5/entry", "--only", "*zero 2500", "--suite", "demo", "--examples", "75", "--workers", "1"])


@pytest.mark.filterwarnings("default:.*guessing")
def test_published_weights_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mnist_test: Images
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs = their_lenet()
    with torch.no_grad():
        theirs.get_parameter("9.bias")[3] = 50.0  # always says 3
    torch.save(theirs.state_dict(), "w.pt")
    wanted = ["import", "runs/theirs", "--model", "msd-lenet", "--weights", "w.pt", "--dataset", "mnist"]
    assert "belong together" in fails(capsys, *wanted, "--mean", "0.1")
    main([*wanted, "--mean", "0.1307", "--std", "0.3081"])
    assert "about what guessing gives: is a --mean and --std missing?" in capsys.readouterr().err
    x = mnist_test[:4].floats()
    with torch.no_grad():
        expected = theirs((x - 0.1307) / 0.3081)
        torch.testing.assert_close(load_model("runs/theirs/model.safetensors")(x), expected, rtol=1e-4, atol=1e-5)
    main([*wanted, "--mean", "0.1307", "--std", "0.3081"])  # the same once more
    assert "holds other weights, or another normalisation" in fails(capsys, *wanted, "--mean", "0.2", "--std", "0.3081")
    again = ["attack", "runs/theirs", "--model", "msd-lenet", "--weights", "w.pt", "--dataset", "mnist"]
    assert "holds other weights, or another normalisation" in fails(capsys, *again)
    assert "--weights belongs to a model of your own" in fails(capsys, "attack", "runs/theirs", "--weights", "w.pt")
    assert "a number per channel" in fails(capsys, *wanted, "--mean", "a", "--std", "b")
    assert "does not fit msd-lenet: it lacks" in fails(
        capsys, *wanted[:1], "runs/no", "--model", "msd-lenet", *FLAT(), "--dataset", "mnist"
    )
    assert "cannot take the images of" in fails(capsys, "import", "runs/no", "--model", "test_bring:colour", "--dataset", "mnist")
    assert not Path("runs/no").exists()
    assert "cannot be trained here" in fails(capsys, "train", "mnist-normal-demo", "--model", "test_bring:bright")


def FLAT() -> tuple[str, str]:  # noqa: N802
    torch.save(Flat().state_dict(), "flat.pt")
    return "--weights", "flat.pt"


def colour() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 1, 3), torch.nn.Flatten(), torch.nn.LazyLinear(10))


def test_mistakes_found_by_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert "augmentation is set by its fields: augmentation.padding" in fails(capsys, "train", "mnist-ccat-small", "--augmentation", "4")
    assert "method.attack.gradient is set by its fields" in fails(capsys, "train", "mnist-ccat-small", "--method.attack.gradient", "4")
