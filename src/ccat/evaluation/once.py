"""What several tables use of a run is computed once: kept beside the run, and gone with it."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ccat.evaluation.run_outcomes import RunOutcomes

P = ParamSpec("P")
T = TypeVar("T")


def once(
    function: Callable[Concatenate[RunOutcomes, P], T],
) -> Callable[Concatenate[RunOutcomes, P], T]:
    """Return the function so that it is called once for each run and further arguments.

    Nothing of a run changes after it was made, so neither does what follows from it.
    """
    kept: WeakKeyDictionary[RunOutcomes, dict[Any, T]] = WeakKeyDictionary()

    @wraps(function)
    def called(run: RunOutcomes, /, *args: P.args, **kwargs: P.kwargs) -> T:
        known = kept.setdefault(run, {})
        key = (args, tuple(kwargs.items()))
        if key not in known:
            known[key] = function(run, *args, **kwargs)
        return known[key]

    return called
