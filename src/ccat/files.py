"""Files that are whole or not there, whenever a process ends."""

import os
from pathlib import Path

UNFINISHED = ".part"  # the ending of files under way: a killed process leaves one behind, and nobody reads it


def write_whole(path: Path, content: bytes) -> None:
    """Writes beside `path`, then takes its place; if anything fails the old file stays and the new one is gone."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
