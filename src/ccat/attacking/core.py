"""The attack core: every missing block of every attempt, computed somewhere, kept somewhere.

`ccat.evaluate` keeps results in memory, `ccat attack` in a run directory; both use this loop. Work
is done by an engine: this process, local processes, or a cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor

from ccat.attacking.block import Block, Target, attack_block
from ccat.attacking.case import BLOCK, Attempt, block_of
from ccat.engine import Engine
from ccat.errors import PipelineError
from ccat.progress import Progress
from ccat.threats import label

Common = TypeVar("Common")
_BACKWARD = 2  # a backward pass costs about as much as so many forward passes


class Unit(NamedTuple):
    """One block of one attempt, as a worker gets it."""

    attempt: Attempt
    block: int


class Results(Protocol):
    """Where blocks are kept."""

    def missing(self, unit: Unit) -> bool:
        """True if the unit must be computed."""

    def keep(self, unit: Unit, block: Block, delta: Tensor) -> None:
        """Keep what was found, whole or not at all."""


@dataclass
class Memory:
    """Results in this process's memory."""

    blocks: dict[Unit, Block] = field(default_factory=dict)
    deltas: dict[Unit, Tensor] = field(default_factory=dict)

    def missing(self, unit: Unit) -> bool:
        return unit not in self.blocks

    def keep(self, unit: Unit, block: Block, delta: Tensor) -> None:
        self.blocks[unit], self.deltas[unit] = block, delta


def plan(
    attempts: Sequence[Attempt], blocks: int, results: Results, shape: tuple[int, int, int]
) -> list[Unit]:
    """Return the units that are not kept yet, the costliest first."""
    units = [Unit(attempt, block) for attempt in attempts for block in range(blocks)]
    missing = [unit for unit in units if results.missing(unit)]
    return sorted(missing, key=lambda unit: -weight(unit, shape))


def attack(
    units: Sequence[Unit],
    results: Results,
    engine: Engine,
    work: Callable[[Common, Unit], tuple[Block, Tensor]],
    common: Common,
    shape: tuple[int, int, int],
    progress: Progress,
) -> None:
    """Compute units on an engine and keep each result as soon as it is there.

    Args:
        units: What `plan` returned.
        results: Where to keep them.
        engine: Where to compute them.
        work: Computes one unit from what all units share; in most cases a call of `solve`.
        common: What all units share, sent to each worker once.
        shape: Of an image (C, H, W), for the progress in terms of passes.
        progress: Called after each unit.
    """
    total, done = sum(weight(unit, shape) for unit in units), 0
    progress(0, total, f"{len(units)} blocks")
    for count, (unit, (block, delta)) in enumerate(engine(work, common, units), start=1):
        results.keep(unit, block, delta)
        done += weight(unit, shape)
        case = unit.attempt.case
        text = f"{count} of {len(units)} blocks, {case.condition.title} {case.name}"
        progress(done, total, text)


def solve(target: Target, x: Tensor, y: Tensor, unit: Unit, device: str) -> tuple[Block, Tensor]:
    """Compute one unit: attack the block of images x, or of noise, that it is about.

    Raises:
        PipelineError: If the attack fails; says which, and on which examples.
    """
    attempt = unit.attempt
    x, y = (part.to(device) for part in block_of(x, y, attempt.case.source, unit.block))
    try:
        return attack_block(target, attempt.case, x, y, attempt.generator(unit.block))
    except (ValueError, MemoryError) as wrong:
        where = f"{label(attempt.case.threat)} {attempt.case.name}"
        first = unit.block * BLOCK
        raise PipelineError(
            f"{where}, in the block that begins at example {first}: {wrong}"
        ) from wrong


def weight(unit: Unit, shape: tuple[int, int, int]) -> int:
    """What a unit costs, in forward passes per image."""
    cost = unit.attempt.case.attack.cost(shape)
    return cost.forwards + _BACKWARD * cost.backwards
