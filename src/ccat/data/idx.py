"""The idx format of MNIST and Fashion-MNIST: reading, writing, and where its four files may lie."""

import gzip
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ccat.data.sources import Arrays, Bytes
from ccat.files import write_whole

_PREFIX = {"train": "train", "test": "t10k"}


def names(split: str) -> tuple[str, str]:
    """Of the files with images and labels."""
    return f"{_PREFIX[split]}-images-idx3-ubyte.gz", f"{_PREFIX[split]}-labels-idx1-ubyte.gz"


def from_folders(folders: Sequence[Path], split: str) -> Arrays:
    """From the first folder that has both files."""
    missing: list[str] = []
    for folder in folders:
        files = [folder / name for name in names(split)]
        missing = [file.name for file in files if not file.is_file()]
        if not missing:
            images, labels = (decode(file.read_bytes(), file.name) for file in files)
            return images, labels
    raise FileNotFoundError(f"{' and '.join(missing)} not found")


def from_mirror(url: str, split: str, sha256: Mapping[str, str], download: Callable[[str, str | None], bytes]) -> Arrays:
    """From the web; the files are verified where their SHA-256 is known."""
    try:
        images, labels = (decode(download(url + name, sha256.get(name)), name) for name in names(split))
    except OSError as unreachable:
        raise FileNotFoundError(f"not reachable ({type(unreachable).__name__})") from unreachable
    return images, labels


def keep(cache: Path, split: str, arrays: Arrays) -> None:
    """Writes what was fetched into the cache; a cache that cannot be written costs only the next download."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        for name, array in zip(names(split), arrays, strict=True):
            header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
            write_whole(cache / name, gzip.compress(header + array.tobytes(), compresslevel=6, mtime=0))
    except OSError as refused:
        warnings.warn(f"data could not be kept in the cache {cache} ({refused}); set CCAT_CACHE to a directory you own", stacklevel=3)


def decode(content: bytes, name: str) -> Bytes:
    """Two zero bytes, 8 for bytes, the number of dimensions, their lengths, the data."""
    try:
        raw = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as broken:
        raise ValueError(f"{name} is damaged or not a gzip file ({broken})") from broken
    dimensions = raw[3] if raw[:3] == b"\0\0\x08" and len(raw) > 3 and len(raw) >= 4 + 4 * raw[3] else 0
    shape = tuple(int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions))
    data = np.frombuffer(raw[4 + 4 * dimensions :], np.uint8)
    if dimensions == 0 or data.size != int(np.prod(shape)):
        raise ValueError(f"{name} is not a complete idx file of bytes")
    return data.reshape(shape)
