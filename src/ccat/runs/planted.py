"""What checks with planted errors left in a run: the file planted.json."""

from dataclasses import dataclass

from ccat.evaluation.planted import PlantedErrors
from ccat.runs.folder import PLANTED, Folder
from ccat.threats import Condition

_ADVICE = "delete it, `ccat check` makes it anew"


@dataclass(frozen=True)
class PlantedFile:
    """The last check of each condition, for certain weights."""

    folder: Folder
    weights: str

    def read(self) -> dict[Condition, PlantedErrors]:
        """The stored checks of these weights.

        Raises:
            RunError: If the file is damaged.
        """
        stored = self.folder.json(PLANTED, _ADVICE)
        if stored is None or stored.get("weights") != self.weights:
            return {}
        with self.folder.reading(PLANTED, _ADVICE):
            return {
                Condition.parse(key): PlantedErrors.from_plain(plain)
                for key, plain in stored["checks"].items()
            }

    def add(self, checks: dict[Condition, PlantedErrors]) -> None:
        """Store checks beside those of other conditions."""
        every = self.read() | checks
        plain = {condition.key: one.to_plain() for condition, one in every.items()}
        self.folder.write_json(PLANTED, {"weights": self.weights, "checks": plain})
