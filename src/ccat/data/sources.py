"""Where data comes from: the first source that has it unaltered.

A source is a name and a function that returns the content of one split or fails. What comes from
elsewhere is kept in the cache, which is a directory like one the user could have named.
"""

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pooch
from numpy.typing import NDArray

from ccat.data.images import Images
from ccat.errors import CcatError

_log = logging.getLogger(__name__)
_PATIENCE = 15  # minutes for a package


def download(url: str, known_hash: str | None) -> bytes:
    """Return the content of a file from the web.

    Args:
        url: Where the file is.
        known_hash: Its SHA-256 or "md5:…", or None if it is verified in another way.

    Raises:
        FileNotFoundError: The file cannot be reached.
        ValueError: The file has another hash.
    """
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # a library does not print
    try:
        with tempfile.TemporaryDirectory() as folder:
            name = pooch.retrieve(
                url, known_hash, "file", folder, downloader=pooch.HTTPDownloader(timeout=20)
            )
            return Path(name).read_bytes()
    except OSError as unreachable:
        raise FileNotFoundError(f"not reachable ({type(unreachable).__name__})") from unreachable
    finally:
        logger.setLevel(level)


def download_wheel(requirement: str, folder: str) -> Path:
    """Fetch a wheel from the Python package index into a folder, without installing it."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    return _fetched("pip", requirement, [*pip, "--dest", folder, requirement], folder, "*.whl")


def download_npm(package: str, folder: str) -> Path:
    """Fetch the archive of a package from the npm registry into a folder, without installing it."""
    npm = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination"]
    return _fetched("npm", package, [*npm, folder, package], folder, "*.tgz")


def _fetched(tool: str, package: str, command: list[str], folder: str, pattern: str) -> Path:
    """Run a package manager's command and return the file it left in the folder."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60 * _PATIENCE, check=False, cwd=folder
        )
    except FileNotFoundError:
        raise FileNotFoundError(f"{tool} is not installed") from None
    except subprocess.TimeoutExpired as slow:
        raise FileNotFoundError(
            f"{tool} did not fetch {package} within {_PATIENCE} minutes"
        ) from slow
    files = list(Path(folder).glob(pattern))
    if done.returncode or not files:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR") or "No module" in line]
        reason = (errors or lines or ["no reason given"])[-1]
        raise FileNotFoundError(f"{tool} could not fetch {package} ({reason})")
    return files[0]


Bytes = NDArray[np.uint8]
Arrays = tuple[Bytes, Bytes]  # images, labels
Root = str | os.PathLike[str] | None  # a directory with data; None: the one that CCAT_DATA names
Content = TypeVar("Content")  # what sources read: arrays, or a file that is yet to be decoded


class DataUnavailableError(CcatError):
    """No source has the data: the message says what is wrong with each, and what to do."""


@dataclass(frozen=True)
class Source(Generic[Content]):
    """A place where a data set may be found.

    Attributes:
        name: What messages call it.
        read: Reads the data. Raises FileNotFoundError if there is none, and another OSError or a
            ValueError if something is wrong with it.
        fetched: True if the data comes from another machine and should be kept in the cache.
    """

    name: str
    read: Callable[[], Content]
    fetched: bool = False


def first_verified(
    what: str,
    folder: str,
    sources: Sequence[Source[Content]],
    wrong: Callable[[Content], str | None],
    write: Callable[[Path, Content], None],
    advice: str,
) -> Content:
    """Return what the first source with unaltered data reads.

    A source with damaged or altered data is named in a warning, and the next one is tried.

    Args:
        what: What messages call the data, such as "the test split of MNIST".
        folder: The name of its folder in the cache.
        sources: Where to look, in order.
        wrong: Says what is wrong with data that was read, or returns None if it is as published.
        write: Writes fetched data into that folder, which need not exist. If that fails, there is
            a warning, and the data will be fetched again next time.
        advice: What the user can do if no source has the data.

    Raises:
        DataUnavailableError: No source has the data.
    """
    failures = []
    for source in sources:
        try:
            content = source.read()
        except FileNotFoundError as missing:
            failures.append(f"{source.name}: {missing}")
            _log.info("%s is not in %s (%s)", what, source.name, missing)
            continue
        except (OSError, ValueError, EOFError) as broken:
            reason: str | None = str(broken) or type(broken).__name__
        else:
            reason = wrong(content)
            if reason is None:
                if source.fetched:
                    _keep(what, cache_directory() / folder, content, write)
                _log.info("%s comes from %s, verified", what, source.name)
                return content
        failures.append(f"{source.name}: {reason}")
        warnings.warn(
            f"{what} from {source.name} is not usable ({reason}); trying the next source",
            stacklevel=4,  # whoever called the loader
        )
    raise DataUnavailableError("\n  - ".join([f"no source has {what}:", *failures]) + f"\n{advice}")


def first_images(
    what: str,
    folder: str,
    sources: Sequence[Source[Arrays]],
    sha256: tuple[str, str],
    write: Callable[[Path, Arrays], None],
    advice: str,
) -> Images:
    """Return the images of the first source whose decoded images and labels have these checksums.

    The other arguments and errors are those of `first_verified`.
    """

    def wrong(arrays: Arrays) -> str | None:
        found = tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in arrays)
        return None if found == sha256 else "wrong checksum, the data is not the original"

    return Images.from_arrays(*first_verified(what, folder, sources, wrong, write, advice))


def require_split(what: str, split: str) -> None:
    """Raise a ValueError unless `split` is "train" or "test"."""
    if split not in ("train", "test"):
        raise ValueError(f"{what} has the splits 'train' and 'test', not {split!r}")


def local_sources(
    name: str, root: Root, read: Callable[[Path], Content], *, flat: bool = True
) -> list[Source[Content]]:
    """List the places on this machine where a data set may be: the user's directory, the cache.

    Args:
        name: The name of the data set's folder in these places.
        root: The user's directory.
        read: Reads the data from a folder, or raises FileNotFoundError.
        flat: Whether files may also lie directly in the user's directory, outside that folder.
    """
    sources = [
        Source(f"{label} {path}", partial(_from_directory, path, name, read, flat))
        for label, path in user_directories(root)
    ]
    cache = cache_directory() / name
    return [*sources, Source(f"the cache {cache}", partial(read, cache))]


def user_directories(root: Root) -> list[tuple[str, Path]]:
    """List the directories the user named, each with what to call it: the argument, or CCAT_DATA.

    There is at most one: an argument takes the place of the environment variable.
    """
    if root is not None:
        return [("the directory given", Path(root))]
    if os.environ.get("CCAT_DATA"):
        return [("CCAT_DATA", Path(os.environ["CCAT_DATA"]))]
    return []


def cache_directory() -> Path:
    """Return where fetched data is kept: CCAT_CACHE, or else the operating system's cache."""
    return Path(os.environ.get("CCAT_CACHE") or pooch.os_cache("ccat"))


def _from_directory(path: Path, name: str, read: Callable[[Path], Content], flat: bool) -> Content:
    if not path.is_dir():
        raise NotADirectoryError("there is no such directory")
    if flat:
        try:
            return read(path / name)
        except FileNotFoundError:
            return read(path)
    return read(path / name)


def _keep(
    what: str, folder: Path, content: Content, write: Callable[[Path, Content], None]
) -> None:
    try:
        write(folder, content)
    except OSError as refused:
        warnings.warn(
            f"{what} could not be kept in the cache {folder} ({refused}); "
            "set CCAT_CACHE to a directory you can write to",
            stacklevel=5,
        )
