"""Ninety pictures, and a network of one's own: the commands of the README as a user types them."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shapes import CLASSES, draw_folder
from synthetic import run_outcomes

from ccat import extensions
from ccat.catalog import RECIPES
from ccat.cli import main
from ccat.cli.commands.train import with_fields
from ccat.cli.tabulate import supported_tpr
from ccat.pipeline.few_images import LEAST_STEPS, fitted
from ccat.runs import Run

SMALL = ["--probe.attack.iterations", "1"]
ONLY = ["--only", "apgd-conf zero*", "--no-check", "--workers", "1"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(extensions, "_trusted", set())
    draw_folder(tmp_path / "photos")
    return tmp_path


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    return capsys.readouterr().err


# ---- few images


@pytest.mark.filterwarnings("default:.*support a TPR")
def test_ninety_pictures_are_trained_on_attacked_and_shown_by_class(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a third of the steps, which takes a third of the time."""
    monkeypatch.setattr("ccat.pipeline.few_images.LEAST_STEPS", 300)
    train = ["train", "cifar10-normal-small", "--dataset", "photos@16", "--unverified", *SMALL]
    main([*train, "--run", "runs/photos"])
    told = capsys.readouterr().err
    assert told.count("converted 45 of 90 pictures: 15 RGBA, 15 grey, 15 palette\n") == 1
    assert "training on 58 images (circle 20, square 19, triangle 19); 14 others" in told
    assert "would be 20 steps of training, so it takes 100 epochs in batches of 16" in told
    assert Run.open(Path("runs/photos")).recipe.epochs == 100
    main([*train, "--run", "runs/photos"])
    assert "runs/photos is already trained" in capsys.readouterr().out
    main(["attack", "photos", "--threat", "Linf:8/255", *ONLY])
    capsys.readouterr()
    main(["evaluate", "photos"])
    shown = capsys.readouterr()
    (correct, most) = re.findall(r"has (\d+) correct.* at most ([\d.]+):", shown.err)[0]
    assert float(most) == int(1000 * (1 - 1 / int(correct))) / 1000
    assert f"at {100 * float(most):g} % TPR" in shown.out
    rows = re.findall(r"\| photos +\| (\w+) +\|.*\| +3 \|", shown.out)
    assert rows == list(CLASSES)
    stored = json.loads(Path("runs/photos/evaluation.json").read_text())
    (clean,) = stored["evaluations"]
    assert [one["label"] for one in clean["classes"]] == list(CLASSES)
    assert clean["without_rejection"]["error"] < 0.5, "far better than guessing"
    assert "a TPR of 0.99 needs at least 100" in fails(
        capsys, "evaluate", "photos", "--tpr", "0.99"
    )
    main(["report", "photos"])
    page = Path("report/index.html").read_text()
    assert all(f"<td>{name}</td>" in page for name in CLASSES)


def test_only_few_images_change_a_recipe_and_nothing_that_was_typed(here: Path) -> None:
    photos = ["--dataset", "photos@16"]
    small = with_fields(RECIPES["cifar10-ccat-small"], photos, unverified=True)
    recipe, told = fitted(small, {"dataset"})
    assert (recipe.batch, recipe.epochs, recipe.monitor) == (16, 334, 14)
    assert recipe.epochs * (58 // 16) >= LEAST_STEPS > (recipe.epochs - 1) * (58 // 16)
    assert told.startswith("few images: 20 epochs in batches of 100 would be 20 steps")
    for typed in ("epochs", "batch"):
        recipe, told = fitted(small, {typed})
        assert (recipe.batch, recipe.epochs, told) == (100, 20, "")
    demo = with_fields(RECIPES["mnist-normal-demo"], photos, unverified=True)
    assert fitted(demo, set())[0].images is None
    long = with_fields(RECIPES["cifar10-ccat"], photos, unverified=True)
    assert fitted(long, set())[0].epochs == 200, "its rate falls with every epoch"
    known = RECIPES["cifar10-ccat-small"]
    assert fitted(known, set()) == (known, "")
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        f"{split}_images": rng.integers(0, 256, (6000, 4, 4), dtype=np.uint8)
        for split in ("train", "test")
    }
    arrays |= {f"{split}_labels": np.arange(6000) % 3 for split in ("train", "test")}
    np.savez("many.npz", **arrays)
    many = with_fields(small, ["--dataset", "many.npz"], unverified=True)
    assert fitted(many, set()) == (many, "")


def test_few_calibration_images_choose_the_highest_tpr_that_all_runs_support() -> None:
    many = run_outcomes()
    assert supported_tpr([many], None) == 0.99
    few = run_outcomes()
    object.__setattr__(few, "calibration", few.calibration[:20])
    correct = int((~few.calibration.wrong).sum())
    with pytest.warns(UserWarning, match=f"has {correct} correctly classified calibration images"):
        found = supported_tpr([many, few], None)
    assert found == int(1000 * (1 - 1 / correct)) / 1000
    assert supported_tpr([few], 0.99) == 0.99, "what was asked for is not changed"
    object.__setattr__(few, "calibration", few.calibration[:1])
    with pytest.raises(ValueError, match=r"too few to choose a threshold.* --tau none"):
        supported_tpr([few], None)


# ---- a network of one's own

NETS = """
import torch
from torch import nn
from ccat import Normalised


class Block(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, 2 * width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(2 * width)
        self.act = nn.SiLU(inplace=True)
        self.conv2 = nn.Conv2d(2 * width, 2 * width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.downsample = nn.Sequential(nn.Conv2d(width, 2 * width, 1, stride, bias=False))

    def forward(self, x):
        out = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
        return self.act(out + self.downsample(x))


class SmallResNet(nn.Module):
    def __init__(self, num_classes=1000, in_chans=3, drop_rate=0.0):
        super().__init__()
        self.num_classes = num_classes
        self.stem = nn.Conv2d(in_chans, 4, 3, padding=1)
        self.layers = nn.Sequential(Block(4, 2), Block(8, 2))
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout(drop_rate)
        self.fc = nn.Linear(16, num_classes)

    def forward_features(self, x):
        return self.layers(self.stem(x))

    def forward(self, x):
        return self.fc(self.drop(torch.flatten(self.global_pool(self.forward_features(x)), 1)))


def small_resnet(num_classes=1000, in_chans=3):
    net = SmallResNet(num_classes, in_chans, drop_rate=0.1)
    return Normalised(net, [0.5] * in_chans, [0.25] * in_chans)


def thousand(channels):
    return SmallResNet(in_chans=channels)


def two(channels):
    return SmallResNet(2, channels)


def wrong_channels(classes):
    return SmallResNet(classes, 5)


def features(classes):
    return nn.Conv2d(3, classes, 3)
"""


@pytest.fixture
def nets(here: Path) -> Path:
    (here / "mynets").mkdir()
    (here / "mynets/__init__.py").write_text("")
    (here / "mynets/nets.py").write_text(NETS)
    return here


def forget() -> None:
    """As in a new process: nothing is trusted, nothing imported."""
    extensions._trusted.clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "mynets"]:
        del sys.modules[name]


TRAIN = ["train", "cifar10-ccat-small", "--dataset", "photos@16", "--unverified", *SMALL]
TRAIN += ["--method.attack.iterations", "2", "--batch", "16", "--epochs", "4"]
RESNET = ["--model", "mynets.nets:small_resnet"]


@pytest.mark.filterwarnings("default:.*support a TPR")
def test_a_network_in_the_style_of_timm_is_trained_resumed_attacked_and_shown(
    nets: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main([*TRAIN, *RESNET, "--run", "runs/whole"])
    whole = Run.open(Path("runs/whole"))
    forget()
    saved = 0
    save = type(whole.training).save_checkpoint

    def stop(self: object, *given: object) -> None:
        nonlocal saved
        save(self, *given)  # type: ignore[arg-type]
        saved += 1
        if saved == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(whole.training), "save_checkpoint", stop)
        with pytest.raises(SystemExit) as ended:
            main([*TRAIN, *RESNET, "--run", "runs/net"])
    assert ended.value.code == 130
    forget()
    main([*TRAIN, *RESNET, "--run", "runs/net"])
    run = Run.open(Path("runs/net"))
    assert run.weights == whole.weights, "bit for bit, as if it was never interrupted"
    assert len(run.training.log()) == 4
    forget()
    attack = ["attack", "net", "--threat", "Linf:8/255", *ONLY]
    assert "mynets.nets:small_resnet" in fails(capsys, *attack)
    assert "mynets.nets" not in sys.modules, "read from a run, it is not imported"
    main([*attack, "--trust"])
    forget()
    main(["evaluate", "net", "--tau", "0.1"])
    shown = capsys.readouterr().out
    assert "Linf:8/255" in shown
    assert all(f"| {name} " in shown for name in CLASSES)
    assert "mynets.nets" not in sys.modules, "stored answers need no model"


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("thousand", "gives 1000 logits per image, but there are 3 classes: .* `num_classes`"),
        ("two", "gives 2 logits per image, but there are 3 classes"),
        ("wrong_channels", "cannot take images of 3x16x16: RuntimeError: .* 5 channels"),
        ("features", r"must return logits of shape \(2, K\)"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_and_leaves_no_run(
    nets: Path, capsys: pytest.CaptureFixture[str], factory: str, message: str
) -> None:
    told = fails(capsys, *TRAIN, "--model", f"mynets.nets:{factory}", "--run", "runs/net")
    assert re.search(message, told)
    assert not Path("runs/net").exists()
    forget()
