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
    "Certified",
    "ClassAnswers",
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
    "UnderAttack",
    "UnderCorruption",
]


@dataclass(frozen=True)
class Bounds:
    """What JSON Schema says of a number: the least, the largest, and whether it may be null."""

    least: int
    largest: int | None = None
    nullable: bool = True


Share = Annotated[float, Bounds(0, 1)]
Cost = Annotated[float, Bounds(0, nullable=False)]
Count = Annotated[int, Bounds(1, nullable=False)]
Tally = Annotated[int, Bounds(0, nullable=False)]


@dataclass(frozen=True)
class AtCoverage:
    """A rate at the τ that accepts a share of clean images, at which runs can be compared.

    Attributes:
        asked: The share of the calibration images, right or wrong, that τ accepts at least.
        tau: The largest threshold that does.
        reached: The share of the counted images that τ accepts when they are clean; on noise, of
            as many test images.
        rate: Err on clean images, RErr under attack, the share accepted of noise.
        lower_bound: Whether attacks on an image ended at a lower τ, so that the rate can only be
            larger.
    """

    asked: Share
    tau: float
    reached: Share
    rate: Estimate
    lower_bound: bool


@dataclass(frozen=True)
class Selective:
    """A rate over the coverage of clean images.

    Attributes:
        aurc: The area under the risk-coverage curve: the mean over the images of the rate at the
            τ that is the clean score of the image; null on noise.
        augrc: The area under the generalised risk-coverage curve: the same of what is wrong and
            accepted / all images; null on noise.
        lower_bound: Whether attacks on an image ended before τ reached the largest clean score, so
            that both areas can only be larger.
        at: The rate at equal coverages.
    """

    aurc: Share
    augrc: Share
    lower_bound: bool
    at: tuple[AtCoverage, ...]


@dataclass(frozen=True)
class ClassAnswers:
    """What the images of one class are answered at τ: a row of the confusion matrix.

    Attributes:
        label: The name of the class, or its number.
        images: The number of its images.
        rejected: How many of them are rejected.
        accepted: How many are answered as a class and accepted, by class; others are left out.
    """

    label: str
    images: Count
    rejected: Tally
    accepted: Mapping[str, Tally]

    @property
    def coverage(self) -> float:
        """Accepted / all, of the images of this class."""
        return 1 - self.rejected / self.images

    @property
    def error(self) -> float:
        """Wrong / accepted, of the images of this class; 0 where none is accepted."""
        accepted = self.images - self.rejected
        return 1 - self.accepted.get(self.label, 0) / accepted if accepted else 0.0


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
        asked: The share of these that were attacked; the others rested, broken already.
        found: The share of these that became accepted errors.
        added: The share that became accepted errors here and in no attempt before.
        rates: The rates at τ among the attacked images; the first is the headline.
        without_rejection: The headline where everything is accepted.
        auc: The area under the ROC curve of correctly classified clean images against their
            successful adversarial examples; null on noise.
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
    rates: Annotated[Mapping[str, Estimate], ("ATTACK_RATES", "NOISE_RATES")]
    without_rejection: Share
    auc: Share
    forwards: Cost
    backwards: Cost
    seconds: Annotated[float, Bounds(0)]

    @property
    def headline(self) -> Estimate:
        """The rate that tables of several threats show: RErr, or the share of noise accepted."""
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
class Certified:
    """An error under one condition from both sides, over the same images.

    Attributes:
        condition: What an attacker may do.
        examples: The number of images.
        certified: The share of these for which no wrong answer that τ accepts is possible.
        upper: No attack makes the headline rate larger than this.
        lower: What attacks found; null if the condition was not attacked.
        without_rejection: The upper bound where everything is accepted.
    """

    condition: "Condition"
    examples: Count
    certified: Share
    upper: Estimate
    lower: Estimate | None
    without_rejection: Share


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
        attacks: One entry for each condition that was attacked.
        worst: The worst case over all threats on test images; null if there is none, or each threat
            has a detector of its own.
        unseen: The worst case over all threats on test images that training has not seen; under the
            name of one of them, without it.
        corruptions: The rates on corrupted images.
        certificates: Errors from both sides, under the conditions that were certified.
        notes: What is missing, and the command that makes it.
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
    attacks: tuple[UnderAttack, ...]
    worst: Pooled | None = None
    unseen: Mapping[str, Pooled] = field(default_factory=dict)
    corruptions: tuple[UnderCorruption, ...] = ()
    certificates: tuple[Certified, ...] = ()
    notes: tuple[str, ...] = ()
