"""Files that are either complete or absent, whenever a process ends."""

import os
import secrets
from pathlib import Path

UNFINISHED = ".part"  # the suffix of files being written; a killed process may leave one behind


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees either the old content or all of the new.

    The content goes to a temporary file beside `path`, which then replaces it. If anything fails,
    the old file stays as it was and the temporary one is removed.

    Raises:
        FileNotFoundError: The directory of `path` does not exist.
    """
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
