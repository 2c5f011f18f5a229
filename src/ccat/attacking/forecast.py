"""What an attack will cost: how many images fit into memory at once, and how long cases take."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ccat import memory
from ccat.attacking.block import Target, pose
from ccat.attacking.case import BLOCK, Case
from ccat.models import attack_copy
from ccat.rejection import Aware
from ccat.threats import Threat

_SHARE = 0.5  # of the free memory
_REPEATS = 3
_FEW = 10  # images of a rough forecast


class Forecast(NamedTuple):
    """What one case still needs, in seconds of one process; less where examples are retired."""

    case: Case
    blocks: int
    forwards: int
    backwards: int
    seconds: float


def fitting_batch(model: nn.Module, x: Tensor, device: str, workers: int) -> int:
    """Return how many images may go through the model at once.

    That is a whole block, or what half of the free memory holds when `workers` processes share it.
    """
    image = x[:1].to(device)
    fast = attack_copy(model, image)
    kept = _kept_bytes(fast, image, 2) - _kept_bytes(fast, image, 1)
    each = 2 * kept + 10 * image.numel() * image.element_size()
    return max(1, min(BLOCK, int(_SHARE * min(memory.free(device), 1e18) / workers / each)))


def forecast(
    target: Target, x: Tensor, y: Tensor, cases: Sequence[tuple[Case, int]]
) -> list[Forecast]:
    """Time a few passes within each threat and forecast the cases from their costs.

    Args:
        target: The model and what rejects.
        x: A block of images.
        y: Their labels.
        cases: Cases, each with the number of blocks it still has to do.
    """
    memory.keep_freed()
    shape = (x.shape[1], x.shape[2], x.shape[3])
    seconds: dict[tuple[Threat, bool], tuple[float, float]] = {}
    found = []
    for case, blocks in cases:
        kind = (case.threat, isinstance(case.objective, Aware))
        if kind not in seconds:
            seconds[kind] = _pass_seconds(target, case, x, y)
        forward, both = (BLOCK / len(x) * one for one in seconds[kind])
        cost = case.attack.cost(shape)
        images = blocks * BLOCK
        block = (cost.forwards - cost.backwards) * forward + cost.backwards * both
        passes = (cost.forwards * images, cost.backwards * images)
        found.append(Forecast(case, blocks, *passes, block * blocks))
    return found


def _pass_seconds(target: Target, case: Case, x: Tensor, y: Tensor) -> tuple[float, float]:
    """The time of a forward pass, and of a forward with a backward pass."""
    problem = pose(target, case, x, y)
    delta = case.threat.sample(x, torch.Generator().manual_seed(0))
    return _timed(lambda: problem.evaluate(delta)), _timed(lambda: problem.value_and_grad(delta))


def copy_seconds(copied: nn.Module, x: Tensor, cases: Sequence[tuple[Case, int]]) -> float:
    """Forecast all cases roughly, from a few passes of a few images; seconds of one process.

    Args:
        copied: The copy of the model that is attacked.
        x: Images (N, C, H, W).
        cases: Cases, each with the number of blocks it still has to do.
    """
    memory.keep_freed()
    x, shape = x[:_FEW], (x.shape[1], x.shape[2], x.shape[3])

    def forward() -> None:
        with torch.no_grad():
            copied(x)

    def both() -> None:
        with torch.enable_grad():
            images = x.detach().requires_grad_()
            torch.autograd.grad(copied(images).sum(), images)

    one, two = (_timed(run) * BLOCK / len(x) for run in (forward, both))
    costs = [(case.attack.cost(shape), blocks) for case, blocks in cases]
    return sum(
        blocks * ((cost.forwards - cost.backwards) * one + cost.backwards * two)
        for cost, blocks in costs
    )


def _kept_bytes(model: nn.Module, image: Tensor, count: int) -> int:
    """Bytes that a forward pass of `count` images keeps for the backward pass."""
    total = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        model(image.expand(count, -1, -1, -1).clone().requires_grad_())
    return total


def _timed(function: Callable[[], object]) -> float:
    """The median of three calls, after one that does not count."""
    times = []
    for _ in range(_REPEATS + 1):
        begin = time.perf_counter()
        function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])
