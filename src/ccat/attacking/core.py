"""The attack core: every missing block of every attempt, computed somewhere, kept somewhere.

`ccat.evaluate` keeps results in memory, `ccat attack` in a run directory; both use this loop. Work
is done by an engine: this process, local processes, or a cluster. The attempts of a sequence follow
each other block by block, because what one of them breaks rests in the next. What is certified
rests in all of them.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from ccat.attacking.block import Block, Target, attack_block
from ccat.attacking.case import BLOCK, Attempt, block_of, blocks_in, sequences
from ccat.attacking.rest import Rest, rows
from ccat.engine import Engine
from ccat.errors import PipelineError
from ccat.progress import Progress, inner_of
from ccat.threats import label

Common = TypeVar("Common")
_log = logging.getLogger(__name__)
_BACKWARD = 2  # a backward pass costs about as much as so many forward passes


class Unit(NamedTuple):
    """One block of one attempt, as a worker gets it; `resting` are examples to be left alone."""

    attempt: Attempt
    block: int
    resting: Sequence[int] = ()


class Results(Protocol):
    """Where blocks are kept."""

    def missing(self, attempt: Attempt, block: int) -> bool:
        """True if the block must be computed."""

    def block(self, attempt: Attempt, block: int) -> Block:
        """Return a block that is not missing."""

    def keep(self, attempt: Attempt, number: int, block: Block, delta: Tensor) -> None:
        """Keep what was found, whole or not at all."""


@dataclass
class Memory:
    """Results in this process's memory, by the attempt's key and the number of the block."""

    blocks: dict[tuple[str, int], Block] = field(default_factory=dict)
    deltas: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def missing(self, attempt: Attempt, block: int) -> bool:
        return (attempt.key, block) not in self.blocks

    def block(self, attempt: Attempt, block: int) -> Block:
        return self.blocks[attempt.key, block]

    def keep(self, attempt: Attempt, number: int, block: Block, delta: Tensor) -> None:
        self.blocks[attempt.key, number], self.deltas[attempt.key, number] = block, delta


def missing(attempts: Sequence[Attempt], blocks: int, results: Results) -> list[Unit]:
    """Return the blocks that are not kept yet, as units in which nothing rests."""
    units = [Unit(attempt, block) for attempt in attempts for block in range(blocks)]
    return [unit for unit in units if results.missing(unit.attempt, unit.block)]


class _Sequence:
    """One block of the attempts of a sequence, each of which waits for the one before."""

    def __init__(self, attempts: Sequence[Attempt], block: int, y: Tensor, rest: Rest) -> None:
        self.attempts, self.waiting, self.block = tuple(attempts), deque(attempts), block
        mine = slice(block * BLOCK, (block + 1) * BLOCK)
        self.labels = y[mine]
        self.certified = rest.certified(attempts[0].case.condition, len(y))[mine]
        self.broken = torch.zeros(len(self.labels), dtype=torch.bool)

    def next_unit(self, results: Results, rest: Rest) -> Unit | None:
        """Return the first missing unit, with the examples that rest in it; None at the end."""
        while self.waiting:
            attempt = self.waiting[0]
            if results.missing(attempt, self.block):
                return Unit(attempt, self.block, rows(self.broken | self.certified))
            found = results.block(attempt, self.block)
            self.broken |= rest.broken(attempt.case, found, self.labels)
            self.waiting.popleft()
        return None


def attack(
    attempts: Sequence[Attempt],
    y: Tensor,
    results: Results,
    rest: Rest,
    engine: Engine,
    work: Callable[[Common, Unit], tuple[Block, Tensor]],
    common: Common,
    shape: tuple[int, int, int],
    progress: Progress,
) -> None:
    """Compute missing blocks on an engine and keep each as soon as it is there.

    Args:
        attempts: What `attempts_of` returned.
        y: The labels of all attacked images.
        results: Where to keep blocks.
        rest: Which examples need no further attacks.
        engine: Where to compute.
        work: Computes one unit from what all units share; in most cases a call of `solve`.
        common: What all units share.
        shape: Of an image (C, H, W), for the progress in terms of passes.
        progress: Called after each unit.
    """
    count = blocks_in(len(y))
    todo = missing(attempts, count, results)
    total, done, finished = sum(weight(unit, shape) for unit in todo), 0, 0
    places = [
        _Sequence(sequence, block, y, rest)
        for sequence in sequences(attempts)
        for block in range(count)
    ]
    of = {(one.key, place.block): place for place in places for one in place.waiting}
    ready = [unit for place in places if (unit := place.next_unit(results, rest))]
    queue = deque(sorted(ready, key=lambda unit: -weight(unit, shape)))
    _log.info(
        "%d of %d blocks are to be computed, the others are stored",
        *(len(todo), len(attempts) * count),
    )
    progress(0, total, f"{len(todo)} blocks")
    inner, of_case = inner_of(progress), Counter(map(_title, todo))
    ended, passes = Counter[str](), Counter[str]()
    for unit, (block, delta) in engine(work, common, queue):
        place = of[unit.attempt.key, unit.block]
        kept = replace(block, certified=place.certified)
        results.keep(unit.attempt, unit.block, kept, delta)
        after = place.next_unit(results, rest)
        queue.extend([after] if after else [])
        done, finished = done + weight(unit, shape), finished + 1
        passes.update(forwards=block.forwards, backwards=block.backwards)
        title = _title(unit)
        ended[title] += 1
        text = f"{finished} of {len(todo)} blocks, {title}"
        last = finished == len(todo)
        progress(done, total, _summary(finished, passes, places, attempts) if last else text)
        inner(ended[title], of_case[title], title)


def _title(unit: Unit) -> str:
    case = unit.attempt.case
    return f"{case.condition.title} {case.name}"


def _summary(
    blocks: int, passes: Mapping[str, int], places: Sequence[_Sequence], attempts: Sequence[Attempt]
) -> str:
    """Return what was done in a line: blocks, passes per image, and images that were broken."""
    broken: dict[int, Tensor] = {}
    for place in places:
        if not any(one.case.condition.on_noise for one in place.attempts):
            before = broken.get(place.block, torch.zeros_like(place.broken))
            broken[place.block] = before | place.broken
    images = sum(len(place.labels) for place in places if place.attempts == places[0].attempts)
    text = (
        f"{blocks} blocks, per image {passes['forwards'] / images:.0f} forwards and "
        f"{passes['backwards'] / images:.0f} backwards"
    )
    if (tpr := attempts[0].rest_at) is None or not broken:
        return text
    many, of = sum(int(one.sum()) for one in broken.values()), sum(map(len, broken.values()))
    return f"{text}, {many} of {of} images wrong and accepted at {100 * tpr:g} % TPR"


def solve(target: Target, x: Tensor, y: Tensor, unit: Unit, device: str) -> tuple[Block, Tensor]:
    """Compute one unit: attack the block of images x, or of noise, that it is about.

    Raises:
        PipelineError: If the attack fails; says which, and on which examples.
    """
    attempt = unit.attempt
    x, y = (part.to(device) for part in block_of(x, y, attempt.case.source, unit.block))
    try:
        generator = attempt.generator(unit.block)
        return attack_block(target, attempt.case, x, y, generator, unit.resting)
    except (ValueError, MemoryError) as wrong:
        where = f"{label(attempt.case.threat)} {attempt.case.name}"
        first = unit.block * BLOCK
        raise PipelineError(
            f"{where}, in the block that begins at example {first}: {wrong}"
        ) from wrong


def weight(unit: Unit, shape: tuple[int, int, int]) -> int:
    """What a unit costs at most, in forward passes per image."""
    cost = unit.attempt.case.attack.cost(shape)
    return cost.forwards + _BACKWARD * cost.backwards
