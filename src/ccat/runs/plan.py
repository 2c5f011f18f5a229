"""Which suites were asked for, on how many examples: the file plan.json of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ccat.runs.folder import PLAN, Folder
from ccat.threats import Condition


class Asked(NamedTuple):
    """A suite that was asked for: as it would be typed, on how many examples, and its attempts.

    The attempts are keys, each with its condition; `weights` are those that were to be attacked.
    """

    suite: str
    examples: int
    weights: str
    attempts: Mapping[str, Condition]


@dataclass(frozen=True)
class PlanFile:
    """What was asked for, which shows what is not finished."""

    folder: Folder

    def asked(self) -> list[Asked]:
        """What was asked for, the last of each suite."""
        stored = self.folder.json(PLAN, "delete it") or {"asked": []}
        with self.folder.reading(PLAN, "delete it"):
            return [
                Asked(
                    str(one["suite"]),
                    int(one["examples"]),
                    str(one["weights"]),
                    {str(key): Condition.parse(of) for key, of in one["attempts"].items()},
                )
                for one in stored["asked"]
            ]

    def add(self, asked: Asked) -> None:
        """Add what is asked for now, unless it is a part of what was asked for before.

        If the suite was asked for on more examples before, these are still wanted.
        """
        keys = asked.attempts.keys()
        current = [one for one in self.asked() if one.weights == asked.weights]
        if any(keys <= one.attempts.keys() and asked.examples <= one.examples for one in current):
            return
        others = [
            one for one in current if one.suite != asked.suite or not one.attempts.keys() <= keys
        ]
        before = [one.examples for one in current if one not in others]
        new = asked._replace(examples=max([asked.examples, *before]))
        entries = [
            {**one._asdict(), "attempts": {key: of.key for key, of in one.attempts.items()}}
            for one in (*others, new)
        ]
        self.folder.write_json(PLAN, {"asked": entries})
