"""`ccat runs`: list the runs of a directory."""

from argparse import Namespace
from pathlib import Path

from ccat.report import markdown
from ccat.runs import Run, RunError, find_runs


def run(options: Namespace) -> None:
    """Print the table."""
    rows = [_summary(path, options.directory) for path in find_runs(options.directory)]
    if not rows:
        print(f"there are no runs in {options.directory}")
        return
    print(markdown(["run", "recipe", "state", "attempts"], rows))


def _summary(path: Path, root: Path) -> list[str]:
    name = str(path.relative_to(root))
    try:
        one = Run.open(path)
        epochs = f"{len(one.training.log())} of {one.recipe.epochs} epochs"
        state = "trained" if one.training.trained else epochs
        return [name, one.recipe.name, state, str(len(one.attempts.keys()))]
    except RunError as unreadable:
        return [name, "–", str(unreadable), "–"]
