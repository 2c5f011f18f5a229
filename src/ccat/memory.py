"""The machine's memory: how much of it is free, and how a process keeps what it has freed."""

import ctypes
import functools
import math
from pathlib import Path

import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from glibc's malloc.h
_KEPT = 1 << 30  # bytes


@functools.cache
def keep_freed() -> None:
    """Keep up to 1 GiB of freed memory in this process, for the tensors of the next pass.

    This saves a small pass a third of its time: otherwise large tensors return to the system as
    soon as they are freed, and every page of the next tensor has to be asked for and cleared again.
    It works with glibc, which is to say on Linux; elsewhere nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _KEPT)
    mallopt(_TRIM_THRESHOLD, _KEPT)


def free(device: str) -> float:
    """Return how many bytes of memory can still be used on a device, or infinity if unknown.

    On a CPU that is what the system or the container has left, whichever is less.
    """
    if device.startswith("cuda"):
        numbered = ":" in device
        return torch.cuda.mem_get_info(
            torch.device(device) if numbered else torch.cuda.current_device()
        )[0]
    return min(_available(Path("/proc/meminfo")), _allowed(Path("/sys/fs/cgroup")))


def _available(meminfo: Path) -> float:
    """Return the bytes that the system can still give."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return math.inf


def _allowed(group: Path) -> float:
    """Return the bytes that a container may still use; cached files count as free."""
    try:
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        return limit - used + int(stat["inactive_file"])
    except (OSError, ValueError, KeyError):  # there is no such group, or its limit is "max"
        return math.inf
