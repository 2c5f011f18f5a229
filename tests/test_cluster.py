"""Attacks on a Ray cluster: the same bytes as on one machine, also where nodes are lost."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import torch
from ray.cluster_utils import Cluster
from runs import CASES, TINY, same, says

from ccat.cli import main
from ccat.engine import Local, Ray, WorkerError
from ccat.pipeline.attack import attack
from ccat.runs import Run

pytestmark = pytest.mark.xdist_group("scale")  # one after the other: each has processes of its own


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes; tests add a third one and remove it."""
    before = os.environ.get("PYTHONPATH", "")
    places = [str(Path(__file__).parent), before]  # its workers run functions of this file
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    many = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    many.add_node(num_cpus=1)
    ray.init(address=many.address, log_to_driver=False, logging_level=logging.ERROR)
    yield many
    ray.shutdown()
    many.shutdown()  # type: ignore[no-untyped-call]
    os.environ["PYTHONPATH"] = before


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
    found = sorted(Ray(cluster.address)(square, 3, deque(range(12))))
    assert [(unit, value) for unit, (value, _) in found] == [(n, 3 * n * n) for n in range(12)]
    assert len({process for _, (_, process) in found}) < 12, "workers live on"
    assert os.getpid() not in {process for _, (_, process) in found}
    assert ray.is_initialized(), "a connection that was there is left"
    with pytest.raises(ValueError, match=r"^unit 3 is wrong$"):
        list(Ray(cluster.address)(fails, None, deque(range(6))))
    with pytest.raises(WorkerError, match="no node of the Ray cluster has 1 CPUs and 1 GPUs"):
        list(Ray(cluster.address, gpus=1)(square, 3, deque(range(2))))


def test_a_worker_killed_while_it_computes_costs_its_unit_once_more(
    cluster: Cluster, tmp_path: Path
) -> None:
    found = list(Ray(cluster.address)(dies_once, str(tmp_path), deque(range(6))))
    assert sorted(unit for unit, _ in found) == list(range(6))
    assert (tmp_path / "tried-2").exists()
    assert {threads for _, threads in found} == {1}


def test_a_node_removed_costs_its_units_once_more(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    results, found = Ray(cluster.address)(slow, str(tmp_path), deque(range(12))), []
    for count, (unit, value) in enumerate(results):
        found.append(unit)
        assert unit == value
        if count == 3:
            cluster.remove_node(node)
    assert sorted(found) == list(range(12)), "nothing lost, nothing twice"


def test_a_suite_on_a_cluster_that_loses_a_node_gives_the_same_bytes(
    trained: Run,
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
    assert "0 blocks computed" in says(
        capsys, "attack", "away", "--suite", "tiny", "--examples", "300", "--engine", "ray"
    )


def test_a_cluster_that_is_not_there_is_said_at_once_and_nothing_is_planned(
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["train", *TINY, "--epochs", "1", "--run", "runs/tiny"])
    command = [
        sys.executable,
        "-m",
        "ccat",
        "attack",
        "tiny",
        "--engine",
        "ray",
        "--address",
        "127.0.0.1:9",
    ]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2
    assert "ccat: there is no Ray cluster at 127.0.0.1:9 (" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert Run.open(Path("runs/tiny")).plan.asked() == []


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
def test_options_that_do_not_go_together(
    trained: Run, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    assert message in says(
        capsys, "attack", "tiny", "--suite", "tiny", *options.split(), error=True
    )
