"""Units of work on a Ray cluster: as tasks, which Ray runs again elsewhere when a worker or a node is lost."""

import os
import pickle
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from ccat.engine.work import Common, Result, Unit, Work, WorkerError

_LIVES = 10  # how often a task is run again after the worker or the node it was on was lost
_PATIENCE = 10.0  # seconds


@dataclass(frozen=True)
class Ray:
    """On the cluster at `address` ("auto": the one this machine is part of; None: one of this machine alone, until the process ends).

    `cpus` and `gpus` are what a task asks for: two tasks of half a GPU share one.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    away: ClassVar[bool] = True

    def ready(self) -> None:
        """Connects, unless this process is connected already, and stays so."""
        ray = _ray()
        if not ray.is_initialized():
            _connect(ray, self.address)
        self._require_room(ray)

    def __call__(self, work: Work[Common, Unit, Result], common: Common, units: Sequence[Unit]) -> Iterator[tuple[Unit, Result]]:
        self.ready()
        ray = _ray()
        pending: dict[Any, Unit] = {}
        waiting = iter(units)
        try:
            shared = ray.put(pickle.dumps((work, common)))
            task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=_LIVES, scheduling_strategy="SPREAD")(_on_worker)
            while True:
                while len(pending) < 2 * self._slots(ray) and (unit := next(waiting, None)) is not None:
                    pending[task.remote([shared], unit)] = unit  # in a list, it is not fetched for every task
                if not pending:
                    return
                (first, *_), _ = ray.wait(list(pending), num_returns=1)
                unit = pending.pop(first)
                try:
                    yield unit, pickle.loads(ray.get(first))
                except ray.exceptions.RayTaskError as failed:
                    raise failed.cause from None
                except ray.exceptions.RayError as lost:
                    raise WorkerError(
                        f"a task was lost {_LIVES + 1} times, perhaps for lack of memory; what is finished is stored, start again ({lost})"
                    ) from lost
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _slots(self, ray: Any) -> int:
        """How many tasks run at once, on the nodes that there are now."""
        there = ray.cluster_resources()
        by_cpu = there.get("CPU", 0) / self.cpus if self.cpus else float("inf")
        by_gpu = there.get("GPU", 0) / self.gpus if self.gpus else float("inf")
        return max(1, int(min(by_cpu, by_gpu, 10_000)))

    def _require_room(self, ray: Any) -> None:
        """A task that no node can hold would wait for ever."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= self.cpus and node.get("GPU", 0) >= self.gpus for node in nodes):
            raise WorkerError(f"no node of the Ray cluster has {self.cpus:g} CPUs and {self.gpus:g} GPUs for a task: ask for less")


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415 (an option)
    except ImportError:
        raise WorkerError("Ray is not installed: pip install 'ccat-torch[ray]'") from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    _require_listening(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **({"include_dashboard": False} if address is None else {}))
    except (ConnectionError, RuntimeError, ValueError) as failed:
        first = str(failed).splitlines()[0] if str(failed) else type(failed).__name__
        raise WorkerError(f"there is no Ray cluster at {address or 'this machine'} ({first})") from failed


def _require_listening(address: str | None) -> None:
    """Ray itself would try for minutes."""
    if address == "auto":
        current = Path(tempfile.gettempdir()) / "ray" / "ray_current_cluster"  # where `ray start` leaves it
        address = os.environ.get("RAY_ADDRESS") or (current.read_text().strip() if current.exists() else "")
        if not address:
            raise WorkerError("this machine is not part of a Ray cluster: `ray start --head`, or name the --address of one")
    if address is None or "://" in address or ":" not in address:
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, ValueError, OverflowError) as refused:
        raise WorkerError(f"there is no Ray cluster at {address} ({refused})") from refused


_shared: dict[Any, tuple[Any, Any]] = {}  # in a worker: the work and what all units have in common, by where Ray keeps it


def _on_worker(reference: list[Any], unit: Any) -> bytes:
    """In a worker's process, which lives on for the next task."""
    if reference[0] not in _shared:
        import ray  # noqa: PLC0415

        _shared.clear()
        _shared[reference[0]] = pickle.loads(ray.get(reference[0]))
        torch.set_num_threads(1)
    work, common = _shared[reference[0]]
    return pickle.dumps(work(common, unit))
