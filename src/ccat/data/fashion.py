"""Fashion-MNIST (Xiao et al. 2017): 60,000 + 10,000 grey pictures of clothes of 28×28 pixels.

They come in MNIST's format from a directory the user names, the cache, Debian's package, or the
official mirrors.
"""

from functools import partial
from pathlib import Path

from ccat.data import idx
from ccat.data.images import Images
from ccat.data.sources import Root, Source, first_images, local_sources, require_split

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist is
CLASSES = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

# The checksums of the decoded images and labels, as Debian's package has them.
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


def load_fashion_mnist(split: str, root: Root = None) -> Images:
    """Load a split of Fashion-MNIST from the first source that has it unaltered.

    Args:
        split: "train" or "test".
        root: A directory with a folder `fashion-mnist` that has the four idx .gz files; by default
            the directory that CCAT_DATA names. Files beside that folder are not read: MNIST's have
            the same names.

    Raises:
        DataUnavailableError: No source has it.
    """
    require_split("Fashion-MNIST", split)
    read = partial(idx.from_folder, split)
    sources = [
        *local_sources("fashion-mnist", root, read, flat=False),
        Source(f"the folder {DEBIAN}", partial(read, DEBIAN)),
        *idx.mirrors(MIRRORS, split, (None, None)),
    ]
    advice = (
        f"Put {' and '.join(idx.names(split))} into a directory DIR/fashion-mnist and set "
        "CCAT_DATA=DIR, or install Debian's package dataset-fashion-mnist."
    )
    what, write = f"the {split} split of Fashion-MNIST", partial(idx.write, split)
    return first_images(what, "fashion-mnist", sources, SHA256[split], write, advice)
