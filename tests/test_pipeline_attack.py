"""Attacking runs: nothing twice, nothing lost, and the same whatever the order and the workers."""

import json
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from runs import CASES, killed, same, says, start, table, wait_for
from safetensors.torch import load_file

from ccat import (
    PGD,
    SUITES,
    Case,
    Images,
    Linf,
    Suite,
    create_model,
    cross_entropy,
    metrics,
    save_model,
    threshold,
    worst,
)
from ccat.cli import main
from ccat.evaluation.evaluate import evaluate
from ccat.pipeline.answers import model_of
from ccat.pipeline.collect import collect
from ccat.runs import Run
from ccat.runs.training import TrainingFiles
from ccat.threats import Condition

ATTACK = ("attack", "tiny", "--suite", "tiny", "--workers", "1")


def test_from_training_to_a_table(
    trained: Run, mnist_test: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not attacked yet: `ccat attack" in says(capsys, "evaluate", "tiny")
    assert "12 blocks computed" in says(capsys, *ATTACK, "--examples", "200")
    shown = table(says(capsys, "evaluate", "runs/tiny", "--tpr", "0.9"))

    # the same numbers by hand
    attempts = list(trained.attempts.all())
    clean = load_file(trained.path / "clean.safetensors")["probabilities"].numpy()
    y = mnist_test.y.numpy()
    tau = threshold(metrics.outcome(clean[-1000:], y[-1000:]), 0.9)
    assert shown["τ"] == f"{tau:.3f}"
    counted = metrics.outcome(clean[:-1000], y[:-1000])
    assert shown["Err"] == f"{100 * metrics.error(counted, tau):.1f}"
    assert shown["coverage"] == f"{100 * metrics.coverage(counted, tau):.1f}"
    assert shown["images"] == "200"

    def pooled(*titles: str) -> list[metrics.Outcome]:
        return [
            metrics.outcome(torch.cat([b.probabilities for b in stored.blocks]).numpy(), y[:200])
            for stored in attempts
            if stored.record.condition.title in titles
        ]

    assert len(pooled("Linf:0.1")) == 2
    for name, within in (
        ("Linf:0.1", ["Linf:0.1"]),
        ("Linf:0.2", ["Linf:0.1", "Linf:0.2"]),
        ("L2:1", ["L2:1"]),
        ("Frame:2", ["Frame:2"]),
    ):
        first = counted[:200]
        expected = metrics.robust_error(first, worst(first, pooled(*within)), tau)
        seen = "*" * name.startswith("Linf")  # trained with Linf:0.3, which holds both
        assert shown[name].strip("‡") == f"{100 * expected:.1f}{seen}"
    (noise,) = (stored.blocks for stored in attempts if stored.record.condition.on_noise)
    accepted = torch.cat([block.probabilities for block in noise]).amax(1) >= tau
    assert shown["distal Linf:0.1"].strip("‡") == f"{100 * accepted.double().mean():.1f}"

    unthresholded = table(says(capsys, "evaluate", "tiny", "--tau", "none"))
    assert unthresholded["coverage"] == "100.0"
    assert table(says(capsys, "evaluate", "tiny", "--tau", "9/10"))["τ"] == "0.900"


def test_nothing_is_computed_twice_and_only_what_is_missing(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "6 blocks computed" in says(capsys, *ATTACK, "--examples", "100")
    before = {file: file.read_bytes() for file in trained.path.rglob("*.safetensors")}
    assert "0 blocks computed" in says(capsys, *ATTACK, "--examples", "100")
    assert "0 blocks computed" in says(capsys, *ATTACK, "--examples", "37")
    assert "6 blocks computed" in says(capsys, *ATTACK, "--examples", "101")
    monkeypatch.setitem(SUITES, "more", Suite((replace(CASES[0], restarts=3),)))
    more = ("attack", "tiny", "--suite", "more", "--workers", "1")
    assert "2 blocks computed" in says(capsys, *more, "--examples", "200")
    assert all(
        file.read_bytes() == content for file, content in before.items() if "attempts" in file.parts
    )
    assert "3 blocks computed" in says(capsys, *more, "--examples", "300")
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    assert table(shown)["images"] == "200–300"
    assert "3 for Linf:0.1, 4 for Linf:0.2" in shown


def test_more_never_finds_less(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pooled over what is stored, an error only grows, at any threshold.

    Neither more iterations, nor more restarts, nor a larger ε lowers it.
    """

    def attacked(case: Case) -> Case:
        monkeypatch.setitem(SUITES, "tiny", Suite((case,)))
        says(capsys, *ATTACK, "--examples", "100")
        return case

    def errors(threat: Linf) -> list[float]:
        outcomes = collect(trained)
        found = [
            {
                one.condition: one.pooled.headline.value
                for one in evaluate(outcomes, tau=tau).attacks
            }
            for tau in np.linspace(0, 1, 41)
        ]
        return [one[Condition(threat)] for one in found]

    first = attacked(Case("Conf", Linf(0.1), PGD(3, 0.05, start="random")))
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
    says(capsys, *ATTACK, "--examples", "200")
    assert "not finished" not in says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    folders = sorted((trained.path / "attempts").iterdir())
    (folders[0] / "0001.safetensors").unlink()
    shutil.rmtree(folders[1])
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    assert (
        "2 of 6 attempts are not finished; "
        "`ccat attack runs/tiny --suite tiny --examples 200` continues"
    ) in shown
    assert "† attacks that were asked for are not finished" in shown
    marked = [cell for cell in table(shown).values() if "†" in cell]
    assert 1 <= len(marked) <= 3, "beside every number that they touch, and no other"
    stored = json.loads((trained.path / "evaluation.json").read_text())["evaluations"][0]
    assert sum(bool(one["unfinished"]) for one in stored["attacks"]) == len(marked)
    assert "3 blocks computed" in says(capsys, *ATTACK, "--examples", "200")


@pytest.mark.filterwarnings("default:.*calibration images support a TPR")
def test_weights_that_change_under_an_attack_are_noticed(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = TrainingFiles.model

    def swapping(files: TrainingFiles) -> torch.nn.Module:
        other = create_model("lenet", torch.Generator().manual_seed(9))
        Run.open(trained.path).training.save_model(other)
        return original(files)

    monkeypatch.setattr(TrainingFiles, "model", swapping)
    model_of.cache_clear()
    assert "changed while it was attacked" in says(capsys, *ATTACK, error=True)
    assert not list(Run.open(trained.path).attempts.all())


@pytest.mark.filterwarnings("default:.*calibration images support a TPR")
def test_weights_changed_under_stored_attempts_are_noticed(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, *ATTACK, "--examples", "100")
    other = create_model("lenet", torch.Generator().manual_seed(9))
    save_model(other, trained.path / "model.safetensors")
    for command in (["evaluate", "tiny"], ["prune", "tiny", "--yes"], [*ATTACK]):
        said = says(capsys, *command, error=True)
        assert "model.safetensors is damaged (it is not the model that was trained)" in said
        assert "prune" not in said
    trained.training.save_model(other)
    assert "the weights changed after they were attacked; `ccat prune" in says(
        capsys, "evaluate", "tiny", error=True
    )
    assert "nothing was changed; --yes moves these" in says(capsys, "prune", "tiny")
    assert "the weights changed after" in says(capsys, "evaluate", "tiny", error=True)
    assert "--empty-trash` deletes it" in says(capsys, "prune", "tiny", "--yes")
    assert "not attacked yet" in says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    assert "6 blocks computed" in says(capsys, *ATTACK, "--examples", "100")


def test_results_do_not_depend_on_order_number_of_examples_or_workers(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained.path, "runs/other")
    monkeypatch.setitem(SUITES, "reversed", Suite(CASES[::-1]))
    says(capsys, "attack", "tiny", "--suite", "tiny", "--examples", "200", "--workers", "2")
    says(capsys, "attack", "other", "--suite", "reversed", "--examples", "100", "--workers", "1")
    says(capsys, "attack", "other", "--suite", "tiny", "--examples", "200", "--workers", "1")
    assert same(Path("runs/tiny"), Path("runs/other"))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_attacking_killed_at_random_ends_with_the_same_results(
    trained: Run, here: Path, workers: str
) -> None:
    shutil.copytree(trained.path, "runs/killed")
    arguments = ["--suite", "tiny", "--examples", "600", "--workers"]
    main(["attack", "tiny", *arguments, "1"])
    rng = random.Random()
    kills = sum(
        killed(
            here / "p.py",
            ["attack", "killed", *arguments, workers],
            rng.uniform(0, 0.3),
            "runs/killed/attempts/*/[0-9]*",
        )
        for _ in range(2)
    )
    assert kills > 0
    main(["attack", "killed", *arguments, "1"])
    assert same(Path("runs/tiny"), Path("runs/killed"))
    list(Run.open(Path("runs/killed")).attempts.all())


def test_an_interrupt_ends_the_workers_too(trained: Run, here: Path) -> None:
    process = start(
        here / "p.py", "attack", "tiny", "--suite", "quick", "--examples", "1000", "--workers", "2"
    )
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
