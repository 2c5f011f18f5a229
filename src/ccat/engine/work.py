"""What all engines have in common: the protocol they follow and the error they raise."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from ccat.errors import CcatError

Common = TypeVar("Common")  # what all units share
Unit = TypeVar("Unit")
Result = TypeVar("Result")
Work = Callable[[Common, Unit], Result]


class WorkerError(CcatError):
    """The error raised when a worker ended before its work was done, or when there is none."""


class Engine(Protocol):
    """A place where units of work are computed.

    The work, what is common and the units must be picklable.
    """

    @property
    def away(self) -> bool:
        """True if workers may be on other machines, which do not see the files of this one."""

    def ready(self) -> None:
        """Check that work can run here, before any is prepared.

        Raises:
            WorkerError: The engine cannot be reached, or could never run a unit.
        """

    def __call__(
        self, work: Work[Common, Unit, Result], common: Common, units: deque[Unit]
    ) -> Iterator[tuple[Unit, Result]]:
        """Compute `work(common, unit)` for every unit of a queue, which is used up.

        While it handles a result, the caller may add units that can be computed only now.

        Yields:
            Each unit with its result, in the order in which they finish.

        Raises:
            WorkerError: A worker was lost. Errors that `work` raises are raised as they are.
        """
