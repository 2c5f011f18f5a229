"""Attacking: one core, in memory, for `ccat.evaluate`, the command line and its workers.

A *case* says which attack maximises what within which threat. An *attempt* is one restart of it
against certain weights and data, made in *blocks* of a hundred examples. `attack` computes the
blocks that are missing on an engine and keeps them, in memory or in a run directory; an example
that one attempt has broken *rests* in those that follow, one that is certified in all of them.
`outcomes` turns blocks into what an
evaluation counts.

    block, delta = attack_block(Target(model), case, x, y, generator)
"""

from ccat.attacking.block import Block, Target, attack_block
from ccat.attacking.case import (
    BLOCK,
    Attempt,
    AttemptRecord,
    Case,
    attempts_of,
    block_of,
    blocks_in,
)
from ccat.attacking.core import Memory, Results, Unit, attack, missing, solve
from ccat.attacking.rest import Certificate, Rest, best_certificates, rest_at
from ccat.attacking.worst import Worst, merge, worst_of_block

__all__ = [
    "BLOCK",
    "Attempt",
    "AttemptRecord",
    "Block",
    "Case",
    "Certificate",
    "Memory",
    "Rest",
    "Results",
    "Target",
    "Unit",
    "Worst",
    "attack",
    "attack_block",
    "attempts_of",
    "best_certificates",
    "block_of",
    "blocks_in",
    "merge",
    "missing",
    "rest_at",
    "solve",
    "worst_of_block",
]
