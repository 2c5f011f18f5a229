"""Parts of an evaluation: what is said of a run beside its rates at one threshold.

As in `results`, the `Attributes` are also the descriptions in the JSON Schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ccat.evaluation.intervals import Estimate

if TYPE_CHECKING:
    from ccat.threats import Condition


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
class ClassRates:
    """The rates on the clean images of one class at τ.

    Attributes:
        label: The name of the class, or its number.
        images: The number of its images.
        rates: The rates over these images.
    """

    label: str
    images: Count
    rates: Annotated[Mapping[str, Estimate], ("CLASS_RATES",)]


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
class Availability:
    """What becomes of images if one attacker wants errors and another wants rejection.

    Attributes:
        condition: The threat, which was attacked with both goals.
        examples: The number of images that were.
        availability: Correct images that stay accepted under attack / correct images.
        correct: The share of all images that are neither wrong nor rejected.
        wrong: The share that are accepted errors, clean or as attacked.
        rejected: The share that are not wrong, but rejected, clean or as attacked.
    """

    condition: "Condition"
    examples: Count
    availability: Estimate
    correct: Estimate
    wrong: Estimate
    rejected: Estimate


@dataclass(frozen=True)
class Stratified:
    """Errors within ε and rejection within a part of it, α, counted together.

    Attributes:
        condition: The threat, of size ε.
        examples: The number of images that were attacked with both goals.
        total: By α, the share of images that are wrong within ε or rejected within αε; at 0,
            rejected when clean.
    """

    condition: "Condition"
    examples: Count
    total: Mapping[str, Estimate]
