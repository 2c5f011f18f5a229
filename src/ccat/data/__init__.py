"""Data sets as tensors of bytes, each verified by its checksums or marked as unverified.

    images = load_dataset("mnist", "test")        # Images: x (N, 1, 28, 28) bytes, y (N,) labels
    logits = model(images[:100].floats())         # float32 in [0,1]
    x = Augmentation(padding=4, flip=True)(x, generator)

`images.py` defines what a data set is, `registry.py` has the table of all of them (a new one is an
entry there), `splits.py` says which test images are counted and which choose τ. Each data set has a
module (mnist, fashion, svhn, cifar10) that lists its sources; `sources.py` fetches from the first
one with unaltered data, `idx.py` reads MNIST's file format. `own.py` reads one's own images,
`folder.py` those in folders, `picture.py` a single file, `labelled.py` those that choose a
threshold. `augment.py` changes training batches, `corruptions/` makes or reads MNIST-C and
CIFAR-10-C.
"""

from ccat.data.augment import Augmentation
from ccat.data.cifar10 import load_cifar10
from ccat.data.fashion import load_fashion_mnist
from ccat.data.images import Images, to_floats
from ccat.data.mnist import load_mnist
from ccat.data.own import load_own
from ccat.data.picture import PictureError, read_picture
from ccat.data.registry import (
    DATASETS,
    UNVERIFIED,
    DataSet,
    conversions_of,
    data_states,
    load_dataset,
    names_of_classes,
    require_dataset,
)
from ccat.data.sources import DataUnavailableError
from ccat.data.splits import (
    calibration_share,
    calibration_size,
    class_count,
    counted,
    data_digest,
    split_of,
)
from ccat.data.svhn import load_svhn

__all__ = [
    "DATASETS",
    "UNVERIFIED",
    "Augmentation",
    "DataSet",
    "DataUnavailableError",
    "Images",
    "PictureError",
    "calibration_share",
    "calibration_size",
    "class_count",
    "conversions_of",
    "counted",
    "data_digest",
    "data_states",
    "load_cifar10",
    "load_dataset",
    "load_fashion_mnist",
    "load_mnist",
    "load_own",
    "load_svhn",
    "names_of_classes",
    "read_picture",
    "require_dataset",
    "split_of",
    "to_floats",
]
