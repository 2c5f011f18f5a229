"""Attacking: one core, in memory, for `ccat.evaluate`, the command line and its workers.

A *case* says which attack maximises what within which threat. An *attempt* is one restart of it
against certain weights and data, made in *blocks* of a hundred examples. `attack` computes the
blocks that are missing on an engine and keeps them, in memory or in a run directory; `outcomes`
turns them into what an evaluation counts.

    block, delta = attack_block(Target(model), case, x, y, generator)
"""

from ccat.attacking.block import Block, Target, Worst, attack_block, merge, worst_of_block
from ccat.attacking.case import (
    BLOCK,
    Attempt,
    AttemptRecord,
    Case,
    attempts_of,
    block_of,
    blocks_in,
)
from ccat.attacking.core import Memory, Results, Unit, attack, plan, solve

__all__ = [
    "BLOCK",
    "Attempt",
    "AttemptRecord",
    "Block",
    "Case",
    "Memory",
    "Results",
    "Target",
    "Unit",
    "Worst",
    "attack",
    "attack_block",
    "attempts_of",
    "block_of",
    "blocks_in",
    "merge",
    "plan",
    "solve",
    "worst_of_block",
]
