"""What was measured on a run, and what an evaluation makes of it: plain numbers, from which tables, figures and pages are made.

Shapes: labels, predicted, wrong, score (N,).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccat.intervals import Estimate
from ccat.metrics import Outcome

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a classifier answered: the class it predicts, whether that is wrong, and its score."""

    predicted: Integers
    outcome: Outcome

    def __getitem__(self, rows: slice) -> "Answers":
        return Answers(self.predicted[rows], self.outcome[rows])


@dataclass(frozen=True, eq=False)
class Attacked:
    """One attempt: the answers to the images it found. On noise, which has no right answer, all of them are wrong."""

    key: str
    name: str
    family: str
    threat: str
    source: str
    restart: int
    answers: Answers
    forwards: int
    backwards: int
    seconds: float
    clean: Answers | None = None  # by the same detector, where that is one for the threat; otherwise those of the run


@dataclass(frozen=True)
class Group:
    """The attempts that count for one threat: a larger ε includes what was found at a smaller one."""

    threat: str
    source: str
    seen: bool
    members: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Measured:
    """Everything that is stored about a run, as outcomes. The held-out test images choose τ and are not counted elsewhere."""

    run: str
    recipe: Mapping[str, str]  # by dotted name
    about: Mapping[str, Any]
    method: str
    dataset: str
    weights: str
    classes: tuple[str, ...]  # their names; none where numbers do
    labels: Integers
    clean: Answers
    held_out: Outcome
    attempts: tuple[Attacked, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...]
    corrupted: tuple["Corrupted", ...] = ()

    def clean_of(self, members: Sequence[int]) -> Answers:
        """The clean answers that attempts are compared with."""
        return self.attempts[members[0]].clean or self.clean

    def unaware(self) -> "Measured | None":
        """Without attempts that know of a detector; None if there are no such."""
        kept = [n for n, one in enumerate(self.attempts) if not one.family.startswith("aware")]
        if len(kept) == len(self.attempts):
            return None
        groups = [replace(group, members=tuple(kept.index(n) for n in group.members if n in kept)) for group in self.groups]
        attempts = tuple(self.attempts[n] for n in kept)
        return replace(self, run=f"{self.run}, unaware", attempts=attempts, groups=tuple(one for one in groups if one.members), notes=())


@dataclass(frozen=True, eq=False)
class Picture:
    """An image and its worst attacked version, (C, H, W) in [0,1], each with the answer and its confidence. Noise has no label."""

    row: int
    label: int | None
    image: NDArray[np.float32]
    attacked: NDArray[np.float32]
    answer: tuple[int, float]
    attacked_answer: tuple[int, float]


@dataclass(frozen=True, eq=False)
class Corrupted:
    """The answers to the first test images under one corruption of a set."""

    set: str
    name: str
    severity: int
    answers: Answers


@dataclass(frozen=True)
class UnderCorruption:
    """One corruption at one severity, or all of a set: their mean, and pooled as if they were one set of images.

    TNR and FPR are over the wrong answers, rejected and accepted; AUC tells them from correctly classified clean images.
    """

    set: str
    name: str
    severity: int | None
    examples: int
    error: float
    error_without_rejection: float
    coverage: float
    tnr: float
    fpr: float
    auc: float


@dataclass(frozen=True)
class Pooled:
    """The worst per image of some attempts, at a threshold.

    `error` is RErr on test images; on noise it is the share accepted, an FPR. The other FPRs are NaN on noise, `auc` too.
    """

    name: str
    attempts: int
    examples: int
    error: Estimate
    error_without_rejection: float
    fpr: Estimate
    fpr_of_correct: Estimate
    fpr_of_all: Estimate
    auc: float
    forwards: float  # per image
    backwards: float
    seconds: float


@dataclass(frozen=True)
class UnderAttack:
    """All attempts within one threat; then family by family, and the strongest single ones."""

    threat: str
    source: str
    seen: bool
    pooled: Pooled
    families: tuple[Pooled, ...]
    strongest: tuple[Pooled, ...]


@dataclass(frozen=True)
class Evaluation:
    """One run at one threshold. Err, TPR and coverage are over the test images that did not choose τ.

    `unseen` is the worst case over all threats on images that training has not seen; under the name of one of them, without it.
    """

    run: str
    method: str
    dataset: str
    weights: str
    tpr_asked: float | None
    tau: float
    images: int
    held_out: int
    tpr: Estimate
    coverage: Estimate
    error: Estimate
    error_without_rejection: float
    attacks: tuple[UnderAttack, ...]
    unseen: Mapping[str, Pooled] = field(default_factory=dict)
    corruptions: tuple[UnderCorruption, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Climb:
    """Over the points that an attack tries: the mean confidence in another class there, and that of the best so far."""

    tried: list[float]
    best: list[float]


@dataclass(frozen=True)
class Lines:
    """Confidences along lines from images, at steps κ: means over all lines, and all classes on the first few.

    `images` are those at the first, the middle and the last step, (lines, 3, C, H, W), 0 to 255.
    """

    steps: list[float]
    first: list[float]
    second: list[float]
    rest: list[float]
    confidences: list[list[list[float]]]
    first_class: list[int]
    second_class: list[int]
    images: list[Any]


@dataclass(frozen=True)
class Analysis:
    """Of one run: how PGD climbs, what the model says along adversarial directions (by threat) and between images."""

    examples: int
    iterations: int
    climbs: dict[str, Climb]
    directions: dict[str, Lines]
    between: Lines

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Analysis":
        """From what `dataclasses.asdict` made of one."""
        climbs = {name: Climb(**one) for name, one in plain["climbs"].items()}
        directions = {name: Lines(**one) for name, one in plain["directions"].items()}
        return cls(plain["examples"], plain["iterations"], climbs, directions, Lines(**plain["between"]))
