"""What an evaluation makes of a run: what tables, figures, JSON and the page are made of.

The `Attributes` below are also the descriptions in the JSON Schema, and an annotation says what the
schema says of a number beside its type, or which lists of rates a mapping holds. The types of what
is known of a run, and of its analysis, can be imported from here as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from ccat.evaluation.analysis import Analysis, Climb, Lines
from ccat.evaluation.doubts import Doubt
from ccat.evaluation.intervals import Estimate
from ccat.evaluation.outcome import Integers
from ccat.evaluation.parts import (
    AtCoverage,
    Availability,
    Bounds,
    Certified,
    ClassAnswers,
    ClassRates,
    Cost,
    Count,
    Selective,
    Share,
    Stratified,
    Tally,
)
from ccat.evaluation.planted import PlantedErrors
from ccat.evaluation.run_outcomes import (
    Answers,
    AttemptOutcomes,
    Corrupted,
    Group,
    Picture,
    RunOutcomes,
)

if TYPE_CHECKING:
    from ccat.threats import Condition

__all__ = [
    "Analysis",
    "Answers",
    "AtCoverage",
    "AttemptOutcomes",
    "Availability",
    "Certified",
    "ClassAnswers",
    "ClassRates",
    "Climb",
    "Corrupted",
    "Evaluation",
    "Group",
    "Integers",
    "Lines",
    "Picture",
    "Pooled",
    "RunOutcomes",
    "Selective",
    "Stratified",
    "UnderAttack",
    "UnderCorruption",
]


@dataclass(frozen=True)
class UnderCorruption:
    """One corruption at one severity; or, of a set, the mean over them or all of them pooled.

    Attributes:
        set: The name of the set of corruptions.
        name: The corruption; "mean" over those of the set, each counting the same; "pooled" for all
            their images as one set.
        severity: Null where it is over several.
        examples: The number of images of each.
        rates: The rates at τ.
        without_rejection: The first rate where everything is accepted.
        tnr: Rejected / all, of the wrong answers.
        auc: The area under the ROC curve of correctly classified clean images against wrong
            answers.
    """

    set: str
    name: str
    severity: int | None
    examples: Count
    rates: Annotated[Mapping[str, Share], ("CORRUPTION_RATES",)]
    without_rejection: Share
    tnr: Share
    auc: Share


@dataclass(frozen=True)
class Pooled:
    """The worst per image of some attempts, at a threshold.

    Attributes:
        name: Of the attempt, of the family, or "worst case" of all.
        attempts: The number of attempts on each image.
        examples: The number of images that all of these attempts were made for.
        asked: The share of these that were attacked; the others rested, broken already or
            certified.
        found: The share of these that became accepted errors; where the goal is rejection, that
            were correct and accepted and became rejected.
        added: The share that became so here and in no attempt before.
        rates: The rates at τ among the attacked and the certified images; the first is the
            headline.
        without_rejection: The headline where everything is accepted.
        auc: The area under the ROC curve of correctly classified clean images against their
            successful adversarial examples; null on noise, and where the goal is rejection.
        forwards: Forward passes per image.
        backwards: Backward passes per image.
        seconds: Seconds per image; null where they were not kept.
    """

    name: str
    attempts: Count
    examples: Count
    asked: Share
    found: Share
    added: Share
    rates: Annotated[Mapping[str, Estimate], ("ATTACK_RATES", "NOISE_RATES", "REJECTION_RATES")]
    without_rejection: Share
    auc: Share
    forwards: Cost
    backwards: Cost
    seconds: Annotated[float, Bounds(0)]

    @property
    def headline(self) -> Estimate:
        """The rate that tables show: RErr, the share of noise accepted, or availability."""
        return next(iter(self.rates.values()))


@dataclass(frozen=True)
class UnderAttack:
    """All attempts under one condition; then family by family, and the strongest single ones.

    Attributes:
        condition: What was attacked, and what the attacker was allowed to do.
        seen: Whether training has seen this threat.
        unfinished: How many more attempts were asked for, and are not finished: the worst case can
            only get worse.
        no_gradient: The share of images that an attempt left unbroken because their gradient was
            zero wherever it asked, in the attempt with the fewest; 0 if none uses gradients.
        doubts: Reasons to doubt the numbers, found by self-checks.
        planted: How many planted errors the attacks found; null if they were not checked.
        pooled: The worst case over all attempts.
        families: The worst case over the attempts of each kind of attack.
        strongest: Single attempts, the strongest first.
        selective: The headline of the worst case over the coverage of the same images when clean.
        confusion: What the images of each class are answered in the worst case; empty on noise.
    """

    condition: "Condition"
    seen: bool
    unfinished: Tally
    no_gradient: Share
    doubts: tuple[Doubt, ...]
    planted: PlantedErrors | None
    pooled: Pooled
    families: tuple[Pooled, ...]
    strongest: tuple[Pooled, ...]
    selective: Selective
    confusion: tuple[ClassAnswers, ...]

    @property
    def mark(self) -> str:
        """What stands beside its numbers: * seen, † unfinished, ‡ in doubt."""
        return "*" * self.seen + "†" * bool(self.unfinished) + "‡" * bool(self.doubts)


@dataclass(frozen=True)
class Evaluation:
    """One run at one threshold.

    Attributes:
        run: The name of the run.
        method: The training method.
        dataset: The data set.
        weights: The SHA-256 of the weights file.
        tpr_asked: The true positive rate that chose τ; null where τ was given.
        tau: What a score has to reach to be accepted; null where everything is accepted.
        images: The number of test images that the rates are over.
        calibration: The number of other test images, which chose τ.
        rates: The rates on clean images at τ.
        without_rejection: The same where everything is accepted.
        selective: Err on clean images over their coverage.
        confusion: What the clean images of each class are answered.
        classes: The rates on the clean images of each class.
        attacks: One entry for each condition that was attacked.
        worst: The worst case over all threats on test images; null if there is none, or each threat
            has a detector of its own.
        unseen: The worst case over all threats on test images that training has not seen; under the
            name of one of them, without it.
        corruptions: The rates on corrupted images.
        certificates: Errors from both sides, under the conditions that were certified.
        notes: What is missing, and the command that makes it.
        availability: For each threat that was attacked with both goals, what becomes of images.
        stratified: For each threat, errors within ε or rejection within a part of it.
    """

    run: str
    method: str
    dataset: str
    weights: str
    tpr_asked: Share | None
    tau: float
    images: Count
    calibration: Count
    rates: Annotated[Mapping[str, Estimate], ("CLEAN_RATES",)]
    without_rejection: Annotated[Mapping[str, Share], ("CLEAN_RATES",)]
    selective: Selective
    confusion: tuple[ClassAnswers, ...]
    classes: tuple[ClassRates, ...]
    attacks: tuple[UnderAttack, ...]
    worst: Pooled | None = None
    unseen: Mapping[str, Pooled] = field(default_factory=dict)
    corruptions: tuple[UnderCorruption, ...] = ()
    certificates: tuple[Certified, ...] = ()
    notes: tuple[str, ...] = ()
    availability: tuple[Availability, ...] = ()
    stratified: tuple[Stratified, ...] = ()
