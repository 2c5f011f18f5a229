"""Runs units of work, in this process or on local processes, and hands their results back in order.

A process computes with one thread: PyTorch's threads fight each other when several processes compute, and results are bit-identical
only then.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
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
    """Each unit with its result, in the order of the units. The function and the units must be picklable where workers > 1."""
    workers = min(workers, len(units))
    if workers <= 1:
        for unit in units:
            yield unit, function(unit)
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        yield from zip(units, pool.map(function, units), strict=True)
    except BrokenProcessPool as broken:
        raise WorkerError("a worker process was killed, perhaps for lack of memory; what is finished is stored, start again") from broken
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    torch.set_num_threads(1)
