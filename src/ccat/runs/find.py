"""Where run directories are."""

import os
from pathlib import Path

from ccat.runs.folder import RUN_FILE

TRASH = "trash"  # what `ccat prune` has taken away from a run
_INSIDE = {"attempts", "worst"}  # of a run: many folders, and no run below them


def find_runs(root: Path) -> list[Path]:
    """Return all run directories below a directory, by name."""
    found = []
    for place, folders, files in os.walk(root):
        if RUN_FILE in (*folders, *files):
            found.append(Path(place))
            folders[:] = [name for name in folders if name not in _INSIDE]
        folders[:] = [name for name in folders if name != TRASH]
    return sorted(found)


def is_run(path: Path) -> bool:
    """True if the directory is a run."""
    return os.path.lexists(path / RUN_FILE)
