"""Training runs: killed or interrupted at any moment, they end with the same weights."""

import random
import signal
from pathlib import Path

import pytest
from runs import TINY, killed, says, start, wait_for

from ccat.cli import main
from ccat.runs import Run


def test_what_is_trained_needs_its_checkpoint_no_more(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (trained.path / "checkpoint.safetensors").write_bytes(b"damaged")
    assert "is already trained" in says(
        capsys, "train", *TINY, "--epochs", "1", "--run", "runs/tiny"
    )


def test_training_killed_at_random_ends_with_the_same_weights(here: Path) -> None:
    arguments = ["train", *TINY, "--epochs", "30"]
    main([*arguments, "--run", "runs/whole"])
    rng = random.Random()
    kills = sum(
        killed(
            here / "p.py",
            [*arguments, "--run", "runs/killed"],
            rng.uniform(0, 0.3),
            "runs/killed/checkpoint*",
        )
        for _ in range(3)
    )
    assert kills > 0
    main([*arguments, "--run", "runs/killed"])
    whole, again = Run.open(Path("runs/whole")), Run.open(Path("runs/killed"))
    assert again.weights == whole.weights
    log = again.training.log()
    assert [entry["epoch"] for entry in log] == list(range(1, 31))
    assert [entry["loss"] for entry in log] == [entry["loss"] for entry in whole.training.log()]


def test_an_interrupt_ends_cleanly_and_says_how_to_continue(here: Path) -> None:
    process = start(here / "p.py", "train", *TINY, "--epochs", "200", "--run", "runs/x")
    wait_for("runs/x/checkpoint.safetensors", process)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in text
    assert "this continues:\n  ccat train mnist-ccat-demo --images=400" in text
    assert not list(Path("runs/x").rglob(".*.part"))


def test_a_directory_that_cannot_be_made_is_a_sentence(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("not a directory")
    said = says(capsys, "train", *TINY, "--run", "file/run", error=True)
    assert "file/run cannot be used (not a directory)" in said
