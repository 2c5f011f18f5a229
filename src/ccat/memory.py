"""The machine's memory: how much is free, and freed memory that is kept for the next pass."""

import ctypes
import functools
import math
from pathlib import Path

import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in glibc's malloc.h
_KEPT = 1 << 30


@functools.cache
def keep_freed() -> None:
    """Keeps up to 1 GiB of freed memory in this process instead of giving it back to the system, which costs a third of a small pass.

    Large tensors otherwise go back as soon as they are freed, and each page of the next one has to be asked for and cleared again. Only
    where the C library is glibc, which is to say on Linux; elsewhere nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _KEPT)
    mallopt(_TRIM_THRESHOLD, _KEPT)


def free(device: str) -> float:
    """Bytes of memory that can still be used; infinite where nobody says."""
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(torch.device(device) if ":" in device else torch.cuda.current_device())[0]
    return min(_available(Path("/proc/meminfo")), _allowed(Path("/sys/fs/cgroup")))


def _available(file: Path) -> float:
    """What the system says."""
    try:
        lines = dict(line.split(":", 1) for line in file.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return math.inf


def _allowed(group: Path) -> float:
    """What a container may use and does not yet, files that are only cached aside."""
    try:
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())["inactive_file"]
        return int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()) + int(cached)
    except (OSError, ValueError, KeyError):  # no such group, or "max"
        return math.inf
