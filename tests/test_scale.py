"""Training by several processes, and interruptions of all kinds.

`make soak` interrupts a hundred times.
"""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import CASES, TINY, same, says, start, wait_for
from safetensors.torch import load_file

from ccat import create_model
from ccat.cli import main
from ccat.engine import Local
from ccat.pipeline.attack import attack
from ccat.runs import NotWrittenError, Run, RunError
from ccat.runs.trash import prunable

KILLS = int(os.environ.get("CCAT_SOAK", "4"))

pytestmark = pytest.mark.xdist_group("scale")  # one after the other: each has processes of its own


# ---- training with several processes

TOGETHER = [
    "mnist-ccat-demo",
    "--images=500",
    "--monitor",
    "100",
    "--method.attack.iterations",
    "3",
    "--probe.attack.iterations",
    "2",
]
EXACT = [
    *TOGETHER,
    "--model",
    "msd-lenet",
    "--method.attack.start",
    "zero",
]  # no batch normalisation, no random numbers


def torchrun(*arguments: str, processes: int = 2) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={processes}",
        "-m",
        "--",  # torchrun would take --monitor for an option of its own
        "ccat",
        "train",
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_two_processes_take_the_steps_of_one(here: Path) -> None:
    """Same batches, same attacked images: the same weights up to rounding, after several steps."""
    main(["train", *EXACT, "--epochs", "1", "--run", "runs/one"])
    process = torchrun(*EXACT, "--epochs", "1", "--out", "runs/two")
    out, said = process.communicate()
    assert process.returncode == 0, said
    assert out.count("runs/two: after 1 epochs") == 1, "only the first speaks"
    one, two = (load_file(f"runs/{name}/model.safetensors") for name in ("one", "two"))
    begin = _fresh()
    assert max((one[name] - begin[name]).abs().max() for name in one) > 1e-3, "they moved"
    for name in one:
        torch.testing.assert_close(one[name], two[name], atol=2e-5, rtol=1e-4)
    entries = [json.loads(Path(f"runs/{name}/log.jsonl").read_text()) for name in ("one", "two")]
    assert entries[1]["processes"] == 2
    assert entries[1]["loss"] == pytest.approx(entries[0]["loss"], abs=1e-5)


def _fresh() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return dict(create_model("msd-lenet", generator, channels=1, classes=10).state_dict())


def test_training_together_survives_a_lost_process_and_keeps_others_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*TOGETHER, "--epochs", "40"]
    whole = torchrun(*arguments, "--out", "runs/whole")
    assert whole.communicate()[0].count("runs/whole: after 40 epochs") == 1
    process = torchrun(*arguments, "--out", "runs/killed")
    wait_for("runs/killed/checkpoint.safetensors", process)
    ranks = _ranks(process.pid)
    for rank in ranks:
        os.kill(rank, signal.SIGSTOP)  # so that they do not finish meanwhile
    assert "runs/killed is in use by another process (process" in says(
        capsys, "train", *arguments, "--run", "runs/killed", error=True
    )
    second = torchrun(*arguments, "--out", "runs/killed")
    said = second.communicate()[1]
    assert "runs/killed is in use by another process" in said
    assert "closed by peer" not in said, "the others end without a word"
    assert second.returncode != 0
    os.kill(random.choice(ranks), signal.SIGKILL)
    for rank in ranks:
        with suppress(ProcessLookupError):
            os.kill(rank, signal.SIGCONT)
    process.communicate()
    assert process.returncode != 0
    assert not (Path("runs/killed") / "model.safetensors").exists()
    again = torchrun(*arguments, "--out", "runs/killed")
    assert again.communicate()[0].count("runs/killed: after 40 epochs") == 1, (
        "a lock of the dead keeps nobody out"
    )
    assert Run.open(Path("runs/killed")).weights == Run.open(Path("runs/whole")).weights
    assert [entry["epoch"] for entry in Run.open(Path("runs/killed")).training.log()] == list(
        range(1, 41)
    )


def test_a_batch_that_cannot_be_shared_is_refused(here: Path) -> None:
    process = torchrun(*TOGETHER, "--epochs", "1", "--batch", "25", "--out", "runs/odd")
    assert "a batch of 25 cannot be shared by 2 processes" in process.communicate()[1]


def _children(process: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False
    ).stdout
    return [int(line) for line in found.split()]


def _ranks(process: int) -> list[int]:
    return [
        child
        for child in _children(process)
        if "ccat" in Path(f"/proc/{child}/cmdline").read_text()
    ]


# ---- tracking


def test_tensorboard_shows_the_log(here: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    main(["train", *TINY, "--epochs", "3", "--run", "runs/tracked", "--tensorboard"])
    shown = EventAccumulator("runs/tracked/tensorboard").Reload()
    losses = [(event.step, event.value) for event in shown.Scalars("loss")]
    log = Run.open(Path("runs/tracked")).training.log()
    assert losses == [(entry["epoch"], pytest.approx(entry["loss"])) for entry in log]
    main(["train", *TINY, "--epochs", "3", "--run", "runs/tracked", "--tensorboard"])
    assert len(list(Path("runs/tracked/tensorboard").iterdir())) == 1, (
        "what is trained writes no more"
    )
    assert {"clean_error", "adversarial_confidence"} <= set(shown.Tags()["scalars"])


# ---- interruptions


def test_a_suite_interrupted_again_and_again_ends_in_the_same_bytes(
    trained: Run, here: Path
) -> None:
    """The driver or one of its workers is killed, at any moment."""
    shutil.copytree(trained.path, "runs/killed")
    arguments = ["--suite", "tiny", "--examples", "1500", "--workers"]
    main(["attack", "tiny", *arguments, "1"])
    kills, luck = 0, random.Random()
    while kills < KILLS:
        process = start(here / "p.py", "attack", "killed", *arguments, "2")
        before = set(Path().glob("runs/killed/attempts/*/[0-9]*"))
        while (
            process.poll() is None
            and before == set(Path().glob("runs/killed/attempts/*/[0-9]*"))
            and luck.random() > 0.002
        ):
            time.sleep(0.01)
        time.sleep(luck.uniform(0, 0.2))
        workers = [
            child
            for child in _children(process.pid)
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
        ]
        of_worker = bool(workers) and luck.random() < 0.5
        try:
            os.kill(luck.choice(workers) if of_worker else process.pid, signal.SIGKILL)
        except ProcessLookupError:
            of_worker = False
        said = process.communicate(timeout=120)[1]
        if process.returncode == 0:  # it was faster: from the beginning
            assert same(Path("runs/tiny"), Path("runs/killed"))
            for folder in ("attempts", "worst"):
                shutil.rmtree(Path("runs/killed") / folder)
            continue
        assert process.returncode == (2 if of_worker else -signal.SIGKILL), said
        assert not of_worker or "a worker process was killed" in said
        kills += 1
    main(["attack", "killed", *arguments, "1"])
    assert same(Path("runs/tiny"), Path("runs/killed"))
    assert "unfinished" not in Run.open(Path("runs/killed")).disk_use() or bool(
        prunable(Run.open(Path("runs/killed")))
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "input/output error"),
    ],
)
def test_what_cannot_be_written_is_said_and_done_later(
    trained: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: int,
    message: str,
) -> None:
    shutil.copytree(trained.path, "runs/whole")
    command = ["--suite", "tiny", "--examples", "200", "--workers", "1"]
    says(capsys, "attack", "whole", *command)
    real, calls = os.fsync, []

    def fails_later(file: int) -> None:
        calls.append(file)
        if len(calls) > 8:
            raise OSError(error, os.strerror(error))
        real(file)

    monkeypatch.setattr("ccat.files.os.fsync", fails_later)
    text = says(capsys, "attack", "tiny", *command, error=True)
    assert f"cannot be written: {message}. Existing results are intact" in text
    assert not list(trained.path.rglob(".*.part"))
    assert len(list(trained.attempts.all())) > 0, "readable"
    monkeypatch.setattr("ccat.files.os.fsync", real)
    says(capsys, "attack", "tiny", *command)
    assert same(trained.path, Path("runs/whole"))


def test_a_run_that_is_deleted_meanwhile_is_not_made_again(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def progress(done: int, *_: Any) -> None:
        if done:
            shutil.rmtree(trained.path)

    with pytest.raises(RunError, match=r"runs/tiny is gone|there is no run at runs/tiny"):
        attack(trained, "tiny", CASES, 100, Local(1), "cpu", progress)
    assert not trained.path.exists()
    with pytest.raises(NotWrittenError, match=r"runs/tiny is gone, or its run\.json is"):
        trained.training.save_log([])
    assert not trained.path.exists()
