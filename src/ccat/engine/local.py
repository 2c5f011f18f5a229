"""Units of work in this process, or on several processes of this machine.

A process computes with one thread: with more, the threads of several processes would compete for
the same cores, and results would not be identical bit for bit.
"""

import logging
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch

from ccat.engine.work import Common, Result, Unit, Work, WorkerError

_log = logging.getLogger(__name__)
_SMALL = 30_000  # bytes that a pipe holds for certain
_PATIENCE = 5.0  # seconds between two looks at whether all workers are alive
_KILLED = (
    "a worker process was killed, perhaps because memory ran out; "
    "finished results are intact: start again with the same command"
)


def cores() -> int:
    """Return how many processes this machine can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Here:
    """An engine that computes in this process, with the threads it has."""

    away: ClassVar[bool] = False

    def ready(self) -> None:
        """Do nothing: this process is always ready."""

    def __call__(
        self, work: Work[Common, Unit, Result], common: Common, units: deque[Unit]
    ) -> Iterator[tuple[Unit, Result]]:
        while units:
            unit = units.popleft()
            yield unit, work(common, unit)


@dataclass(frozen=True)
class Local:
    """An engine that computes on `workers` processes of this machine; 1 is this process itself."""

    workers: int = 1
    away: ClassVar[bool] = False

    def ready(self) -> None:
        """Do nothing: this machine is always ready."""

    def __call__(
        self, work: Work[Common, Unit, Result], common: Common, units: deque[Unit]
    ) -> Iterator[tuple[Unit, Result]]:
        if min(self.workers, len(units)) > 1:
            yield from _on_processes(work, common, units, self.workers)
            return
        with one_thread():
            yield from Here()(work, common, units)


def _on_processes(
    work: Work[Common, Unit, Result], common: Common, units: deque[Unit], workers: int
) -> Iterator[tuple[Unit, Result]]:
    shared = pickle.dumps((work, common))
    if len(shared) > _SMALL:
        # A pipe takes this much at once. If a worker were killed while it still had to read the
        # rest, this process would wait for ever. It is sent with every unit.
        raise ValueError(
            f"what units share must be at most {_SMALL} bytes on local processes, "
            f"not {len(shared)}: pass the names of files instead"
        )
    _log.info("%d processes compute %d units, and what follows from them", workers, len(units))
    with _pool(workers) as pool:
        unit_of = dict[Future[bytes], Unit]()
        try:
            while True:
                while units and len(unit_of) < 2 * workers:
                    unit = units.popleft()
                    unit_of[pool.submit(_packed, shared, unit)] = unit
                if not unit_of:
                    return
                done, _ = wait(unit_of, _PATIENCE, return_when=FIRST_COMPLETED)
                if not done and any(
                    process.exitcode is not None
                    for process in list((pool._processes or {}).values())
                ):
                    # It was killed while starting, when the pool does not watch it yet.
                    raise WorkerError(_KILLED)
                for future in done:
                    yield unit_of.pop(future), pickle.loads(future.result())
        except BrokenProcessPool as broken:
            raise WorkerError(_KILLED) from broken
        except BaseException:
            # An error, an interrupt, or the caller wants no more results: end the workers at once.
            processes = list((pool._processes or {}).values())
            for process in processes:
                process.terminate()
            for process in processes:
                process.join(_PATIENCE)
            # If a worker was killed while it wrote a result, the pool waits for the rest of it for
            # as long as anybody could write it: this process is the last that could.
            with suppress(OSError, AttributeError):
                pool._result_queue._writer.close()  # type: ignore[attr-defined]
            raise


_kept: dict[int, ProcessPoolExecutor] | None = None  # by the number of workers


@contextmanager
def workers_kept() -> Iterator[None]:
    """Keep worker processes from one use of `Local` to the next inside this context.

    Starting a process and importing PyTorch takes seconds. Processes start when there is a unit for
    them, and end with the context, or when a unit fails.
    """
    global _kept  # noqa: PLW0603 (what engines are asked to do does not depend on it)
    if _kept is not None:
        yield
        return
    _kept = {}
    try:
        yield
    finally:
        pools, _kept = _kept, None
        for pool in pools.values():
            pool.shutdown()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Provide processes, kept ones or new ones; afterwards they are kept, or end."""
    pool = _kept.pop(workers, None) if _kept is not None else None
    spawn = multiprocessing.get_context("spawn")
    pool = pool or ProcessPoolExecutor(workers, spawn, initializer=_begin)
    try:
        yield pool
    except BaseException:
        pool.shutdown()
        raise
    if _kept is None or workers in _kept:
        pool.shutdown()
    else:
        _kept[workers] = pool


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside this context, as workers do."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=1)
def _unpacked(shared: bytes) -> tuple[Any, Any]:
    """Return the work and what is common, in a worker process."""
    found: tuple[Any, Any] = pickle.loads(shared)
    return found


def _packed(shared: bytes, unit: Any) -> bytes:
    """Compute a unit and return its result pickled.

    Tensors sent as they are would each hold shared memory and open files until their last reader
    lets go of them.
    """
    work, common = _unpacked(shared)
    return pickle.dumps(work(common, unit))


def _begin() -> None:
    """Prepare a worker process for its units."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """End this worker when its parent is gone: a killed parent cannot end its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
