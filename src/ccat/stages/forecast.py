"""What an attack will need before it is paid: how many images fit into memory at once, and how long each case takes."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ccat import memory
from ccat.attempts import BLOCK
from ccat.detectors import Detector
from ccat.models import folded
from ccat.recipes import Case
from ccat.stages.solving import posed
from ccat.threats import Threat

_SHARE = 0.5  # of the free memory
_REPEATS = 3
_BACKWARD = 2  # in forwards, for progress; a forecast measures it


class Forecast(NamedTuple):
    """Of one case: what is still to be computed. Seconds of one process; examples that can no longer change take less."""

    case: Case
    blocks: int
    forwards: int
    backwards: int
    seconds: float


def fitting(model: nn.Module, x: Tensor, device: str, workers: int) -> int:
    """How many images may go through the model at once: a whole block, or what half of the free memory holds."""
    image = x[:1].to(device)
    fast = folded(model, image)
    each = 2 * (_kept(fast, image, 2) - _kept(fast, image, 1)) + 10 * image.numel() * image.element_size()
    return max(1, min(BLOCK, int(_SHARE * min(memory.free(device), 1e18) / workers / each)))


def _kept(model: nn.Module, image: Tensor, count: int) -> int:
    """Bytes that a forward of so many images keeps for the backward."""
    total = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        model(image.expand(count, -1, -1, -1).clone().requires_grad_())
    return total


def weight(case: Case, shape: tuple[int, int, int]) -> int:
    """What a block of a case costs, in passes per image: for progress."""
    cost = case.attack.cost(shape)
    return cost.forwards + _BACKWARD * cost.backwards


def forecast(
    model: nn.Module, x: Tensor, y: Tensor, cases: Sequence[tuple[Case, int]], detectors: dict[str, Detector], batch: int
) -> list[Forecast]:
    """Each case with so many blocks to do, from a few passes of a block of images within each threat."""
    memory.keep_freed()
    shape = (x.shape[1], x.shape[2], x.shape[3])
    seconds: dict[tuple[Threat, bool], tuple[float, float]] = {}
    found = []
    for case, blocks in cases:
        kind = (case.threat, case.aware is not None)
        if kind not in seconds:
            problem = posed(model, x, y, case, None, detectors, batch)
            delta = case.threat.sample(x, torch.Generator().manual_seed(0))
            seconds[kind] = _timed(lambda: problem.at(delta)), _timed(lambda: problem.climb(delta))  # noqa: B023
        forward, both = (BLOCK / len(x) * one for one in seconds[kind])
        cost = case.attack.cost(shape)
        block = (cost.forwards - cost.backwards) * forward + cost.backwards * both
        found.append(Forecast(case, blocks, cost.forwards * blocks * BLOCK, cost.backwards * blocks * BLOCK, block * blocks))
    return found


def _timed(function: Callable[[], object]) -> float:
    """The median of some, after one that does not count."""
    times = []
    for _ in range(_REPEATS + 1):
        begin = time.perf_counter()
        function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])
