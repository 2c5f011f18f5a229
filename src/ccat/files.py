"""Files and folders that are either complete or absent, whenever a process ends."""

import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Fill a new folder, which appears under its name when it is complete.

    The files go to a folder beside it. If anything fails, that one is removed; if the process is
    killed, the next call for the same name removes it.

    Args:
        path: The folder to make; it may be there already if it is empty.

    Yields:
        The folder to write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    unfinished = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}{UNFINISHED}")
    unfinished.mkdir()
    try:
        yield unfinished
        if path.exists():
            path.rmdir()
        unfinished.rename(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _remove_leftovers(path: Path) -> None:
    """Remove what processes of this machine that are gone have left of a folder."""
    pattern = re.escape(f".{path.name}.{platform.node()}.") + r"(\d+)" + re.escape(UNFINISHED)
    for one in path.parent.iterdir():
        found = re.fullmatch(pattern, one.name)
        if found and one.is_dir() and not one.is_symlink() and not _alive(int(found[1])):
            shutil.rmtree(one, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return process != os.getpid()
