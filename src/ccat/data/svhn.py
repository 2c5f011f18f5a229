"""SVHN, cropped digits (Netzer et al. 2011): 73,257 + 26,032 colour images of 32×32 pixels. Its label 10 is the digit 0."""

import hashlib
import io
import os

import numpy as np
import torch

from ccat.data.images import Images
from ccat.data.sources import Arrays, DataUnavailableError, cache_directory, download, existing, user_directories
from ccat.files import write_whole

URL = "http://ufldl.stanford.edu/housenumbers/"
FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
MD5 = {"train": "e26dedcc434d2e4c54c9b2d4a06d8373", "test": "eb5a983be6a315427106f1b164d9cef3"}  # of the official files


def load_svhn(split: str, root: str | os.PathLike[str] | None = None, *, verified: bool = True) -> Images:
    """One split from a .mat file in `root` (else CCAT_DATA), its folder svhn, the cache, or from the official site.

    With verified=False any file in that layout is taken, such as one that was rebuilt.
    """
    if split not in FILES:
        raise ValueError(f"SVHN has the splits 'train' and 'test', not {split!r}")
    failures = []
    for name, path in [*user_directories(root), ("the cache", cache_directory())]:
        if name != "the cache":
            existing(path)
        files = [file for file in (path / "svhn" / FILES[split], path / FILES[split]) if file.is_file()]
        for file in files:
            content = file.read_bytes()
            if verified and hashlib.md5(content, usedforsecurity=False).hexdigest() != MD5[split]:
                failures.append(f"{name}: {file} is not the official file; --unverified takes it as it is")
                continue
            return _images(_decode(content, str(file)))
        if not files:
            failures.append(f"{name} {path}: no {FILES[split]}")
    try:
        content = download(URL + FILES[split], f"md5:{MD5[split]}")
    except (OSError, ValueError) as unreachable:
        failures.append(f"{URL}: not reachable ({type(unreachable).__name__})")
    else:
        folder = cache_directory() / "svhn"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FILES[split], content)
        return _images(_decode(content, FILES[split]))
    advice = f"Put {FILES[split]} into a directory and name it with CCAT_DATA=DIRECTORY."
    raise DataUnavailableError("\n  - ".join([f"no source has the {split} split of SVHN:", *failures]) + f"\n{advice}")


def _decode(content: bytes, name: str) -> Arrays:
    from scipy.io import loadmat  # noqa: PLC0415 (it takes a second to import, in every worker process)
    from scipy.io.matlab import MatReadError  # noqa: PLC0415

    try:
        table = loadmat(io.BytesIO(content), variable_names=["X", "y"])
        images, labels = table["X"], table["y"].reshape(-1)
    except (MatReadError, KeyError, ValueError, TypeError, OSError, EOFError, NotImplementedError) as broken:
        raise ValueError(f"{name} is damaged or not a .mat file of SVHN ({broken})") from broken
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8 or len(labels) != images.shape[3]:
        raise ValueError(
            f"{name} holds X of {images.dtype} {images.shape} and {len(labels)} labels, not images 32x32x3xN of bytes with N labels"
        )
    if not np.isin(labels, np.arange(1, 11)).all():
        raise ValueError(f"{name} has labels other than 1 to 10")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), (labels % 10).astype(np.uint8)


def _images(arrays: Arrays) -> Images:
    images, labels = arrays
    return Images(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))
