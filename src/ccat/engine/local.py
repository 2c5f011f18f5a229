"""Units of work in this process or on local ones.

A process computes with one thread: PyTorch's threads fight each other when several processes compute, and results are bit-identical
only then.
"""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ccat.engine.work import Common, Result, Unit, Work, WorkerError

_SMALL = 30_000  # bytes
_PATIENCE = 5.0  # seconds
_KILLED = "a worker process was killed, perhaps for lack of memory; what is finished is stored, start again"


def cores() -> int:
    """How many processes can compute at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Local:
    """On so many processes of this machine; one is this process itself."""

    workers: int = 1
    away: ClassVar[bool] = False

    def ready(self) -> None:
        """It always is."""

    def __call__(self, work: Work[Common, Unit, Result], common: Common, units: Sequence[Unit]) -> Iterator[tuple[Unit, Result]]:
        workers = min(self.workers, len(units))
        if workers > 1:
            yield from _on_processes(work, common, units, workers)
            return
        with one_thread():
            for unit in units:
                yield unit, work(common, unit)


def _on_processes(work: Work[Common, Unit, Result], common: Common, units: Sequence[Unit], workers: int) -> Iterator[tuple[Unit, Result]]:
    shared = pickle.dumps((work, common))
    if len(shared) > _SMALL:  # a worker killed before it has read more than a pipe holds would leave this process waiting for ever
        raise ValueError(f"what units share must be small on local processes, not {len(shared)} bytes: name files instead")
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(shared,)) as pool:
        waiting, unit_of = iter(units), dict[Future[bytes], Unit]()
        try:
            while True:
                while len(unit_of) < 2 * workers and (unit := next(waiting, None)) is not None:
                    unit_of[pool.submit(_packed, unit)] = unit
                if not unit_of:
                    return
                done, _ = wait(unit_of, _PATIENCE, return_when=FIRST_COMPLETED)
                if not done and any(process.exitcode is not None for process in list((pool._processes or {}).values())):
                    raise WorkerError(_KILLED)  # while it started, when the pool does not watch it yet
                for future in done:
                    yield unit_of.pop(future), pickle.loads(future.result())
        except BrokenProcessPool as broken:
            raise WorkerError(_KILLED) from broken
        except BaseException:  # an error, an interrupt, or nobody wants more: end the workers at once
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise


@contextmanager
def one_thread() -> Iterator[None]:
    """As workers compute."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(threads)


_shared: tuple[Any, Any] | None = None  # in a worker: the work and what all units have in common


def _packed(unit: Any) -> bytes:
    """As bytes: sent as they are, tensors would keep shared memory and three open files each until their last reader lets them go."""
    assert _shared is not None
    work, common = _shared
    return pickle.dumps(work(common, unit))


def _begin(shared: bytes) -> None:
    global _shared  # noqa: PLW0603 (what a process is started with)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _shared = pickle.loads(shared)


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers: they watch it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
