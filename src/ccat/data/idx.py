"""The idx format of MNIST and Fashion-MNIST: the names of its files, reading and writing them."""

import gzip
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ccat.data.sources import Arrays, Bytes, Source, download
from ccat.files import write_whole

_PREFIX = {"train": "train", "test": "t10k"}


def names(split: str) -> tuple[str, str]:
    """Return the names of the files with the images and the labels of a split."""
    return f"{_PREFIX[split]}-images-idx3-ubyte.gz", f"{_PREFIX[split]}-labels-idx1-ubyte.gz"


def from_folder(split: str, folder: Path) -> Arrays:
    """Read the images and labels of a split from a folder.

    Raises:
        FileNotFoundError: One of the two files is not there.
        ValueError: One of them is damaged.
    """
    files = [folder / name for name in names(split)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"{' and '.join(missing)} not found")
    images, labels = (decode(file.read_bytes(), file.name) for file in files)
    return images, labels


def mirrors(
    urls: Sequence[str], split: str, hashes: tuple[str | None, str | None]
) -> list[Source[Arrays]]:
    """List directories on the web that have the two files of a split, as sources.

    Args:
        urls: The addresses of the directories.
        split: "train" or "test".
        hashes: The SHA-256 of the two compressed files, where it is known.
    """
    return [
        Source(f"the mirror {url}", partial(_from_mirror, url, split, hashes), fetched=True)
        for url in urls
    ]


def _from_mirror(url: str, split: str, hashes: tuple[str | None, str | None]) -> Arrays:
    images, labels = (
        decode(download(url + name, known), name)
        for name, known in zip(names(split), hashes, strict=True)
    )
    return images, labels


def decode(content: bytes, name: str) -> Bytes:
    """Return the array in a compressed idx file.

    The format: two zero bytes, 8 for "bytes", the number of dimensions, their lengths as 32-bit
    numbers with the highest byte first, the data.

    Raises:
        ValueError: The file, which the message calls `name`, is damaged.
    """
    try:
        raw = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as broken:
        raise ValueError(f"{name} is damaged or not a gzip file ({broken})") from broken
    dimensions = (
        raw[3] if raw[:3] == b"\0\0\x08" and len(raw) > 3 and len(raw) >= 4 + 4 * raw[3] else 0
    )
    shape = tuple(int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions))
    data = np.frombuffer(raw[4 + 4 * dimensions :], np.uint8)
    if dimensions == 0 or data.size != int(np.prod(shape)):
        raise ValueError(f"{name} is not a complete idx file of bytes")
    return data.reshape(shape)


def write(split: str, folder: Path, arrays: Arrays) -> None:
    """Write the images and labels of a split into a folder, which need not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(names(split), arrays, strict=True):
        header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
        write_whole(
            folder / name, gzip.compress(header + array.tobytes(), compresslevel=6, mtime=0)
        )
