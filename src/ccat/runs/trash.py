"""What a run no longer needs: found, moved to the run's trash, and deleted from there.

trash/                      what `ccat prune` has taken away, under its old names
"""

import os
import shutil
from collections.abc import Iterable

from ccat.files import UNFINISHED
from ccat.runs.directory import Run
from ccat.runs.find import TRASH
from ccat.runs.training import CHECKPOINT


def prunable(run: Run) -> dict[str, str]:
    """Return what a run no longer needs: the names of files and folders, and why.

    Raises:
        RunError: If the run is damaged, for then nobody knows what it needs.
    """
    found = {
        file.relative_to(run.path).as_posix(): "unfinished, left by a process that was killed"
        for file in sorted(run.path.rglob(f".*{UNFINISHED}"))
        if TRASH not in file.relative_to(run.path).parts
    }
    if run.training.trained:
        others = run.attempts.of_other_weights(run.weights)
        found |= dict.fromkeys(others, "belongs to other weights than the run's model")
        if run.folder.has(CHECKPOINT):
            found[CHECKPOINT] = "training is finished"
    return found


def discard(run: Run, names: Iterable[str]) -> None:
    """Move files and folders of a run to its trash."""
    for name in names:
        with run.folder.writing(name), run.folder.writing(f"{TRASH}/{name}"):
            place = run.path / TRASH / name
            while os.path.lexists(place):
                place = place.with_name(f"{place.name}~")
            place.parent.mkdir(parents=True, exist_ok=True)
            (run.path / name).rename(place)


def empty(run: Run) -> int:
    """Delete what is in the trash of a run, and return how many bytes that frees."""
    before = run.disk_use().get(TRASH, 0)
    if run.folder.has(TRASH):
        shutil.rmtree(run.path / TRASH)
    return before


def size_of(run: Run, name: str) -> int:
    """Return the bytes of a file of a run, or of all files in one of its folders."""
    place = run.path / name
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(file.lstat().st_size for file in files if not file.is_dir())
