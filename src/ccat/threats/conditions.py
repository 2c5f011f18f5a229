"""Conditions: a threat, what is attacked within it, and to what end."""

import math
from dataclasses import dataclass
from typing import Literal, Self, get_args

from ccat.errors import UntrustedError
from ccat.threats.names import UnknownThreat, contains, label, order, read_threat
from ccat.threats.protocol import Threat

Source = Literal["test", "noise"]
Goal = Literal["error", "rejection"]
_KINDS: dict[str, tuple[Source, Goal]] = {
    "test": ("test", "error"),
    "noise": ("noise", "error"),
    "distal": ("noise", "error"),
    "reject": ("test", "rejection"),
}


@dataclass(frozen=True)
class Condition:
    """A threat around test images, or around uniform noise, which has no right answer.

    The attacker's goal is an error that is accepted, or the rejection of images that are correct.
    The threat is an `UnknownThreat` if it is of a class outside ccat that was not imported.
    """

    threat: Threat | UnknownThreat
    source: Source = "test"
    goal: Goal = "error"

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise ValueError(f"Condition: source must be 'test' or 'noise', not {self.source!r}")
        if self.goal not in get_args(Goal):
            raise ValueError(f"Condition: goal must be 'error' or 'rejection', not {self.goal!r}")
        if self.on_noise and self.rejects:
            raise ValueError(
                "Condition: noise ought to be rejected, so rejection is a goal on test images only"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the condition that a `key` or a `title` stands for, without importing code.

        Raises:
            ValueError: If the text does not name a threat.
        """
        first, _, rest = text.partition(" ")
        kind, name = (first, rest) if first in _KINDS else ("test", text)
        return cls(read_threat(name), *_KINDS[kind])

    @property
    def known_threat(self) -> Threat:
        """The threat, which must not be an `UnknownThreat`.

        Raises:
            UntrustedError: If it is of a class that was not imported.
        """
        if isinstance(self.threat, UnknownThreat):
            raise UntrustedError(f"{self.threat.text} is not part of ccat, and was not imported")
        return self.threat

    @property
    def title(self) -> str:
        """The condition as a heading: "Linf:0.3", "distal Linf:0.3", or "reject Linf:0.3"."""
        kind = "reject " if self.rejects else "distal " if self.on_noise else ""
        return kind + label(self.threat)

    @property
    def key(self) -> str:
        """The condition as it is stored: "test Linf:0.3", "noise Linf:0.3", "reject Linf:0.3"."""
        return f"{'reject' if self.rejects else self.source} {label(self.threat)}"

    @property
    def on_noise(self) -> bool:
        """True if noise is attacked instead of test images."""
        return self.source == "noise"

    @property
    def rejects(self) -> bool:
        """True if the attacker wants correct images to be rejected."""
        return self.goal == "rejection"

    @property
    def on_errors(self) -> bool:
        """True if the attacker wants errors on test images, which RErr counts."""
        return not (self.on_noise or self.rejects)

    @property
    def order(self) -> tuple[bool, bool, tuple[int, str, float, str]]:
        """A key that sorts conditions: noise later, rejection last, then by threat."""
        return self.rejects, self.on_noise, order(self.threat)

    @property
    def size(self) -> float:
        """The ε of the threat; NaN if the threat is not known."""
        return math.nan if isinstance(self.threat, UnknownThreat) else self.threat.epsilon

    def includes(self, other: "Condition") -> bool:
        """Return True if what was found under `other` is allowed here too."""
        same = (self.source, self.goal) == (other.source, other.goal)
        return same and contains(self.threat, other.threat)
