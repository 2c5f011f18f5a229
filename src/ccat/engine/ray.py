"""Units of work as tasks on a Ray cluster, which runs a task again if its worker or node is lost.

Ray is optional (`pip install 'ccat-torch[ray]'`) and is imported when it is first used.
"""

import logging
import os
import pickle
import socket
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from ccat.engine.work import Common, Result, Unit, Work, WorkerError

_log = logging.getLogger(__name__)
_RETRIES = 10  # how often a task is run again after its worker or node was lost
_PATIENCE = 10.0  # seconds to wait for a connection


@dataclass(frozen=True)
class Ray:
    """An engine that computes on a Ray cluster.

    Attributes:
        address: Where the cluster is; "auto" is the one this machine belongs to, None starts one
            on this machine alone that lasts until the process ends.
        cpus: How many CPUs a task needs.
        gpus: How many GPUs a task needs; two tasks that need half a GPU share one.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    away: ClassVar[bool] = True

    def ready(self) -> None:
        """Connect to the cluster unless this process already is, and stay connected.

        Raises:
            WorkerError: Ray is not installed, there is no cluster at the address, or none of its
                nodes is large enough for a task.
        """
        ray = _ray()
        if not ray.is_initialized():
            _connect(ray, self.address)
        self._require_room(ray)

    def __call__(
        self, work: Work[Common, Unit, Result], common: Common, units: deque[Unit]
    ) -> Iterator[tuple[Unit, Result]]:
        self.ready()
        ray = _ray()
        pending: dict[Any, Unit] = {}
        try:
            shared = ray.put(pickle.dumps((work, common)))
            task = ray.remote(
                num_cpus=self.cpus,
                num_gpus=self.gpus,
                max_retries=_RETRIES,
                scheduling_strategy="SPREAD",
            )(_on_worker)
            while True:
                while units and len(pending) < 2 * self._slots(ray):
                    unit = units.popleft()
                    # Inside a list, the reference is passed on and not fetched for every task.
                    pending[task.remote([shared], unit)] = unit
                if not pending:
                    return
                (first, *_), _ = ray.wait(list(pending), num_returns=1)
                unit = pending.pop(first)
                try:
                    yield unit, pickle.loads(ray.get(first))
                except ray.exceptions.RayTaskError as failed:
                    raise failed.cause from None
                except ray.exceptions.RayError as lost:
                    _log.info("a task failed %d times: %s", _RETRIES + 1, lost)
                    raise WorkerError(
                        f"a task was lost {_RETRIES + 1} times, perhaps because memory ran out; "
                        "finished results are intact: start again with the same command "
                        f"({lost})"
                    ) from lost
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _slots(self, ray: Any) -> int:
        """Return how many tasks the nodes that are alive now can run at once."""
        there = ray.cluster_resources()
        by_cpu = there.get("CPU", 0) / self.cpus if self.cpus else float("inf")
        by_gpu = there.get("GPU", 0) / self.gpus if self.gpus else float("inf")
        return max(1, int(min(by_cpu, by_gpu, 10_000)))

    def _require_room(self, ray: Any) -> None:
        """Raise if no node is large enough for a task, which would then wait for ever."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(
            node.get("CPU", 0) >= self.cpus and node.get("GPU", 0) >= self.gpus for node in nodes
        ):
            raise WorkerError(
                f"no node of the Ray cluster has {self.cpus:g} CPUs and {self.gpus:g} GPUs for "
                "a task: ask for less with --cpus and --gpus"
            )


def _ray() -> Any:
    """Return the library Ray; imports are absolute, so this module does not hide it."""
    try:
        import ray  # noqa: PLC0415 (optional)
    except ImportError:
        raise WorkerError("Ray is not installed: pip install 'ccat-torch[ray]'") from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    _require_listening(address)
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
            **({"include_dashboard": False} if address is None else {}),
        )
    except (ConnectionError, RuntimeError, ValueError) as failed:
        first = str(failed).splitlines()[0] if str(failed) else type(failed).__name__
        raise WorkerError(
            f"there is no Ray cluster at {address or 'this machine'} ({first})"
        ) from failed


def _require_listening(address: str | None) -> None:
    """Raise at once if nothing listens at the address, where Ray itself would try for minutes."""
    if address == "auto":
        # `ray start` leaves the address of its cluster in this file.
        current = Path(tempfile.gettempdir()) / "ray" / "ray_current_cluster"
        address = os.environ.get("RAY_ADDRESS") or (
            current.read_text().strip() if current.exists() else ""
        )
        if not address:
            raise WorkerError(
                "this machine is not part of a Ray cluster: run `ray start --head`, "
                "or give the --address of a cluster"
            )
    if address is None or "://" in address or ":" not in address:
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, ValueError, OverflowError) as refused:
        raise WorkerError(f"there is no Ray cluster at {address} ({refused})") from refused


# In a worker process: the work and what is common, by the reference under which Ray keeps them.
_shared: dict[Any, tuple[Any, Any]] = {}


def _on_worker(reference: list[Any], unit: Any) -> bytes:
    """Compute a unit in a worker process, which lives on for the next task."""
    if reference[0] not in _shared:
        import ray  # noqa: PLC0415

        _shared.clear()
        _shared[reference[0]] = pickle.loads(ray.get(reference[0]))
        torch.set_num_threads(1)
    work, common = _shared[reference[0]]
    return pickle.dumps(work(common, unit))
