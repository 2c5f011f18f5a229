"""What is known of a run, as outcomes, and which attempts count together.

Shapes: labels, predicted, wrong, score (N,).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.outcome import Floats, Integers, Outcome, worst, worst_of
from ccat.evaluation.rates import ACCEPTED_NOISE, FPR, TPR, Levels, rates_of

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
        asked: True for the images that it attacked; the others rested, because an earlier attempt
            of the same sequence had broken them.
        rest_at: The TPR at whose τ an accepted error was enough, so that the image rested from then
            on; None where all images were attacked to the end.
        position: How many attempts came before it in its sequence.
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
    asked: NDArray[np.bool_]
    rest_at: float | None = None
    position: int = 0

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


def group_attempts(
    conditions: Sequence["Condition"],
    judge_of: Callable[["Condition"], str],
    seen: Callable[["Condition"], bool],
) -> tuple[Group, ...]:
    """Return one group for each distinct condition, in the order of tables.

    A larger ε includes what was found at a smaller one: the members are all attempts whose
    condition the group's condition includes.

    Args:
        conditions: Of the attempts, in their order.
        judge_of: Who scores images under a condition.
        seen: Whether training has seen a condition.
    """
    return tuple(
        Group(
            condition,
            seen(condition),
            judge_of(condition),
            tuple(n for n, other in enumerate(conditions) if condition.includes(other)),
        )
        for condition in sorted(set(conditions), key=lambda condition: condition.order)
    )


def families(run: RunOutcomes, group: Group) -> dict[str, Group]:
    """Return the parts of a group by family of attacks, in the order of the attempts."""
    members: dict[str, list[int]] = {}
    for member in group.members:
        members.setdefault(run.attempts[member].family, []).append(member)
    return {name: replace(group, members=tuple(part)) for name, part in members.items()}


def singles(group: Group) -> list[Group]:
    """Return one group for each attempt of a group."""
    return [replace(group, members=(member,)) for member in group.members]


def pooled_outcome(run: RunOutcomes, group: Group) -> tuple[Outcome, Outcome]:
    """Return the clean and the worst attacked outcome of the images that all attempts attacked."""
    clean, attempts = _answers(run, group)
    return clean.outcome, worst(clean.outcome, [attempt.outcome for attempt in attempts])


def pooled_answers(run: RunOutcomes, group: Group) -> tuple[Answers, Integers]:
    """Return the answers in the worst case, and the number of the attempt that each comes from.

    The number is −1 where no attempt succeeded; the answer is the clean one there.
    """
    clean, attempts = _answers(run, group)
    adversarial, index = worst_of(clean.outcome, [attempt.outcome for attempt in attempts])
    predicted = np.stack([*(attempt.predicted for attempt in attempts), clean.predicted])
    by = np.array([*group.members, -1])[index]  # index −1 is the last: the clean answers
    return Answers(predicted[index, np.arange(len(index))], adversarial), by


def headline(run: RunOutcomes, group: Group) -> Levels:
    """Return the levels of the rate that tables of several threats show."""
    return rates_of(group.condition)[0](*pooled_outcome(run, group))


def asked(run: RunOutcomes, group: Group) -> NDArray[np.bool_]:
    """Return which images any attempt of a group attacked, of those that all of them have."""
    masks = [run.attempts[member].asked for member in group.members]
    found = np.zeros(min(map(len, masks)), dtype=np.bool_)
    for mask in masks:
        found |= mask[: len(found)]
    return found


def accepted_errors(run: RunOutcomes, group: Group, tau: float) -> NDArray[np.bool_]:
    """Return which images an attempt of a group turned into an error that τ accepts."""
    clean, attempts = _answers(run, group)
    found = np.zeros(len(clean.predicted), dtype=np.bool_)
    for member, one in zip(group.members, attempts, strict=True):
        mask = run.attempts[member].asked[: len(found)]
        found |= mask & one.outcome.wrong & (one.outcome.score >= tau)
    return found


def without_gradient(run: RunOutcomes, group: Group) -> float:
    """Return the share of images that had no gradient, in the attempt where they are fewest."""
    attempts = [run.attempts[member] for member in group.members]
    shares = [one.no_gradient / one.examples for one in attempts if one.backwards]
    return min(shares, default=0.0)


def told_apart(run: RunOutcomes, group: Group) -> tuple[Floats, Floats]:
    """Return the scores of what should be accepted and of what should be rejected; NaN: neither.

    These are the correctly classified of all clean images, and the successful adversarial examples;
    under a condition on noise all of the noise.
    """
    clean, adversarial = pooled_outcome(run, group)
    negatives = ACCEPTED_NOISE if group.condition.on_noise else FPR
    return TPR(run.clean[group.judge].outcome).part, negatives(clean, adversarial).part


def _answers(run: RunOutcomes, group: Group) -> tuple[Answers, list[Answers]]:
    """Return clean and attacked answers of the images that all attempts of a group attacked."""
    attempts = [run.attempts[member].answers[group.judge] for member in group.members]
    examples = min(len(attempt.predicted) for attempt in attempts)
    return run.clean[group.judge][:examples], [attempt[:examples] for attempt in attempts]
