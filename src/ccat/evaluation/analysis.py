"""What an analysis of a run found: how attacks climb, and confidences along lines.

Shapes: confidences (lines, steps, K); images (lines, 3, C, H, W), 0 to 255.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Climb:
    """The mean confidence in another class at the points that an attack tries, and the best yet."""

    tried: list[float]
    best: list[float]


@dataclass(frozen=True)
class Lines:
    """Confidences along lines that begin at images.

    Attributes:
        steps: The positions κ on each line.
        first: The mean confidence in the class that a line begins with.
        second: The mean confidence in the class that a line leads to.
        rest: The mean confidence in the likeliest other class.
        confidences: In all classes, on the first few lines.
        first_class: Of these lines.
        second_class: Of these lines.
        images: At the first, the middle and the last step of these lines.
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
    """How PGD climbs, and what the model says along adversarial directions and between images.

    Attributes:
        examples: The number of images.
        iterations: Of the attacks.
        climbs: By variant of the attack.
        directions: By threat.
        between: From images to images of another class.
    """

    examples: int
    iterations: int
    climbs: dict[str, Climb]
    directions: dict[str, Lines]
    between: Lines

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Analysis":
        """Return the analysis that `dataclasses.asdict` turned into plain data."""
        climbs = {name: Climb(**one) for name, one in plain["climbs"].items()}
        directions = {name: Lines(**one) for name, one in plain["directions"].items()}
        between = Lines(**plain["between"])
        return cls(plain["examples"], plain["iterations"], climbs, directions, between)
