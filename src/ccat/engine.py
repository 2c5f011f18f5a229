"""Runs units of work, in this process or on local processes, and hands each result back as soon as it is there.

A process computes with one thread: PyTorch's threads fight each other when several processes compute, and results are bit-identical
only then.
"""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

import torch

Unit = TypeVar("Unit")
Result = TypeVar("Result")


class WorkerError(Exception):
    """A worker process ended before its work was done."""


def cores() -> int:
    """How many processes can compute at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(function: Callable[[Unit], Result], units: Sequence[Unit], workers: int) -> Iterator[tuple[Unit, Result]]:
    """Each unit with its result, as they are done. The function and the units must be picklable where workers > 1."""
    workers = min(workers, len(units))
    if workers <= 1:
        with one_thread():
            for unit in units:
                yield unit, function(unit)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin) as pool:
        unit_of = {pool.submit(_packed, function, unit): unit for unit in units}
        try:
            for future in as_completed(list(unit_of)):
                yield unit_of.pop(future), pickle.loads(future.result())
        except BrokenProcessPool as broken:
            raise WorkerError(
                "a worker process was killed, perhaps for lack of memory; what is finished is stored, start again"
            ) from broken
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


def _packed(function: Callable[[Unit], Result], unit: Unit) -> bytes:
    """As bytes: sent as they are, tensors would keep shared memory and three open files each until their last reader lets them go."""
    return pickle.dumps(function(unit))


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers: they watch it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
