"""Cases and attempts: a row of a table of attacks, and one restart of it.

An attempt is made block by block, a hundred examples at a time. A block's random numbers depend on
the case, the restart and the block alone, so results depend neither on how many examples are asked
for, nor on the number of workers. Attempts under one condition may form a sequence, in which an
example that one of them breaks rests in those after it; its numbers then depend on what comes
before, and so does its key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor

from ccat import codec
from ccat.attacks import Attack
from ccat.checks import require_count
from ccat.data.images import to_floats
from ccat.objectives import Objective, goal_of, other_class_confidence
from ccat.rejection import Aware
from ccat.threats import Condition, Source, Threat, label


@dataclass(frozen=True)
class Case:
    """An attack within a threat, and what it maximises, from which the attacker's goal follows.

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
        Condition(self.threat, self.source, goal_of(self.objective))  # refuses what is no goal
        object.__setattr__(self, "family", self.family or self.name)
        known = codec.is_resolved(self.attack) and codec.is_resolved(self.threat)
        if known and not self.attack.supports(self.threat):
            raise ValueError(
                f"case {self.name!r}: {type(self.attack).__name__} does not support the threat "
                f"{label(self.threat)}"
            )

    @property
    def condition(self) -> Condition:
        """What is attacked, around images or noise, and the goal that the objective has."""
        return Condition(self.threat, self.source, goal_of(self.objective))

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
    """One restart of a case. Its stored blocks are known by its key.

    Attributes:
        case: What is done.
        restart: 0 for the first of several with different random numbers.
        weights: The SHA-256 of the attacked weights.
        data: The digest of the attacked data.
        seed: Of all random numbers.
        rest_at: The TPR at whose τ an accepted error is enough: the example then rests. None: all
            examples are attacked to the end.
        after: The key of the attempt before this one in its sequence.
        position: How many attempts come before it.
        certificate: The name of the certificate by which examples rest that cannot be broken.
            Empty: none does.
    """

    case: Case
    restart: int = 0
    weights: str = ""
    data: str = ""
    seed: int = 0
    rest_at: float | None = None
    after: str = ""
    position: int = 0
    certificate: str = ""

    @cached_property
    def key(self) -> str:
        """A SHA-256 of all that the attempt's numbers depend on."""
        place = (self.restart, self.weights, self.data, self.seed, self.rest_at, self.after)
        return attempt_key(self.case.identity(), *place, self.certificate)

    @cached_property
    def record(self) -> "AttemptRecord":
        """What is told of the attempt where results are shown."""
        case = self.case
        aware = isinstance(case.objective, Aware)
        about = (self.restart, aware, self.rest_at, self.position)
        return AttemptRecord(self.key, case.name, case.family, case.condition, *about)

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
    rest_at: float | None = None
    position: int = 0


def attempts_of(
    cases: Sequence[Case],
    weights: str = "",
    data: str = "",
    rest_at: float | None = None,
    certificates: Mapping[Condition, str] | None = None,
) -> list[Attempt]:
    """Return every restart of every case; with `rest_at`, as a sequence under each condition.

    `certificates` names, by condition, the certificate by which examples rest.

    In a sequence the first restarts of all cases come before the second ones: what is cheap and
    strong is the first of its cases, not a repetition. Where the goal is rejection nothing rests:
    these attempts look for the lowest score, which counts at every τ, and form no sequence.
    """
    most = max((case.restarts for case in cases), default=0)
    found: list[Attempt] = []
    last: dict[Condition, Attempt] = {}
    for restart in range(most):
        for case in (one for one in cases if restart < one.restarts):
            rest = None if case.condition.rejects else rest_at
            before = last.get(case.condition) if rest is not None else None
            after, position = (before.key, before.position + 1) if before else ("", 0)
            certificate = (certificates or {}).get(case.condition, "")
            place = (rest, after, position, certificate)
            attempt = Attempt(case, restart, weights, data, 0, *place)
            last[case.condition] = attempt
            found.append(attempt)
    return found


def sequences(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Return the sequences that attempts form, each in its order; of one where nothing rests."""
    found: dict[str, list[Attempt]] = {}  # by the key of the last one so far
    for attempt in attempts:
        sequence = found.pop(attempt.after, [])
        found[attempt.key] = [*sequence, attempt]
    return list(found.values())


def attempt_key(
    case_identity: Mapping[str, Any],
    restart: int,
    weights: str,
    data: str,
    seed: int,
    rest_at: float | None = None,
    after: str = "",
    certificate: str = "",
) -> str:
    """Return the key of an attempt, whose case is given by its identity as plain data."""
    about = {"case": dict(case_identity), "restart": restart}
    about |= {"weights": weights, "data": data, "seed": seed}
    about |= {} if rest_at is None else {"rest": rest_at, "after": after}
    return codec.digest({**about, "certificate": certificate} if certificate else about)


def key_of(about: Mapping[str, Any]) -> str:
    """Return the key that stored metadata belongs to."""
    names = ("restart", "weights", "data", "seed", "rest_at", "after")
    place = (*(about[name] for name in names), about.get("certificate", ""))
    return attempt_key(identity(about["case"]), *place)


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
