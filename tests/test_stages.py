"""From one command to a table, on real digits but little else: tiny trainings, tiny attacks."""

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from ccat import (
    L2,
    PGD,
    Frame,
    Images,
    Linf,
    any_class_confidence,
    create_model,
    cross_entropy,
    memory,
    metrics,
    other_class_confidence,
    save_model,
    threshold,
    worst,
)
from ccat.cli import main
from ccat.cookbook import RECIPES
from ccat.evaluation import evaluate
from ccat.fields import override
from ccat.models import folded
from ccat.progress import Reporter
from ccat.recipes import Case
from ccat.stages import forecast, measure
from ccat.stages.blocks import model_of
from ccat.store import Run
from ccat.suites import SUITES

TINY = ["mnist-ccat-demo", "--images=400", "--held-out", "100", "--method.attack.iterations", "2", "--probe.attack.iterations", "2"]
CASES = (
    Case("Conf", "PGD", Linf(0.1), PGD(2, 0.05, start="random"), other_class_confidence, restarts=2),
    Case("Conf", "PGD", Linf(0.2), PGD(2, 0.05), other_class_confidence),
    Case("CE", "PGD", L2(1.0), PGD(2, 0.5), cross_entropy),
    Case("Conf", "PGD", Frame(2), PGD(2, 0.5, start="random"), other_class_confidence),
    Case("distal", "PGD", Linf(0.1), PGD(2, 0.05), any_class_confidence, source="noise"),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mnist_train: Images, mnist_test: Images) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SUITES, "tiny", CASES)
    return tmp_path


@pytest.fixture
def trained(here: Path) -> Run:
    main(["train", *TINY, "--epochs", "1", "--run", "runs/tiny"])
    return Run.open(Path("runs/tiny"))


def says(capsys: pytest.CaptureFixture[str], *arguments: str, error: bool = False) -> str:
    """What a command prints; with `error`, what it says before it ends with exit code 2."""
    capsys.readouterr()
    if error:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        assert end.value.code == 2
        text = capsys.readouterr().err
        assert "Traceback" not in text
        return text
    main(list(arguments))
    return capsys.readouterr().out


def table(text: str) -> dict[str, str]:
    """The first row of the first Markdown table by its head, without intervals."""
    head, _, row = [line for line in text.splitlines() if line.startswith("|")][:3]
    cells = ([cell.split("(")[0].strip() for cell in line.strip("|").split("|")] for line in (head, row))
    return dict(zip(*cells, strict=True))


def test_from_training_to_a_table(trained: Run, mnist_test: Images, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not attacked yet: `ccat attack" in says(capsys, "evaluate", "tiny")
    assert "12 blocks computed" in says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "200", "--workers", "1")
    shown = table(says(capsys, "evaluate", "runs/tiny", "--tpr", "0.9"))

    # the same numbers by hand
    attempts = dict(Run.open(trained.path).attempts())
    clean = load_file(trained.path / "clean.safetensors")["probabilities"].numpy()
    y = mnist_test.y.numpy()
    everything = metrics.outcome(clean, y)
    tau = threshold(metrics.outcome(clean[-1000:], y[-1000:]), 0.9)
    assert shown["τ"] == f"{tau:.3f}"
    counted = metrics.outcome(clean[:-1000], y[:-1000])
    assert shown["Err"] == f"{100 * metrics.error(counted, tau):.1f}"
    assert shown["accepted"] == f"{100 * metrics.coverage(counted, tau):.1f}"
    assert shown["images"] == "200"
    first = metrics.Outcome(everything.wrong[:200], everything.score[:200])

    def pooled(*names: str) -> list[metrics.Outcome]:
        return [
            metrics.outcome(torch.cat([block.probabilities for block in blocks]).numpy(), y[:200])
            for attempt, blocks in attempts.items()
            if f"{type(attempt.case.threat).__name__}:{attempt.case.threat.epsilon:g}" in names and attempt.case.source == "test"
        ]

    assert len(pooled("Linf:0.1")) == 2
    for name, within in (("Linf:0.1", ["Linf:0.1"]), ("Linf:0.2", ["Linf:0.1", "Linf:0.2"]), ("L2:1", ["L2:1"]), ("Frame:2", ["Frame:2"])):
        expected = metrics.robust_error(first, worst(first, pooled(*within)), tau)
        assert shown[name] == f"{100 * expected:.1f}" + "*" * name.startswith("Linf")  # trained with Linf:0.3, which holds both
    (noise,) = (blocks for attempt, blocks in attempts.items() if attempt.case.source == "noise")
    accepted = torch.cat([block.probabilities for block in noise]).amax(1) >= tau
    assert shown["distal Linf:0.1"] == f"{100 * accepted.double().mean():.1f}"

    unthresholded = table(says(capsys, "evaluate", "tiny", "--tau", "none"))
    assert unthresholded["accepted"] == "100.0"
    assert table(says(capsys, "evaluate", "tiny", "--tau", "9/10"))["τ"] == "0.900"


def test_what_is_trained_needs_its_checkpoint_no_more(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (trained.path / "checkpoint.safetensors").write_bytes(b"damaged")
    assert "is trained already" in says(capsys, "train", *TINY, "--epochs", "1", "--run", "runs/tiny")


def test_a_dry_run_says_what_each_case_costs_and_writes_nothing(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")}
    command = ["attack", "tiny", "--suite", "tiny", "--examples", "200", "--workers", "2"]
    text = says(capsys, *command, "--dry-run")
    assert {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")} == before
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")][2:]
    assert [row[:4] for row in cells] == [
        ["Linf:0.1 Conf", "4", "1,200", "800"],
        ["Linf:0.2 Conf", "2", "600", "400"],
        ["L2:1 CE", "2", "600", "400"],
        ["Frame:2 Conf", "2", "600", "400"],
        ["noise Linf:0.1 distal", "2", "600", "400"],
    ]
    assert all(re.fullmatch(r"\d+ s", row[4]) for row in cells)
    assert re.search(r"All: \d+ s of one process, about \d+ s on 2; .* 100 images at once. Nothing was attacked.", text)
    says(capsys, *command[:-1], "1")
    assert "| L2:1 CE               |      0 |        0 |         0 |         0 s |" in says(capsys, *command, "--dry-run", "--batch", "7")


def test_few_images_at_once_find_the_same_and_memory_decides_how_many(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1"]
    says(capsys, *command)
    found = dict(Run.open(trained.path).attempts())
    shutil.rmtree(trained.path / "attempts")
    says(capsys, *command, "--batch", "33")
    for attempt, blocks in Run.open(trained.path).attempts():
        torch.testing.assert_close(blocks[0].probabilities, found[attempt][0].probabilities, atol=1e-4, rtol=0)
        assert (blocks[0].forwards, blocks[0].backwards) == (found[attempt][0].forwards, found[attempt][0].backwards)
    model, x = trained.model(), torch.rand(1, 1, 28, 28)
    assert forecast.fitting(model, x, "cpu", 1) == 100
    kept = forecast._kept(folded(model, x), x, 2) - forecast._kept(folded(model, x), x, 1)
    assert 4 * (16 * 14 * 14 + 32 * 7 * 7 + 64 * 4 * 4) <= kept < 8 * (16 * 14 * 14 + 32 * 7 * 7 + 64 * 4 * 4), "what rectifiers keep"
    monkeypatch.setattr(memory, "free", lambda device: 2 * 2 * 10 * (2 * kept + 10 * 4 * 28 * 28))
    assert forecast.fitting(model, x, "cpu", 2) == 10
    monkeypatch.setattr(memory, "free", lambda device: 1000.0)
    assert forecast.fitting(model, x, "cpu", 2) == 1
    assert "1 images at once" in says(capsys, *command, "--examples", "200", "--dry-run")


def test_nothing_is_computed_twice_and_only_what_is_missing(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = ["attack", "tiny", "--suite", "tiny", "--workers", "1", "--examples"]
    assert "6 blocks computed" in says(capsys, *attack, "100")
    before = {file: file.read_bytes() for file in trained.path.rglob("*.safetensors")}
    assert "0 blocks computed" in says(capsys, *attack, "100")
    assert "0 blocks computed" in says(capsys, *attack, "37")
    assert "6 blocks computed" in says(capsys, *attack, "101")
    more = (Case("Conf", "PGD", Linf(0.1), PGD(2, 0.05, start="random"), other_class_confidence, restarts=3),)
    monkeypatch.setitem(SUITES, "more", more)
    assert "2 blocks computed" in says(capsys, "attack", "tiny", "--suite", "more", "--examples", "200", "--workers", "1")
    assert all(file.read_bytes() == content for file, content in before.items() if "attempts" in file.parts)
    text = says(capsys, "attack", "tiny", "--suite", "more", "--examples", "300", "--workers", "1")
    assert "3 blocks computed" in text
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    assert table(shown)["images"] == "200–300"
    assert "3 for Linf:0.1, 4 for Linf:0.2" in shown


def test_more_never_finds_less(trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pooled over what is stored, more iterations, more restarts and a larger ε never lower an error, at any threshold."""

    def attacked(case: Case) -> Case:
        monkeypatch.setitem(SUITES, "tiny", (case,))
        says(capsys, "attack", "runs/tiny", "--suite", "tiny", "--examples", "100", "--workers", "1")
        return case

    def errors(threat: Linf) -> list[float]:
        measured = measure(trained)
        found = [{a.threat: a.pooled.error.value for a in evaluate(measured, tau=tau).attacks} for tau in np.linspace(0, 1, 41)]
        return [one[f"Linf:{threat.epsilon:g}"] for one in found]

    first = attacked(Case("Conf", "PGD", Linf(0.1), PGD(3, 0.05, start="random"), other_class_confidence))
    before = errors(Linf(0.1))
    assert 0 < before[0] < 1
    weak = PGD(1, 1e-3)  # alone it would find less than what is stored already
    for case in (
        replace(first, restarts=4),
        replace(first, attack=PGD(10, 0.05, start="random")),
        replace(first, attack=weak),
        replace(first, attack=weak, objective=cross_entropy),
    ):
        attacked(case)
        after = errors(Linf(0.1))
        assert all(new >= old for new, old in zip(after, before, strict=True)), case
        before = after
    attacked(replace(first, threat=Linf(0.15), attack=weak))
    assert all(new >= old for new, old in zip(errors(Linf(0.15)), before, strict=True))


def test_an_unfinished_suite_is_said(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "200", "--workers", "1")
    assert "not finished" not in says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    folders = sorted((trained.path / "attempts").iterdir())
    (folders[0] / "0001.safetensors").unlink()
    shutil.rmtree(folders[1])
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    assert "2 of 6 attempts are not finished, `ccat attack runs/tiny --suite tiny --examples 200` goes on" in shown
    assert "3 blocks computed" in says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "200", "--workers", "1")


def test_perturbations_that_were_not_kept_are_computed_when_they_are_wanted(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1"]
    export = ["export", "tiny", "--threat", "Linf:0.2", "--out", "x.npz"]
    assert "was not attacked within Linf:0.2" in says(capsys, *export, error=True)
    assert "6 blocks computed" in says(capsys, *arguments, "--keep", "none")
    assert not (trained.path / "worst").exists()
    assert "has not kept all perturbations within Linf:0.2" in says(capsys, *export, error=True)
    assert "6 blocks computed" in says(capsys, *arguments)
    assert "100 adversarial examples" in says(capsys, *export)
    (trained.path / "worst" / "Linf-0.2" / "0000.safetensors").unlink()
    assert "has not kept all" in says(capsys, *export, error=True)
    assert "1 blocks computed" in says(capsys, *arguments)
    assert "100 adversarial examples" in says(capsys, *export)


def test_what_is_exported_is_what_is_counted(
    trained: Run, mnist_test: Images, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst of a larger ball includes that of the smaller one, in both."""
    strong = Case("strong", "PGD", Linf(0.2), PGD(20, 0.1), other_class_confidence)
    weak = Case("weak", "PGD", Linf(64 / 255), PGD(1, 1e-6), other_class_confidence)
    monkeypatch.setitem(SUITES, "both", (strong, weak))
    says(capsys, "attack", "tiny", "--suite", "both", "--examples", "100", "--workers", "1")
    shown = table(says(capsys, "evaluate", "tiny", "--tau", "none"))
    assert shown["Linf:0.2"].strip("*") == shown["Linf:64/255"].strip("*")
    says(capsys, "export", "tiny", "--threat", "Linf:64/255", "--out", "x.npz")
    arrays = np.load("x.npz")
    clean = load_file(trained.path / "clean.safetensors")["probabilities"][:100].argmax(1).numpy()
    y = arrays["y"]
    assert shown["Linf:64/255"].strip("*") == f"{100 * ((arrays['prediction'] != y) | (clean != y)).mean():.1f}"


def test_weights_that_change_under_an_attack_are_noticed(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Run.model

    def swapping(run: Run) -> torch.nn.Module:
        save_model(create_model("lenet", torch.Generator().manual_seed(9)), run.path / "model.safetensors")
        return original(run)

    monkeypatch.setattr(Run, "model", swapping)
    model_of.cache_clear()
    assert "changed while it was attacked" in says(capsys, "attack", "tiny", "--suite", "tiny", "--workers", "1", error=True)
    assert not list(Run.open(trained.path).attempts())


def tensors_of(run: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {
        str(file.relative_to(run)): load_file(file)
        for kind in ("attempts", "worst")
        for file in sorted((run / kind).rglob("*.safetensors"))
    }


def same(one: Path, other: Path) -> bool:
    a, b = tensors_of(one), tensors_of(other)
    return a.keys() == b.keys() and all(a[file][name].equal(b[file][name]) for file in a for name in a[file])


def test_results_do_not_depend_on_order_number_of_examples_or_workers(trained: Run, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained.path, "runs/other")
    SUITES["reversed"] = CASES[::-1]
    says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "200", "--workers", "2")
    says(capsys, "attack", "other", "--suite", "reversed", "--examples", "100", "--workers", "1")
    says(capsys, "attack", "other", "--suite", "tiny", "--examples", "200", "--workers", "1")
    del SUITES["reversed"]
    assert same(Path("runs/tiny"), Path("runs/other"))


def test_examples_go_out_and_come_in(trained: Run, mnist_test: Images, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "200", "--workers", "1")
    assert "200 adversarial examples" in says(capsys, "export", "tiny", "--threat", "Linf:0.2", "--out", "deep/er/worst.npz")
    arrays = np.load("deep/er/worst.npz")
    assert np.array_equal(arrays["x"], mnist_test[:200].floats().numpy())
    assert np.array_equal(arrays["y"], mnist_test[:200].y.numpy())
    assert np.abs(arrays["x_adv"] - arrays["x"]).max() <= 0.2 + 1e-6
    probabilities = trained.model()(torch.from_numpy(arrays["x_adv"])).softmax(1).max(1)
    assert np.array_equal(probabilities.indices.numpy(), arrays["prediction"])

    says(capsys, "export", "tiny", "--threat", "Linf:0.2", "--out", "pictures")
    assert "not empty" in says(capsys, "export", "tiny", "--threat", "Linf:0.2", "--out", "pictures", error=True)
    assert "without an ending" in says(capsys, "export", "tiny", "--threat", "Linf:0.2", "--out", "x.csv", error=True)
    assert len(list(Path("pictures").iterdir())) == 400
    (original,) = Path("pictures").glob("0007-is-*.png")
    assert np.array_equal(np.asarray(Image.open(original)), mnist_test.x[7, 0].numpy())

    before = table(says(capsys, "evaluate", "tiny", "--tpr", "0.9"))
    assert "scored within Linf:0.2" in says(capsys, "score", "tiny", "deep/er/worst.npz", "--threat", "Linf:0.2", "--name", "again")
    assert table(says(capsys, "evaluate", "tiny", "--tpr", "0.9")) == before, "what was found already changes nothing"
    assert "again" in says(capsys, "show", "tiny")
    strong = np.where(arrays["x"] > 0.5, 0.0, 1.0)  # negatives, far outside the ball
    np.savez("negatives.npz", x_adv=strong)
    far = ("score", "tiny", "negatives.npz", "--threat", "Linf:0.2", "--name", "negatives")
    assert "negatives went beyond Linf:0.2: to 1, first in example 0; 200 in all" in says(capsys, *far, error=True)
    np.savez("bytes.npz", x_adv=mnist_test.x[:100].numpy())
    assert "100 examples scored" in says(capsys, "score", "tiny", "bytes.npz", "--threat", "Linf:0.2", "--name", "clean")


def test_a_run_tells_what_it_is(trained: Run, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = trained.log()
    assert [entry["epoch"] for entry in log] == [1]
    for name in ("clean_error", "clean_confidence", "adversarial_error", "adversarial_confidence"):
        assert 0 <= log[0][name] <= 1
    assert log[0]["adversarial_error"] >= log[0]["clean_error"]
    shown = says(capsys, "show", "tiny")
    for part in ("method.rho", "10.0", "torch", "adversarial_error", "disk use", "checkpoint"):
        assert part in shown
    assert re.search(r"\| tiny +\| mnist-ccat-demo +\| trained", says(capsys, "runs"))
    assert "MB freed" in says(capsys, "prune", "tiny")
    assert "checkpoint" not in says(capsys, "show", "tiny")
    assert "is trained already" in says(capsys, "train", *TINY, "--epochs", "1", "--run", "runs/tiny")
    assert "there are no runs" in says(capsys, "runs", "nowhere")
    (here / "runs" / "broken").mkdir()
    (here / "runs" / "broken" / "run.json").write_text("{")
    assert re.search(r"\| broken +\| – +\| .*damaged", says(capsys, "runs"))


def test_lists_and_data(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "mnist-ccat-small" in says(capsys, "recipes")
    assert "--method.threat.epsilon" in says(capsys, "recipes", "mnist-ccat")
    assert "quick" in says(capsys, "suites")
    assert "PGD-Conf zero" in says(capsys, "suites", "quick")
    shown = says(capsys, "suites", "demo")
    assert re.search(r"APGD-CE random +\| test +\| +1 \| +101 \| +100 \|", shown)
    assert f"per image {29 * 101 + 8 * 1001 + 2001} forwards and {29 * 100} backwards in all" in shown
    assert "fashion-mnist" in says(capsys, "data")
    assert "mnist train: 60000 images of 1x28x28, 10 classes, verified" in says(capsys, "data", "get", "mnist")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train mnist-cat", "did you mean mnist-ccat"),
        ("train mnist-ccat --epoch 3", "did you mean epochs"),
        ("train mnist-ccat --epochs", "--epochs needs a value"),
        ("train mnist-ccat 3", "'3' is not an option"),
        ("train mnist-ccat-demo --images 70000 --run runs/large", "asks for 70000 training images, mnist has 60000"),
        ("train mnist-ccat --device cuda", "no device 'cuda'"),
        ("attack tinny", "did you mean tiny"),
        ("attack nothing-like-it", "`ccat runs` lists"),
        ("attack tiny --suite quik", "did you mean quick"),
        ("attack tiny --suite tiny --examples 9001", "1 to 9000"),
        ("attack tiny --suite tiny --examples 0", "1 to 9000"),
        ("attack tiny --suite tiny --workers 0", "whole number of at least 1"),
        ("train mnist-ccat --threads -1", "whole number of at least 1"),
        ("train mnist-ccat-demo --images none --held-out 70000 --run runs/b", "leaves less than a batch of 100"),
        ("train mnist-ccat-demo --images none --batch 60000 --run runs/b", "leaves less than a batch of 60000"),
        ("train mnist-ccat-demo --seed 99999999999999999999", "seed must be"),
        ("train mnist-ccat-demo --name mine", "keeps its name"),
        ("train mnist-ccat-demo --epochs --rate 0.1", "--epochs needs a value"),
        ("evaluate tiny --tpr 0.9 --tau 0.5", "not allowed with argument --tpr"),
        ("export tiny --threat Linf:0.1 --out x.csv", "was not attacked"),
        ("score tiny truncated.npz --threat Linf:0.2 --name a", "not an .npz file"),
        ("score tiny empty.npz --threat Linf:0.2 --name a", "not an .npz file"),
        ("score tiny scalar.npz --threat Linf:0.2 --name a", "hundreds of them or all 9000"),
        ("evaluate tiny --tpr 99", "0.99 for 99 %"),
        ("evaluate tiny --tpr x", "must be a number"),
        ("export tiny --threat Linf:0.9 --out x.npz", "was not attacked within Linf:0.9"),
        ("export tiny --threat Linf --out x.npz", "such as Linf:8/255"),
        ("score tiny missing.npz --threat Linf:0.2 --name a", "No such file"),
        ("score tiny text.npz --threat Linf:0.2 --name a", "not an .npz file"),
        ("score tiny no_x_adv.npz --threat Linf:0.2 --name a", "x_adv"),
        ("score tiny shape.npz --threat Linf:0.2 --name a", "(1, 28, 28), not (100, 3, 4, 4)"),
        ("score tiny range.npz --threat Linf:0.2 --name a", "values in [7, 7], outside [0,1]"),
        ("data get cifar", "there is no dataset 'cifar'; there are mnist, fashion-mnist, svhn, cifar10"),
        ("suites nope", "did you mean"),
        ("evaluate tiny --colour red", "unrecognized arguments: --colour red"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(
    trained: Run, here: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
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


def test_weights_changed_under_stored_attempts_are_noticed(trained: Run, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1")
    main(["train", *TINY, "--epochs", "1", "--seed", "5", "--run", "runs/other"])
    (trained.path / "model.safetensors").write_bytes(Path("runs/other/model.safetensors").read_bytes())
    assert "the weights changed after they were attacked; `ccat prune" in says(capsys, "evaluate", "tiny", error=True)
    says(capsys, "prune", "tiny")
    assert "not attacked yet" in says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    assert "6 blocks computed" in says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1")


def test_a_directory_without_permission_is_a_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("not a directory")
    assert "Not a directory" in says(capsys, "train", *TINY, "--run", "file/run", error=True)


PROGRAM = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from test_stages import CASES
from ccat.suites import SUITES
from ccat.cli import main
if __name__ == "__main__":
    SUITES["tiny"] = CASES
    main(sys.argv[2:])
"""


def start(program: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A process that an interrupt reaches, even where the tests themselves run in the background of a shell, which ignores it there."""
    program.write_text(PROGRAM)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored here would be ignored there
    try:
        return subprocess.Popen([sys.executable, program, Path(__file__).parent, *arguments], stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for(pattern: str, process: "subprocess.Popen[str]") -> None:
    while not list(Path().glob(pattern)):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def killed(program: Path, arguments: list[str], seconds: float, progress: str) -> bool:
    """Starts a command and kills it `seconds` after the first file matching `progress` is new; false if it was faster."""
    before = {file: file.stat().st_mtime_ns for file in Path().glob(progress)}
    process = start(program, *arguments)
    while process.poll() is None and before == {file: file.stat().st_mtime_ns for file in Path().glob(progress)}:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_training_killed_at_random_ends_with_the_same_weights(here: Path) -> None:
    arguments = ["train", *TINY, "--epochs", "30"]
    main([*arguments, "--run", "runs/whole"])
    rng = random.Random()
    kills = sum(
        killed(here / "p.py", [*arguments, "--run", "runs/killed"], rng.uniform(0, 0.3), "runs/killed/checkpoint*") for _ in range(3)
    )
    assert kills > 0
    main([*arguments, "--run", "runs/killed"])
    whole, again = Run.open(Path("runs/whole")), Run.open(Path("runs/killed"))
    assert again.weights == whole.weights
    assert [entry["epoch"] for entry in again.log()] == list(range(1, 31))
    assert [entry["loss"] for entry in again.log()] == [entry["loss"] for entry in whole.log()]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_attacking_killed_at_random_ends_with_the_same_results(trained: Run, here: Path, workers: str) -> None:
    shutil.copytree(trained.path, "runs/killed")
    arguments = ["--suite", "tiny", "--examples", "600", "--workers"]
    main(["attack", "tiny", *arguments, "1"])
    rng = random.Random()
    kills = sum(
        killed(here / "p.py", ["attack", "killed", *arguments, workers], rng.uniform(0, 0.3), "runs/killed/attempts/*/[0-9]*")
        for _ in range(2)
    )
    assert kills > 0
    main(["attack", "killed", *arguments, "1"])
    assert same(Path("runs/tiny"), Path("runs/killed"))
    list(Run.open(Path("runs/killed")).attempts())


def test_an_interrupt_ends_cleanly_and_says_how_to_go_on(here: Path) -> None:
    process = start(here / "p.py", "train", *TINY, "--epochs", "200", "--run", "runs/x")
    wait_for("runs/x/checkpoint.safetensors", process)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in text
    assert "goes on from there:\n  ccat train mnist-ccat-demo --images=400" in text
    assert not list(Path("runs/x").rglob(".*.part"))


def test_an_interrupt_ends_the_workers_too(trained: Run, here: Path) -> None:
    process = start(here / "p.py", "attack", "tiny", "--suite", "quick", "--examples", "1000", "--workers", "2")
    wait_for("runs/tiny/attempts/*/[0-9]*", process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) >= 2
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in text
    time.sleep(1)
    assert not [child for child in children if alive(child)]


def alive(process: str) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_the_demo(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"images": "400", "held_out": "100", "epochs": "1", "probe.attack.iterations": "1"}
    for name in ("mnist-ccat-demo", "mnist-at-demo", "mnist-normal-demo"):
        attack = {} if "normal" in name else {"method.attack.iterations": "1"}
        monkeypatch.setitem(RECIPES, name, override(RECIPES[name], changes | attack))
    monkeypatch.setitem(SUITES, "demo", CASES)
    shown = says(capsys, "demo", "--workers", "1")
    assert re.findall(r"^\| (mnist-\w+-demo)", shown, re.MULTILINE) == ["mnist-normal-demo", "mnist-at-demo", "mnist-ccat-demo"]
    assert "Linf:0.1" in shown
    normal, _, ccat = (line for line in shown.splitlines() if line.startswith("| mnist"))
    assert "*" not in normal, "a normal model has seen no attack"
    assert "*" in ccat
    assert says(capsys, "demo", "--workers", "1") == shown


def test_progress_is_plain_lines_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    report = Reporter("work", every=3600)
    for done in range(4):
        report(done, 3, f"part {done}")
    assert re.sub(r"\d+ s", "T", capsys.readouterr().err) == "work: 0 %, part 0 (T)\nwork: 100 %, part 3 (T)\n"


def test_the_time_left_is_told_by_the_work_done(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    report = Reporter("work", every=0)
    begin = report.begin
    monkeypatch.setattr("ccat.progress.time.monotonic", lambda: begin + 60)
    report(25, 100, "")
    assert capsys.readouterr().err == "work: 25 % (60 s, about 3 min left)\n"
