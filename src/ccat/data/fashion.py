"""Fashion-MNIST (Xiao et al. 2017): 60,000 + 10,000 grey pictures of clothes, 28×28 pixels, in MNIST's format."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ccat.data import idx
from ccat.data.images import Images
from ccat.data.sources import Arrays, Source, cache_directory, download, existing, first_verified, user_directories

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

# of the decoded bytes, as Debian's package has them: images, labels
SHA256 = {
    "train": (
        "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
    ),
    "test": (
        "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    ),
}


def load_fashion_mnist(split: str, root: str | os.PathLike[str] | None = None) -> Images:
    """One split, from `root` (else CCAT_DATA) or its folder fashion-mnist, the cache, Debian's package, or the official mirrors."""
    if split not in SHA256:
        raise ValueError(f"Fashion-MNIST has the splits 'train' and 'test', not {split!r}")
    cache = cache_directory() / "fashion-mnist"
    sources = [Source(f"{name} {path}", partial(_from_user, path, split)) for name, path in user_directories(root)]
    sources += [Source(f"the folder {folder}", partial(idx.from_folders, [folder], split)) for folder in (cache, DEBIAN)]
    sources += [Source(f"the mirror {url}", partial(_from_mirror, url, split), fetched=True) for url in MIRRORS]
    advice = (
        f"Put {' and '.join(idx.names(split))} into a directory DIR/fashion-mnist and name it with CCAT_DATA=DIR, or install Debian's "
        "package dataset-fashion-mnist."
    )
    arrays, source = first_verified(f"the {split} split of Fashion-MNIST", sources, SHA256[split], advice)
    if source.fetched:
        idx.keep(cache, split, arrays)
    images, labels = arrays
    return Images(torch.from_numpy(images.copy())[:, None], torch.from_numpy(labels.astype(np.int64)))


def _from_user(path: Path, split: str) -> Arrays:
    """Only the folder of that name: MNIST's own files, which have the same names, may lie beside it."""
    return idx.from_folders([existing(path) / "fashion-mnist"], split)


def _from_mirror(url: str, split: str) -> Arrays:
    return idx.from_mirror(url, split, {}, download)
