"""What is known of a run, as outcomes, and which attempts count together.

Shapes: labels, predicted, wrong, score (N,).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.outcome import Integers, Outcome
from ccat.evaluation.planted import PlantedErrors

if TYPE_CHECKING:
    from ccat.threats import Condition


@dataclass(frozen=True, eq=False)
class Answers:
    """What a classifier answered: the class that it predicts, whether that is wrong, its score."""

    predicted: Integers
    outcome: Outcome

    def __getitem__(self, rows: slice) -> "Answers":
        return Answers(self.predicted[rows], self.outcome[rows])


@dataclass(frozen=True, eq=False)
class AttemptOutcomes:
    """One attempt: the answers to the images that it found, one for each attacked image.

    Attributes:
        key: What identifies the attempt in its run.
        name: What it is called.
        family: The kind of attack, under which tables pool attempts.
        condition: The threat, and whether test images or noise were attacked.
        restart: 0 for the first of several with different random numbers.
        aware: True if the attack knows of the detector that rejects.
        answers: By judge, which is what scored the images: "confidence", or the threat that a
            detector was fitted for. On noise, which has no right answer, all of them are wrong.
        forwards: Forward passes of single images, over all attacked images.
        backwards: Backward passes, likewise.
        seconds: Of computation, likewise.
        no_gradient: How many images it left unbroken whose gradient was zero wherever it asked.
        rising: How many images it left unbroken whose score still rose when it ended.
        asked: True for the images that it attacked; the others rested, because an earlier attempt
            of the same sequence had broken them, or because they are certified.
        rest_at: The TPR at whose τ an accepted error was enough, so that the image rested from then
            on; None where all images were attacked to the end.
        position: How many attempts came before it in its sequence.
        certified: True for the images that rested because no wrong answer to them is possible;
            empty where none did.
    """

    key: str
    name: str
    family: str
    condition: "Condition"
    restart: int
    aware: bool
    answers: Mapping[str, Answers]
    forwards: int
    backwards: int
    seconds: float
    no_gradient: int
    rising: int
    asked: NDArray[np.bool_]
    rest_at: float | None = None
    position: int = 0
    certified: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """True for the images that rates are over: attacked, or certified."""
        return self.asked | self.certified if len(self.certified) else self.asked

    @property
    def title(self) -> str:
        """The name, and the number of the restart where that is not the first: "PGD #2"."""
        return f"{self.name} #{self.restart}" if self.restart else self.name

    @property
    def examples(self) -> int:
        """The number of images, attacked or resting."""
        return len(self.asked)


@dataclass(frozen=True)
class Group:
    """Attempts that count together under one condition: their worst case is what is reported.

    Attributes:
        condition: What the attempts were allowed to do at most.
        seen: True if the model was trained with such attacks.
        judge: Who scores the images here, clean and attacked.
        members: The numbers of the attempts in `RunOutcomes.attempts`.
        unfinished: How many more attempts were asked for, and are not finished.
    """

    condition: "Condition"
    seen: bool
    judge: str
    members: tuple[int, ...]
    unfinished: int = 0


@dataclass(frozen=True, eq=False)
class RunOutcomes:
    """Everything that is stored about a run, as outcomes.

    Attributes:
        run: Its name.
        recipe: Its recipe, by dotted name.
        about: Versions, device and machine.
        method: The training method.
        dataset: The data set.
        weights: The SHA-256 of the weights file.
        classes: Their names; empty where numbers do.
        labels: Of the counted test images.
        judge: The one that decides on clean images, "confidence" or a detector's threat.
        shared_judge: False where each threat has a detector of its own; there is no worst case over
            several threats then.
        clean: The answers to the counted test images, by judge.
        calibration: The outcome of other test images, by `judge`, which choose τ.
        attempts: In any order; groups refer to them by number.
        groups: One for each condition that was attacked.
        notes: What is missing, and the command that makes it.
        corrupted: The answers to corrupted images, by `judge`.
        planted: How many planted errors attacks found, under the conditions that were checked.
        certified: The worst that is possible for each of the first images, under the conditions
            that were certified.
    """

    run: str
    recipe: Mapping[str, str]
    about: Mapping[str, Any]
    method: str
    dataset: str
    weights: str
    classes: tuple[str, ...]
    labels: Integers
    judge: str
    shared_judge: bool
    clean: Mapping[str, Answers]
    calibration: Outcome
    attempts: tuple[AttemptOutcomes, ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...]
    corrupted: tuple["Corrupted", ...] = ()
    planted: Mapping["Condition", PlantedErrors] = field(default_factory=dict)
    certified: Mapping["Condition", Outcome] = field(default_factory=dict)

    @property
    def clean_answers(self) -> Answers:
        """The answers to the counted test images by the judge that decides on them."""
        return self.clean[self.judge]

    def unaware(self) -> "RunOutcomes | None":
        """Return the run without detector-aware attempts; None if it has no such attempts."""
        kept = [n for n, attempt in enumerate(self.attempts) if not attempt.aware]
        if len(kept) == len(self.attempts):
            return None
        numbers = {old: new for new, old in enumerate(kept)}
        groups = (
            replace(group, members=tuple(numbers[n] for n in group.members if n in numbers))
            for group in self.groups
        )
        return replace(
            self,
            run=f"{self.run}, unaware",
            attempts=tuple(self.attempts[n] for n in kept),
            groups=tuple(group for group in groups if group.members),
            notes=(),
        )


@dataclass(frozen=True, eq=False)
class Picture:
    """An image and its worst attacked version, (C, H, W) in [0,1], as the page shows them.

    Attributes:
        row: The number of the test or noise image.
        label: Its class; None for noise.
        image: As it was.
        attacked: The worst that was found; the image itself where no attempt succeeded.
        answer: The class predicted for the image, and its score; None for noise.
        attacked_answer: The class predicted for the attacked image and its score, as counted.
    """

    row: int
    label: int | None
    image: NDArray[np.float32]
    attacked: NDArray[np.float32]
    answer: tuple[int, float] | None
    attacked_answer: tuple[int, float]


@dataclass(frozen=True, eq=False)
class Corrupted:
    """The answers to the first test images under one corruption of a set."""

    set: str
    name: str
    severity: int
    answers: Answers
