"""`ccat runs`: list the runs of a directory, with Err and RErr at a glance."""

from argparse import Namespace
from pathlib import Path

from ccat.cli.options.runs import RUNS
from ccat.cli.screen import print_rows
from ccat.report.formats import percent
from ccat.runs.find import find_runs
from ccat.runs.folder import RunError
from ccat.runs.glance import Glance, Headline, glance

_HEAD = ("run", "recipe", "state", "attempts", "Err", "RErr", "evaluated")
_NONE = "–"


def run(options: Namespace) -> None:
    """Print the table; torch is not imported."""
    if not options.directory.is_dir() and options.directory != RUNS:
        raise ValueError(f"there is no folder {options.directory}")
    rows = [_row(path, options.directory) for path in find_runs(options.directory)]
    if not rows:
        print(f"there are no runs in {options.directory}: `ccat train RECIPE` makes one in {RUNS}")
        return
    print_rows(_HEAD, rows)
    states = {row[-1] for row in rows}
    if any(state.endswith("stale") for state in states):
        print("\nstale: the run holds more than the evaluation has seen; `ccat evaluate RUN`")
    if _NONE in states:
        print(f"\n{_NONE} not evaluated yet: `ccat evaluate RUN` shows and stores Err and RErr")


def _row(path: Path, root: Path) -> list[str]:
    name = str(path.relative_to(root))
    try:
        one = glance(path)
    except RunError as unreadable:
        return [name, _NONE, str(unreadable), *[_NONE] * 3, "unreadable"]
    state = "trained" if one.done is None else f"{one.done} of {one.epochs} epochs"
    return [name, one.recipe, state, str(one.attempts), *_rates(one.headline), evaluated(one)]


def _rates(found: Headline | None) -> list[str]:
    if found is None:
        return [_NONE, _NONE]
    error = _NONE if found.error is None else percent(found.error)
    worst = found.worst
    return [error, _NONE if worst is None else f"{percent(worst[0])} within {worst[1]}"]


def evaluated(one: Glance) -> str:
    """Return at which true positive rate a run was evaluated, and whether that is stale."""
    if one.headline is None:
        return "damaged" if one.evaluated == "damaged" else _NONE
    at = f"{100 * (one.headline.tpr or 0):g} % TPR"
    return f"{at}, stale" if one.evaluated == "stale" else at
