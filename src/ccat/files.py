"""Files that are whole or not there, whenever a process ends."""

import os
import secrets
from pathlib import Path

UNFINISHED = ".part"  # the ending of files under way: a killed process leaves one behind, and nobody reads it


def write_whole(path: Path, content: bytes) -> None:
    """Writes beside `path`, then takes its place; if anything fails the old file stays and the new one is gone."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.parent}")
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
