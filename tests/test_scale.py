"""More than one machine: Ray clusters, torchrun, and interruptions of all kinds. `make soak` interrupts a hundred times."""

import errno
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray.cluster_utils import Cluster
from safetensors.torch import load_file
from test_stages import CASES, TINY, here, same, says, start, trained, wait_for  # noqa: F401

from ccat.cli import main
from ccat.engine import Local, Ray, WorkerError
from ccat.stages import attack
from ccat.store import NotWrittenError, Run, StoreError

KILLS = int(os.environ.get("CCAT_SOAK", "4"))

pytestmark = pytest.mark.xdist_group("scale")  # one after the other: each has processes of its own


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes; tests add a third one and remove it."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # its workers run functions of this file
    many = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    many.add_node(num_cpus=1)
    ray.init(address=many.address, log_to_driver=False, logging_level=logging.ERROR)
    yield many
    ray.shutdown()
    many.shutdown()  # type: ignore[no-untyped-call]
    del os.environ["PYTHONPATH"]


def square(common: int, n: int) -> tuple[int, int]:
    return common * n * n, os.getpid()


def fails(_: None, n: int) -> int:
    if n == 3:
        raise ValueError("unit 3 is wrong")
    return n


def dies_once(folder: str, n: int) -> int:
    """The first time it is tried, the worker of one unit is killed while it computes."""
    marker = Path(folder) / f"tried-{n}"
    if n == 2 and not marker.exists():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.get_num_threads()


def slow(folder: str, n: int) -> int:
    (Path(folder) / f"{n}-{time.monotonic_ns()}").write_text("")
    time.sleep(0.5)
    return n


def test_units_on_a_cluster(cluster: Cluster) -> None:
    found = sorted(Ray(cluster.address)(square, 3, range(12)))
    assert [(unit, value) for unit, (value, _) in found] == [(n, 3 * n * n) for n in range(12)]
    assert len({process for _, (_, process) in found}) < 12, "workers live on"
    assert os.getpid() not in {process for _, (_, process) in found}
    assert ray.is_initialized(), "a connection that was there is left"
    with pytest.raises(ValueError, match=r"^unit 3 is wrong$"):
        list(Ray(cluster.address)(fails, None, range(6)))
    with pytest.raises(WorkerError, match="no node of the Ray cluster has 1 CPUs and 1 GPUs"):
        list(Ray(cluster.address, gpus=1)(square, 3, range(2)))


def test_a_worker_killed_while_it_computes_costs_its_unit_once_more(cluster: Cluster, tmp_path: Path) -> None:
    found = list(Ray(cluster.address)(dies_once, str(tmp_path), range(6)))
    assert sorted(unit for unit, _ in found) == list(range(6))
    assert (tmp_path / "tried-2").exists()
    assert {threads for _, threads in found} == {1}


def test_a_node_removed_costs_its_units_once_more(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    results, found = Ray(cluster.address)(slow, str(tmp_path), range(12)), []
    for count, (unit, value) in enumerate(results):
        found.append(unit)
        assert unit == value
        if count == 3:
            cluster.remove_node(node)
    assert sorted(found) == list(range(12)), "nothing lost, nothing twice"


def test_a_suite_on_a_cluster_that_loses_a_node_gives_the_same_bytes(
    trained: Run,  # noqa: F811
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(trained.path, "runs/away")
    attack(trained, "tiny", CASES, 300, Local(1), "cpu", lambda *_: None)
    node, away, seen = cluster.add_node(num_cpus=1), Run.open(Path("runs/away")), []

    def progress(done: int, total: int, _: str) -> None:
        seen.append((done, total))
        if len(seen) == 5:
            cluster.remove_node(node)

    assert attack(away, "tiny", CASES, 300, Ray(cluster.address), "cpu", progress) == 18
    assert seen[-1][0] == seen[-1][1]
    assert same(trained.path, away.path)
    assert "0 blocks computed" in says(capsys, "attack", "away", "--suite", "tiny", "--examples", "300", "--engine", "ray")


def test_a_cluster_that_is_not_there_is_said_at_once_and_nothing_is_planned(
    here: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["train", *TINY, "--epochs", "1", "--run", "runs/tiny"])
    command = [sys.executable, "-m", "ccat", "attack", "tiny", "--engine", "ray", "--address", "127.0.0.1:9"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2
    assert "ccat: there is no Ray cluster at 127.0.0.1:9 (" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert Run.open(Path("runs/tiny")).plan() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--engine ray --workers 2", "--workers belongs to --engine local"),
        ("--address 1.2.3.4:6379", "--address belongs to --engine ray"),
        ("--engine ray --cpus 0", "a task needs a CPU or a GPU"),
        ("--engine ray --gpus 1 --device cpu", "leave --device out"),
        ("--engine ray --dry-run", "times passes on this machine"),
    ],
)
def test_options_that_do_not_go_together(trained: Run, capsys: pytest.CaptureFixture[str], options: str, message: str) -> None:  # noqa: F811
    assert message in says(capsys, "attack", "tiny", "--suite", "tiny", *options.split(), error=True)


# ---- training with several processes

TOGETHER = ["mnist-ccat-demo", "--images=500", "--held-out", "100", "--method.attack.iterations", "3", "--probe.attack.iterations", "2"]
EXACT = [*TOGETHER, "--model", "msd-lenet", "--method.attack.start", "zero"]  # no batch normalisation, no random numbers


def torchrun(*arguments: str, processes: int = 2) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m", "ccat", "train"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_two_processes_take_the_steps_of_one(here: Path) -> None:  # noqa: F811
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
    from ccat import create_model  # noqa: PLC0415

    return dict(create_model("msd-lenet", torch.Generator().manual_seed(0), channels=1, classes=10).state_dict())


def test_training_together_survives_a_lost_process_and_keeps_others_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    arguments = [*TOGETHER, "--epochs", "40"]
    whole = torchrun(*arguments, "--out", "runs/whole")
    assert whole.communicate()[0].count("runs/whole: after 40 epochs") == 1
    process = torchrun(*arguments, "--out", "runs/killed")
    wait_for("runs/killed/checkpoint.safetensors", process)
    assert "runs/killed is in use by another process (process" in says(capsys, "train", *arguments, "--run", "runs/killed", error=True)
    second = torchrun(*arguments, "--out", "runs/killed")
    said = second.communicate()[1]
    assert "runs/killed is in use by another process" in said
    assert "closed by peer" not in said, "the others end without a word"
    assert second.returncode != 0
    os.kill(random.choice(_ranks(process.pid)), signal.SIGKILL)
    process.communicate()
    assert process.returncode != 0
    assert not (Path("runs/killed") / "model.safetensors").exists()
    again = torchrun(*arguments, "--out", "runs/killed")
    assert again.communicate()[0].count("runs/killed: after 40 epochs") == 1, "a lock of the dead keeps nobody out"
    assert Run.open(Path("runs/killed")).weights == Run.open(Path("runs/whole")).weights
    assert [entry["epoch"] for entry in Run.open(Path("runs/killed")).log()] == list(range(1, 41))


def test_a_batch_that_cannot_be_shared_is_refused(here: Path) -> None:  # noqa: F811
    process = torchrun(*TOGETHER, "--epochs", "1", "--batch", "25", "--out", "runs/odd")
    assert "a batch of 25 cannot be shared by 2 processes" in process.communicate()[1]


def _children(process: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in found.split()]


def _ranks(process: int) -> list[int]:
    return [child for child in _children(process) if "ccat" in Path(f"/proc/{child}/cmdline").read_text()]


# ---- tracking


def test_tensorboard_shows_the_log(here: Path) -> None:  # noqa: F811
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    main(["train", *TINY, "--epochs", "3", "--run", "runs/tracked", "--tensorboard"])
    shown = EventAccumulator("runs/tracked/tensorboard").Reload()
    losses = [(event.step, event.value) for event in shown.Scalars("loss")]
    log = Run.open(Path("runs/tracked")).log()
    assert losses == [(entry["epoch"], pytest.approx(entry["loss"])) for entry in log]
    main(["train", *TINY, "--epochs", "3", "--run", "runs/tracked", "--tensorboard"])
    assert len(list(Path("runs/tracked/tensorboard").iterdir())) == 1, "what is trained writes no more"
    assert {"clean_error", "adversarial_confidence"} <= set(shown.Tags()["scalars"])


# ---- interruptions


def test_a_suite_interrupted_again_and_again_ends_in_the_same_bytes(trained: Run, here: Path) -> None:  # noqa: F811
    """The driver or one of its workers is killed, at any moment."""
    shutil.copytree(trained.path, "runs/killed")
    arguments = ["--suite", "tiny", "--examples", "1500", "--workers"]
    main(["attack", "tiny", *arguments, "1"])
    kills, luck = 0, random.Random()
    while kills < KILLS:
        process = start(here / "p.py", "attack", "killed", *arguments, "2")
        before = set(Path().glob("runs/killed/attempts/*/[0-9]*"))
        while process.poll() is None and before == set(Path().glob("runs/killed/attempts/*/[0-9]*")) and luck.random() > 0.002:
            time.sleep(0.01)
        time.sleep(luck.uniform(0, 0.2))
        workers = [child for child in _children(process.pid) if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]
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
    assert "unfinished" not in Run.open(Path("runs/killed")).disk_use() or Run.open(Path("runs/killed")).prune() > 0


@pytest.mark.parametrize(
    ("error", "message"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "permission denied"), (errno.EIO, "input/output error")],
)
def test_what_cannot_be_written_is_said_and_done_later(
    trained: Run,  # noqa: F811
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
    assert f"cannot be written: {message}. What was stored before stays" in text
    assert not list(trained.path.rglob(".*.part"))
    assert len(dict(trained.attempts())) > 0, "readable"
    monkeypatch.setattr("ccat.files.os.fsync", real)
    says(capsys, "attack", "tiny", *command)
    assert same(trained.path, Path("runs/whole"))


def test_a_run_that_is_deleted_meanwhile_is_not_made_again(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def progress(done: int, *_: Any) -> None:
        if done:
            shutil.rmtree(trained.path)

    with pytest.raises(StoreError, match=r"runs/tiny is gone|there is no run at runs/tiny"):
        attack(trained, "tiny", CASES, 100, Local(1), "cpu", progress)
    assert not trained.path.exists()
    with pytest.raises(NotWrittenError, match=r"runs/tiny is gone, or its run\.json is"):
        trained.rewrite_log([])
    assert not trained.path.exists()
