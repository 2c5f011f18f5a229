"""Attempts: what one restart of a case found, in blocks of a hundred examples, and how it is known and combined.

Shapes: probabilities (N, K), value, rank, by (N,), delta (N, C, H, W), N up to a hundred.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ccat.fields import digest
from ccat.recipes import Case

BLOCK = 100  # examples


@dataclass(frozen=True)
class Attempt:
    """One restart of a case against certain weights and data. Its stored blocks are known by its key."""

    case: Case
    restart: int
    weights: str
    data: str
    seed: int
    key: str

    @classmethod
    def of(cls, case: Case, restart: int, weights: str, data: str, seed: int = 0) -> "Attempt":
        return cls(case, restart, weights, data, seed, attempt_key(case.identity(), restart, weights, data, seed))

    def seed_of(self, block: int) -> int:
        """For the generator of one block: nothing but the case, the restart and the block matter."""
        return int(digest([self.seed, self.case.identity(), self.restart, block])[:15], 16)


@dataclass(frozen=True)
class Block:
    """What is kept of an attempt on up to a hundred examples."""

    probabilities: Tensor
    value: Tensor
    seconds: float
    forwards: int
    backwards: int
    scores: Mapping[str, Tensor] | None = None  # (N,) of detectors, by the threats they were fitted for


@dataclass(frozen=True)
class Worst:
    """Per example the perturbation that ranks highest among the attempts `of` (keys), and a number for the one it is `by`."""

    delta: Tensor
    rank: Tensor
    by: Tensor
    of: frozenset[str]


def attempt_key(identity: Mapping[str, Any], restart: int, weights: str, data: str, seed: int) -> str:
    """A SHA of all that the numbers of an attempt depend on."""
    return digest({"case": dict(identity), "restart": restart, "weights": weights, "data": data, "seed": seed})


def merged(one: Worst, other: Worst | None) -> Worst:
    """Per example the higher rank, whatever the order: of equals the one with the smaller number."""
    if other is None:
        return one
    first = (one.rank > other.rank) | ((one.rank == other.rank) & (one.by < other.by))
    delta = torch.where(first[:, None, None, None], one.delta, other.delta)
    return Worst(delta, torch.where(first, one.rank, other.rank), torch.where(first, one.by, other.by), one.of | other.of)
