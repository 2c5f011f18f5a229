"""What commands say: of runs, of what there is, and of mistakes."""

import re
from pathlib import Path

import numpy as np
import pytest
from runs import CASES, TINY, says

from ccat import RECIPES, SUITES, Suite
from ccat.cli.commands import demo
from ccat.overrides import override
from ccat.runs import Run


def test_a_run_tells_what_it_is(
    trained: Run, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = trained.training.log()
    assert [entry["epoch"] for entry in log] == [1]
    for name in ("clean_error", "clean_confidence", "adversarial_error", "adversarial_confidence"):
        assert 0 <= log[0][name] <= 1
    assert log[0]["adversarial_error"] >= log[0]["clean_error"]
    shown = says(capsys, "show", "tiny")
    for part in (
        "method.rho",
        "10.0",
        "rejection",
        "torch",
        "adversarial_error",
        "disk use",
        "checkpoint",
    ):
        assert part in shown
    assert re.search(r"\| tiny +\| mnist-ccat-demo +\| trained", says(capsys, "runs"))
    assert "training is finished" in says(capsys, "prune", "tiny")
    assert "MB deleted" in says(capsys, "prune", "tiny", "--yes", "--empty-trash")
    assert "checkpoint" not in says(capsys, "show", "tiny")
    assert "is already trained" in says(
        capsys, "train", *TINY, "--epochs", "1", "--run", "runs/tiny"
    )
    (here / "nothing").mkdir()
    assert "there are no runs in nothing" in says(capsys, "runs", "nothing")
    assert "there is no folder nowhere" in says(capsys, "runs", "nowhere", error=True)
    (here / "runs" / "broken").mkdir()
    (here / "runs" / "broken" / "run.json").write_text("{")
    assert re.search(r"\| broken +\| – +\| .*damaged", says(capsys, "runs"))


def test_lists_and_data(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "mnist-ccat-small" in says(capsys, "recipes")
    assert "--method.threat.epsilon" in says(capsys, "recipes", "mnist-ccat")
    assert "quick" in says(capsys, "suites")
    assert "Beam near" in says(capsys, "suites", "quick")
    shown = says(capsys, "suites", "demo")
    assert re.search(r"APGD-Conf zero +\| test +\| +1 \| +41 \| +40 \|", shown)
    near, classes, border = (1 + 300 + 590 + 22, 590), (1 + 900 + 24, 900), (1 + 4 * 201, 200)
    forwards, backwards = (
        4 * (40 + one + near[n] + classes[n]) + 100 + one + border[n] for n, one in ((0, 1), (1, 0))
    )
    assert f"per image {forwards} forwards and {backwards} backwards in all" in shown
    assert "fashion-mnist" in says(capsys, "data")
    assert "mnist train: 60000 images of 1x28x28, 10 classes, verified" in says(
        capsys, "data", "get", "mnist"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evalaute tiny", "there is no command 'evalaute'; did you mean evaluate"),
        ("evaluate runs", "runs is a folder of runs: name one of them, such as runs/tiny"),
        ("train mnist-ccat-demo --run text.npz", "text.npz cannot be used (file exists"),
        ("train mnist-cat", "did you mean mnist-ccat"),
        ("train mnist-ccat --epoch 3", "did you mean epochs"),
        ("train mnist-ccat --epochs", "--epochs needs a value"),
        ("train mnist-ccat 3", "'3' is not an option"),
        (
            "train mnist-ccat-demo --images 70000 --run runs/large",
            "asks for 70000 training images, mnist has 60000",
        ),
        ("train mnist-ccat --device cuda", "no device 'cuda'"),
        ("attack tinny", "did you mean tiny"),
        ("attack nothing-like-it", "`ccat runs` lists"),
        ("attack tiny --suite quik", "did you mean quick"),
        ("attack tiny --suite tiny --examples 9001", "1 to 9000"),
        ("attack tiny --suite tiny --examples 0", "1 to 9000"),
        ("attack tiny --suite tiny --workers 0", "whole number of at least 1"),
        ("train mnist-ccat --threads -1", "whole number of at least 1"),
        (
            "train mnist-ccat-demo --images 4 --run runs/b",
            "4 training images are too few to train on and to monitor",
        ),
        (f"train mnist-ccat-demo --rate {'9' * 400}", "rate must be a finite number"),
        ("train mnist-ccat-demo --threads 1000000000", "must be at most"),
        (
            "train mnist-ccat-demo --augmentation.padding 1000000000 --run runs/b",
            "--augmentation.padding must be below 28",
        ),
        (f"attack tiny --threat L0:{'9' * 30}", "must be a whole number below"),
        ("attack --model lenet --weights /dev/null --dataset mnist x", "/dev/null is not a file"),
        (
            "attack --model lenet --mean 0.1 --std inf --dataset mnist x",
            "must be a number per channel",
        ),
        ("train mnist-ccat-demo --seed 99999999999999999999", "seed must be"),
        ("train mnist-ccat-demo --name mine", "keeps its name"),
        ("train mnist-ccat-demo --epochs --rate 0.1", "--epochs needs a value"),
        ("evaluate tiny --tpr 0.9 --tau 0.5", "not allowed with argument --tpr"),
        ("export tiny --threat Linf:0.1 --out x.csv", "was not attacked"),
        ("score tiny truncated.npz --threat Linf:0.2 --name a", "not an .npz file"),
        ("score tiny empty.npz --threat Linf:0.2 --name a", "not an .npz file"),
        ("score tiny scalar.npz --threat Linf:0.2 --name a", "up to 9000 of shape (1, 28, 28)"),
        ("evaluate tiny --tpr 99", "0.99 for 99 %"),
        ("evaluate tiny --tpr x", "must be a finite number"),
        ("export tiny --threat Linf:0.9 --out x.npz", "was not attacked within Linf:0.9"),
        ("export tiny --threat Linf --out x.npz", "such as Linf:8/255"),
        ("score tiny missing.npz --threat Linf:0.2 --name a", "there is no file"),
        ("score tiny text.npz --threat Linf:0.2 --name a", "not an .npz file"),
        ("score tiny no_x_adv.npz --threat Linf:0.2 --name a", "x_adv"),
        ("score tiny shape.npz --threat Linf:0.2 --name a", "(1, 28, 28), not (100, 3, 4, 4)"),
        ("score tiny range.npz --threat Linf:0.2 --name a", "values in [7, 7], outside [0,1]"),
        (
            "data get cifar",
            "there is no dataset 'cifar'; there are mnist, fashion-mnist, svhn, cifar10",
        ),
        ("suites nope", "did you mean"),
        ("evaluate tiny --colour red", "unrecognized arguments: --colour red"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(
    trained: Run, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    Path("text.npz").write_text("hello")
    np.savez("no_x_adv.npz", y=np.zeros(3))
    Path("truncated.npz").write_bytes(Path("no_x_adv.npz").read_bytes()[:-30])
    Path("empty.npz").write_bytes(b"")
    np.savez("scalar.npz", x_adv=np.float64(3))
    np.savez("shape.npz", x_adv=np.zeros((100, 3, 4, 4)))
    np.savez("range.npz", x_adv=np.full((100, 1, 28, 28), 7.0))
    assert message in says(capsys, *arguments.split(), error=True)
    assert not Path("runs/b").exists()


def test_the_demo(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"images": "400", "monitor": "100", "epochs": "1", "probe.attack.iterations": "1"}
    for name in ("mnist-ccat-demo", "mnist-at-demo", "mnist-normal-demo"):
        attack = {} if "normal" in name else {"method.attack.iterations": "1"}
        monkeypatch.setitem(RECIPES, name, override(RECIPES[name], changes | attack))
    monkeypatch.setattr(demo, "ZOO", "zoo:mnist-normal-small")  # a network that is fast
    for suite in ("demo", "paper-brief"):
        monkeypatch.setitem(SUITES, suite, Suite(CASES))
    shown = says(capsys, "demo", "--workers", "1")
    lines = [line for line in shown.splitlines() if line.startswith("| ") and "run" not in line]
    names = [line.split("|")[1].strip() for line in lines]
    normal, at, paper, ccat, certified = names[::2]
    assert (normal, at) == ("normal training", "adversarial training")
    assert (paper, ccat) == ("CCAT, paper's attacks", "CCAT, our attacks")
    assert certified == "certified (zoo)"
    assert [name.endswith(", nothing rejected") for name in names] == 5 * [False, True]
    assert "*" not in lines[0], "a normal model has seen no attack"
    assert "*" in lines[6]
    assert "≤" in lines[8], "bounds of the certified model stand beside what attacks found"
    assert shown.rstrip().splitlines()[-3:] == [
        "  ccat attack runs/demo/mnist-ccat-demo --suite standard      attack it harder",
        *shown.rstrip().splitlines()[-2:],
    ]
    assert says(capsys, "demo", "--workers", "1") == shown
