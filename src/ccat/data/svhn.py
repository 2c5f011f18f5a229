"""SVHN, cropped digits (Netzer et al. 2011): 73,257 + 26,032 colour images of 32×32 pixels.

They come from a directory the user names, the cache, or the official site. The official files are
known by their MD5; others in the same layout, such as rebuilt ones, are taken only if the user says
so. Their label 10 is the digit 0, which is label 0 here.
"""

import hashlib
import io
from functools import partial
from pathlib import Path

import numpy as np

from ccat.data.images import Images
from ccat.data.sources import (
    Arrays,
    Root,
    Source,
    download,
    first_verified,
    local_sources,
    require_split,
)
from ccat.files import write_whole

URL = "http://ufldl.stanford.edu/housenumbers/"
FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
MD5 = {"train": "e26dedcc434d2e4c54c9b2d4a06d8373", "test": "eb5a983be6a315427106f1b164d9cef3"}

_File = tuple[str, bytes]  # what to call it, and its content


def load_svhn(split: str, root: Root = None, *, verified: bool = True) -> Images:
    """Load a split of SVHN from the first source that has it.

    Args:
        split: "train" or "test".
        root: A directory with the .mat files, or with a folder `svhn` that has them; by default the
            directory that CCAT_DATA names.
        verified: Whether to take the official files only. If False, any file in their layout is
            taken.

    Raises:
        DataUnavailableError: No source has it.
        ValueError: A file that was not verified is damaged or in another layout.
    """
    require_split("SVHN", split)
    sources = [
        *local_sources("svhn", root, partial(_from_folder, split)),
        Source(f"the official site {URL}", partial(_from_web, split), fetched=True),
    ]
    file = first_verified(
        f"the {split} split of SVHN",
        "svhn",
        sources,
        partial(_unofficial, split) if verified else lambda _: None,
        partial(_write, split),
        f"Put {FILES[split]} into a directory and name it with CCAT_DATA=DIRECTORY.",
    )
    return Images.from_arrays(*_decode(*file))


def _from_folder(split: str, folder: Path) -> _File:
    file = folder / FILES[split]
    if not file.is_file():
        raise FileNotFoundError(f"no {file.name}")
    return str(file), file.read_bytes()


def _from_web(split: str) -> _File:
    return FILES[split], download(URL + FILES[split], f"md5:{MD5[split]}")


def _unofficial(split: str, file: _File) -> str | None:
    name, content = file
    if hashlib.md5(content, usedforsecurity=False).hexdigest() == MD5[split]:
        return None
    return f"{name} is not the official file; --unverified takes it as it is"


def _write(split: str, folder: Path, file: _File) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILES[split], file[1])


def _decode(name: str, content: bytes) -> Arrays:
    """Return images (N, 3, 32, 32) and the digits 0 to 9 from a .mat file."""
    from scipy.io import loadmat  # noqa: PLC0415 (slow to import, in every worker process)

    try:
        table = loadmat(io.BytesIO(content), variable_names=["X", "y"])
        images, labels = table["X"], table["y"].reshape(-1)
    except Exception as broken:  # a damaged file makes SciPy raise anything
        raise ValueError(f"{name} is damaged or not a .mat file of SVHN ({broken})") from broken
    if (
        images.ndim != 4
        or images.shape[:3] != (32, 32, 3)
        or images.dtype != np.uint8
        or len(labels) != images.shape[3]
    ):
        raise ValueError(
            f"{name} holds X of {images.dtype} {images.shape} and {len(labels)} labels, "
            "not images 32x32x3xN of bytes with N labels"
        )
    if not np.isin(labels, np.arange(1, 11)).all():
        raise ValueError(f"{name} has labels other than 1 to 10")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), (labels % 10).astype(np.uint8)
