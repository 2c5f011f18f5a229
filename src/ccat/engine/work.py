"""What engines have in common: a unit of work is computed from itself and from what all units share."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Common = TypeVar("Common")
Unit = TypeVar("Unit")
Result = TypeVar("Result")
Work = Callable[[Common, Unit], Result]


class WorkerError(Exception):
    """A worker ended before its work was done, or there is none."""


class Engine(Protocol):
    """Runs units of work somewhere and hands each result back as soon as it is there.

    Work, common and units must be picklable; what is common goes to each worker once.
    """

    @property
    def away(self) -> bool:
        """Whether workers may be on other machines, which see none of the files of this one."""

    def ready(self) -> None:
        """Refuses at once what could never run."""

    def __call__(self, work: Work[Common, Unit, Result], common: Common, units: Sequence[Unit]) -> Iterator[tuple[Unit, Result]]:
        """Each unit with its result, as they are done."""
