"""Cases and attempts: a row of a table of attacks, and one restart of it.

An attempt is made block by block, a hundred examples at a time. A block's random numbers depend on
the case, the restart and the block alone, so results depend neither on how many examples are asked
for, nor on the order, nor on the number of workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor

from ccat import codec
from ccat.attacks import Attack
from ccat.checks import require_count
from ccat.data.images import to_floats
from ccat.objectives import Objective, other_class_confidence
from ccat.rejection import Aware
from ccat.threats import Condition, Source, Threat, label


@dataclass(frozen=True)
class Case:
    """An attack within a threat, and what it maximises.

    `source="noise"` attacks uniform noise, which has no right answer, instead of test images. Cases
    of one family are shown together; by default a case is a family of its own.
    """

    name: str
    threat: Threat
    attack: Attack
    objective: Objective | Aware = other_class_confidence
    restarts: int = 1
    source: Source = "test"
    family: str = ""

    def __post_init__(self) -> None:
        require_count("Case: restarts", self.restarts)
        if self.source not in ("test", "noise"):
            raise ValueError(f"Case: source must be test or noise, not {self.source!r}")
        object.__setattr__(self, "family", self.family or self.name)
        known = codec.is_resolved(self.attack) and codec.is_resolved(self.threat)
        if known and not self.attack.supports(self.threat):
            raise ValueError(
                f"case {self.name!r}: {type(self.attack).__name__} does not support the threat "
                f"{label(self.threat)}"
            )

    @property
    def condition(self) -> Condition:
        """What is attacked: the threat, around images or noise."""
        return Condition(self.threat, self.source)

    def identity(self) -> dict[str, Any]:
        """Return what the case's numbers depend on, as plain data.

        An attack that cannot be stored, such as a lambda, is known by the case's name.
        """
        plain = codec.encode(self, opaque=True)
        known = identity(plain)
        return {**known, "name": self.name} if codec.is_opaque(plain) else known


def identity(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the numbers of a case, given as plain data, depend on.

    That is neither its name nor how often it is repeated. Fields that are None are left out, so
    that a field added later, None by default, changes no identity.
    """

    def without_none(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: without_none(item) for name, item in value.items() if item is not None}

    return {
        name: without_none(value)
        for name, value in plain.items()
        if name not in ("name", "family", "restarts")
    }


BLOCK = 100  # examples


@dataclass(frozen=True)
class Attempt:
    """One restart of a case. Its stored blocks are known by its key."""

    case: Case
    restart: int = 0
    weights: str = ""
    data: str = ""
    seed: int = 0

    @cached_property
    def key(self) -> str:
        """A SHA-256 of all that the attempt's numbers depend on."""
        return attempt_key(self.case.identity(), self.restart, self.weights, self.data, self.seed)

    @cached_property
    def record(self) -> "AttemptRecord":
        """What is told of the attempt where results are shown."""
        case = self.case
        aware = isinstance(case.objective, Aware)
        return AttemptRecord(self.key, case.name, case.family, case.condition, self.restart, aware)

    def __hash__(self) -> int:
        return hash(self.key)  # an attack of others may hold what cannot be hashed, such as a list

    def generator(self, block: int) -> Generator:
        """The random numbers of one block."""
        return Generator().manual_seed(self.seed_of(block))

    def seed_of(self, block: int) -> int:
        """The seed of one block."""
        return codec.seed_from([self.seed, self.case.identity(), self.restart, block])


@dataclass(frozen=True)
class AttemptRecord:
    """An attempt as tables show it; reading one from a run imports nobody's code."""

    key: str
    name: str
    family: str
    condition: Condition
    restart: int
    aware: bool


def attempts_of(cases: tuple[Case, ...], weights: str = "", data: str = "") -> list[Attempt]:
    """Every restart of every case."""
    return [
        Attempt(case, restart, weights, data) for case in cases for restart in range(case.restarts)
    ]


def attempt_key(
    case_identity: Mapping[str, Any], restart: int, weights: str, data: str, seed: int
) -> str:
    """Return the key of an attempt, whose case is given by its identity as plain data."""
    about = {"case": dict(case_identity), "restart": restart}
    return codec.digest({**about, "weights": weights, "data": data, "seed": seed})


def key_of(about: Mapping[str, Any]) -> str:
    """Return the key that stored metadata belongs to."""
    return attempt_key(
        identity(about["case"]), about["restart"], about["weights"], about["data"], about["seed"]
    )


def block_of(x: Tensor, y: Tensor, source: Source, block: int) -> tuple[Tensor, Tensor]:
    """Return the images of a block as floats in [0,1], and their labels.

    Noise has no right answer: its labels are zeros and say nothing.
    """
    rows = slice(block * BLOCK, (block + 1) * BLOCK)
    images, labels = to_floats(x[rows]), y[rows]
    if source == "test":
        return images, labels
    noise = torch.rand(images.shape, generator=Generator().manual_seed(block))
    return noise.to(images), torch.zeros_like(labels)


def blocks_in(examples: int) -> int:
    """How many blocks so many examples take; the last one may not be full."""
    return -(-examples // BLOCK)
