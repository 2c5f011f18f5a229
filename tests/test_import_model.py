"""Models and data of one's own on the command line, whom they are trusted by, and what may change.

A name that is typed is trusted for that command; one that a run holds is somebody else's word.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from published_networks import their_lenet
from runs import says
from test_published import Flat
from torch import nn

from ccat import Images, extensions
from ccat.cli import main
from ccat.errors import UntrustedError
from ccat.models import ModelFileError, load_model
from ccat.pipeline.answers import model_of
from ccat.runs import Run
from ccat.threats import Linf, parse_threat

BRIGHT, STEEP = "test_import_model:bright", "test_import_model:steep"
IMPORT = ("import", "runs/b", "--model", BRIGHT, "--dataset", "mine.npz", "--unverified")
ATTACK = ("--suite", "demo", "--threat", "Linf:0.1", "--only", "apgd-conf zero*")
FEW = ("--examples", "75", "--workers", "1")

pytestmark = pytest.mark.filterwarnings("default:.*calibration images support a TPR")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with images of one's own; nothing is trusted yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(extensions, "_trusted", set())
    own(Path("mine.npz"))
    yield tmp_path
    model_of.cache_clear()


def new_process() -> None:
    """Forget what was trusted and loaded, as if the next command ran on another day."""
    extensions._trusted.clear()
    model_of.cache_clear()


def own(path: Path, shift: int = 0, count: int = 150) -> None:
    """Two classes of grey images, told apart by their brightness."""
    g = np.random.default_rng(shift)
    arrays = {}
    for split in ("train", "test"):
        labels = g.integers(0, 2, count)
        arrays[f"{split}_images"] = np.clip(
            100 * labels[:, None, None] + g.integers(0, 60, (count, 28, 28)) + shift, 0, 255
        ).astype(np.uint8)
        arrays[f"{split}_labels"] = labels
    np.savez(path, **arrays)


def bright() -> nn.Module:
    """Says 1 where an image is bright."""
    last = nn.Linear(784, 2)
    with torch.no_grad():
        last.weight.copy_(torch.stack([-torch.ones(784), torch.ones(784)]) / 784 * 20)
        last.bias.copy_(torch.tensor([6.0, -6.0]))
    return nn.Sequential(nn.Flatten(), last)


def steep() -> nn.Module:
    """Says the same, and is surer of it."""
    model = bright()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model


def colour() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 1, 3), nn.Flatten(), nn.LazyLinear(10))


def not_finite() -> nn.Module:
    model = bright()
    with torch.no_grad():
        model.get_parameter("1.bias").fill_(torch.inf)
    return model


class Noise(nn.Module):
    """Adds noise to logits, in evaluation mode as well."""

    loudness = 0.0

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits + self.loudness * torch.randn_like(logits)


def noisy() -> nn.Module:
    return nn.Sequential(bright(), Noise())


def test_a_randomised_model_is_neither_imported_nor_attacked(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "the model answers the same images differently each time"
    bring = [BRIGHT.replace("bright", "noisy") if one == BRIGHT else one for one in IMPORT]
    monkeypatch.setattr(Noise, "loudness", 5.0)
    assert f"test_import_model:noisy: {said}" in says(capsys, *bring, error=True)
    assert not (here / "runs/b").exists()
    monkeypatch.setattr(Noise, "loudness", 1e-7)
    main(bring)
    monkeypatch.setattr(Noise, "loudness", 5.0)
    found = says(capsys, "attack", "b", *FEW, *ATTACK, error=True)
    assert f"nothing was attacked: {said}" in found
    assert not (here / "runs/b/attempts").exists()


def test_a_model_of_ones_own_is_attacked_in_one_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = ("--dataset", "mine.npz", "--unverified")
    main(["attack", "--model", BRIGHT, *data, "--seen", "Linf:0.2", *FEW, *ATTACK])
    run = Run.open(Path("runs/bright"))
    assert (run.recipe.model, run.recipe.dataset) == (BRIGHT, "unverified:mine.npz")
    assert run.seen == (Linf(0.2),)
    shown = says(capsys, "evaluate", "bright", "--tpr", "0.9")
    assert re.search(r"\| bright +\|.*\d\*? ", shown)
    assert "Linf:0.1*" in shown, "training has seen a larger threat"
    again = says(capsys, "attack", "--model", BRIGHT, *FEW, *ATTACK)
    assert "0 blocks computed" in again
    assert f"holds {BRIGHT}, not test_published:Flat" in says(
        capsys, "attack", "bright", "--model", "test_published:Flat", error=True
    )
    main(["export", "bright", "--threat", "Linf:0.1", "--out", "worst.npz"])
    main(["score", "bright", "worst.npz", "--threat", "Linf:0.1", "--name", "again"])
    with np.load("worst.npz") as file:
        np.savez("few.npz", x_adv=file["x_adv"][:70])
        np.savez("far.npz", x_adv=1 - file["x_adv"])
    within = ("--threat", "Linf:0.1", "--name")
    assert "70 examples scored" in says(capsys, "score", "bright", "few.npz", *within, "few")

    assert "far went beyond Linf:0.1" in says(
        capsys, "score", "bright", "far.npz", *within, "far", error=True
    )


def test_what_is_typed_is_trusted_and_what_a_run_holds_is_not(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(list(IMPORT))
    main(["attack", "b", *FEW, *ATTACK])  # the process has been told
    x = torch.rand(3, 1, 28, 28)
    file = here / "runs/b/model.safetensors"
    with pytest.raises(
        ModelFileError,
        match=rf"needs {BRIGHT}, which is not part of ccat: load_model\(path, factory=",
    ):
        load_model(file)
    torch.testing.assert_close(load_model(file, factory=BRIGHT)(x), bright()(x))
    main(["export", "b", "--threat", "Linf:0.1", "--out", "worst.npz"])

    new_process()
    with pytest.raises(UntrustedError, match=rf"{BRIGHT} is code that is not part of ccat"):
        load_model(file, factory=BRIGHT)
    more = ("--suite", "demo", "--threat", "Linf:0.2", "--only", "apgd-conf zero*")
    score = ("score", "b", "worst.npz", "--threat", "Linf:0.1", "--name", "again")
    for command in (("attack", "b", *FEW, *more), score, ("analyse", "b", "--examples", "5")):
        refused = says(capsys, *command, error=True)
        assert f"{BRIGHT} is code that is not part of ccat" in refused
        assert str(Path(__file__)) in refused, "it says which file would be imported"
        assert "Pass --trust" in refused
    assert {one.record.name for one in Run.open(Path("runs/b")).attempts.all()} == {
        "APGD-Conf zero",
    }
    for shown in (["evaluate", "b", "--tpr", "0.9"], ["show", "b"], ["runs"]):
        says(capsys, *shown)  # what is stored is shown without running anybody's code
    assert not extensions.trusted()
    says(capsys, *score, "--trust")
    new_process()
    says(capsys, "attack", "b", *FEW, *more, "--trust")
    new_process()
    assert "0 blocks computed" in says(capsys, "attack", "b", "--model", BRIGHT, *FEW, *more), (
        "a name that is typed again is trusted again"
    )


def test_a_name_of_one_model_does_not_make_another_trusted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(list(IMPORT))
    new_process()
    other = ("--model", STEEP, "--dataset", "mine.npz", "--unverified")
    assert "holds a run of another recipe" in says(capsys, "import", "runs/b", *other, error=True)
    assert extensions.trusted() == {STEEP}
    assert f"{BRIGHT} is code" in says(capsys, "attack", "b", *FEW, *ATTACK, error=True)


def test_an_import_is_repeated_only_with_the_same_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(list(IMPORT))
    weights = Run.open(Path("runs/b")).weights
    assert "0.0 % of the first test images are wrong" in says(capsys, *IMPORT)
    torch.save(steep().state_dict(), "steep.pt")
    assert "holds other weights, or another normalisation" in says(
        capsys, *IMPORT, "--weights", "steep.pt", error=True
    )
    assert Run.open(Path("runs/b")).weights == weights


def test_data_that_changes_under_its_name_is_noticed_before_anything_is_computed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(list(IMPORT))
    main(["attack", "b", *FEW, *ATTACK])
    own(Path("mine.npz"), shift=9)
    changed = "is not the data that was attacked"
    assert changed in says(capsys, "attack", "b", *FEW, *ATTACK, error=True)
    assert changed in says(capsys, "evaluate", "b", "--tpr", "0.9", error=True)
    assert changed in says(
        capsys, "export", "b", "--threat", "Linf:0.1", "--out", "w.npz", error=True
    )
    assert not Path("w.npz").exists()


def test_a_threat_that_does_not_fit_leaves_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    main(list(IMPORT))
    assert "Frame" in says(capsys, "attack", "b", "--threat", "Frame:14", *FEW, error=True)
    assert not Path("runs/b/plan.json").exists()
    within = ("--threat", "Linf:0.3", "--threat", "Frame:2")
    partly = (*within, "--only", "*then apgd*", *FEW, "--suite", "quick")
    assert "no case of suite quick is called 'nothing'" in says(
        capsys, "attack", "b", *within, "--only", "nothing", error=True
    )
    assert "within L0:3 is called '*then apgd*'" in says(
        capsys, "attack", "b", "--threat", "L0:3", *partly, error=True
    )
    assert "which run?" in says(capsys, "attack", error=True)
    assert "on which images?" in says(capsys, "attack", "--model", BRIGHT, error=True)
    assert parse_threat("L0:5,per=entry")
    entries = ("--threat", "L0:5,per=entry", "--only", "*zero 2500", "--suite", "demo")
    main(["attack", "b", *entries, *FEW])
    assert [one.record.condition.title for one in Run.open(Path("runs/b")).attempts.all()] == [
        "L0:5,per=entry"
    ]


@pytest.mark.filterwarnings("default:.*guessing")
def test_published_weights_are_imported(
    capsys: pytest.CaptureFixture[str], mnist_test: Images
) -> None:
    theirs = their_lenet()
    with torch.no_grad():
        theirs.get_parameter("9.bias")[3] = 50.0  # always says 3
    torch.save(theirs.state_dict(), "w.pt")
    given = ("--model", "msd-lenet", "--weights", "w.pt", "--dataset", "mnist")
    wanted = ("import", "runs/theirs", *given)
    normalised = ("--mean", "0.1307", "--std", "0.3081")
    assert "belong together" in says(capsys, *wanted, "--mean", "0.1", error=True)
    main([*wanted, *normalised])
    warned = capsys.readouterr().err
    assert "wrong, about as many as by guessing: are --mean and --std missing?" in warned
    x = mnist_test[:4].floats()
    with torch.no_grad():
        expected = theirs((x - 0.1307) / 0.3081)
        torch.testing.assert_close(
            load_model("runs/theirs/model.safetensors")(x), expected, rtol=1e-4, atol=1e-5
        )
    main([*wanted, *normalised])  # the same once more
    other = "holds other weights, or another normalisation"
    assert other in says(capsys, *wanted, "--mean", "0.2", "--std", "0.3081", error=True)
    assert other in says(capsys, "attack", "runs/theirs", *given, error=True)
    assert "--weights belongs to a model of your own" in says(
        capsys, "attack", "runs/theirs", "--weights", "w.pt", error=True
    )
    assert "a number per channel" in says(capsys, *wanted, "--mean", "a", "--std", "b", error=True)


@pytest.mark.parametrize(
    ("model", "weights", "message"),
    [
        ("msd-lenet", Flat, "does not fit msd-lenet: it lacks"),
        ("msd-lenet", None, "msd-lenet has no weights of its own: name a weights file"),
        ("test_import_model:colour", None, "cannot take the images of mnist, 1x28x28"),
        ("test_import_model:not_finite", None, "labels must be below 2, the model's number"),
        ("test_import_model:nothing", None, "test_import_model:nothing cannot be imported"),
        ("wrong", None, "there is no model 'wrong'"),
        ("trades-cnn", "absent.pt", "there is no weights file absent.pt"),
    ],
)
def test_what_does_not_fit_is_not_imported(
    model: str,
    weights: type[nn.Module] | str | None,
    message: str,
    capsys: pytest.CaptureFixture[str],
    mnist_test: Images,
) -> None:
    options: tuple[str, ...] = ()
    if weights is not None:
        options = ("--weights", weights if isinstance(weights, str) else "w.pt")
    if isinstance(weights, type):
        torch.save(weights().state_dict(), "w.pt")
    refused = says(
        capsys, "import", "runs/no", "--model", model, *options, "--dataset", "mnist", error=True
    )
    assert message in refused
    assert not Path("runs/no").exists()


def test_logits_that_are_not_finite_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("import", "runs/no", "--model", "test_import_model:not_finite", *IMPORT[4:])
    assert "logits that are not finite" in says(capsys, *command, error=True)
    assert not Path("runs/no").exists()


def test_a_model_that_does_not_fit_the_labels_is_not_trained(
    capsys: pytest.CaptureFixture[str], mnist_train: Images
) -> None:
    train = ("train", "mnist-normal-demo", "--model", BRIGHT, "--run", "runs/no")
    assert "gives 2 logits per image, but there are 10" in says(capsys, *train, error=True)
    assert not Path("runs/no/model.safetensors").exists()


def test_mistakes_found_by_reading(capsys: pytest.CaptureFixture[str]) -> None:
    assert "augmentation is set by its fields: augmentation.padding" in says(
        capsys, "train", "mnist-ccat-small", "--augmentation", "4", error=True
    )
    assert "method.attack.gradient is set by its fields" in says(
        capsys, "train", "mnist-ccat-small", "--method.attack.gradient", "4", error=True
    )
