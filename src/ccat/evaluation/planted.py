"""How many planted errors attacks found: whether a number of theirs can be believed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class PlantedBy:
    """What one attack made of the planted errors.

    Attributes:
        name: The attack.
        asked: How many planted errors it was asked to find, which others had not found before.
        found: How many of these it found.
    """

    name: str
    asked: int
    found: int


@dataclass(frozen=True)
class PlantedErrors:
    """How many errors that were planted under one condition the attacks of a suite found.

    Attributes:
        suite: The attacks, as a command would name them.
        planted: How many errors were planted, each around an image of its own.
        inseparable: Around how many further images none could be planted, because the model's
            features do not tell points of the sphere from points inside.
        found: How many of the planted errors any attack found.
        attacks: What each attack found, in their order.
    """

    suite: str
    planted: int
    inseparable: int
    found: int
    attacks: tuple[PlantedBy, ...]

    @property
    def text(self) -> str:
        """The number as it stands beside others: "19/20"; "none" if nothing could be planted."""
        return f"{self.found}/{self.planted}" if self.planted else "none"

    def to_plain(self) -> dict[str, Any]:
        """Return it as what JSON can store."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "PlantedErrors":
        """Return what `to_plain` stored.

        Raises:
            KeyError, TypeError, ValueError: If it is something else.
        """
        given: Sequence[Mapping[str, Any]] = plain["attacks"]
        attacks = tuple(
            PlantedBy(str(one["name"]), int(one["asked"]), int(one["found"])) for one in given
        )
        planted, inseparable, found = (
            int(plain[name]) for name in ("planted", "inseparable", "found")
        )
        if not 0 <= found <= planted or inseparable < 0:
            raise ValueError(f"{found} of {planted} planted errors cannot have been found")
        return cls(str(plain["suite"]), planted, inseparable, found, attacks)
