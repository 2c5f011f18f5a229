"""One's own images: an .npz file, or a folder with a folder per class.

There are no checksums to verify them by; only their format is checked.

    mine.npz: arrays train_images, train_labels, test_images, test_labels; images are bytes
        (N, H, W), (N, H, W, C) or (N, C, H, W), labels are whole numbers from 0
    mine/train/cat/*.png, mine/test/dog/*.jpg: pictures of one size, see `folder` and `picture`

Images of different sizes need a rule: `mine@64` crops each to the square in its middle and resizes
that to 64×64 (Lanczos). The rule is part of the name, so every run records it.

Images are put in an order that mixes the classes evenly, the same every time, because training and
attacks take the first ones, and the last ones are monitored or choose the threshold: whatever part
of them is taken has each class in proportion.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccat.data.folder import read_folder
from ccat.data.images import Images
from ccat.data.npz import read_npz

MOST_CLASSES = 65_535
MOST_SIZE = 2048  # that pictures are resized to


def load_own(name: str | Path, split: str) -> Images:
    """Load a split of one's own images.

    Args:
        name: The path of an .npz file, or of a folder that may be followed by a size: `photos@64`.
        split: "train" or "test".

    Raises:
        ValueError: Something is wrong with the files; the message says what.
    """
    path, size = own_path(str(name))
    if path.is_dir():
        x, y = read_folder(path, split, size)
    elif size is not None:
        raise ValueError(f"{path} is not a folder of images, and only these are resized by @{size}")
    elif path.is_file() and path.suffix == ".npz":
        x, y = _from_npz(path, split)
    else:
        raise ValueError(f"{path} is neither a folder with a folder per class nor an .npz file")
    order = evenly_mixed(y)
    return Images.from_arrays(x[order], y[order])


def evenly_mixed(labels: NDArray[np.int64], seed: int = 0) -> NDArray[np.int64]:
    """Return an order in which every part has each class in proportion, drawn by a seed."""
    generator = np.random.default_rng(seed)
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        place[rows] = (np.arange(len(rows)) + generator.random()) / len(rows)
    return np.argsort(place, kind="stable")


def own_path(name: str) -> tuple[Path, int | None]:
    """Return the path of one's own images, and the size they are resized to, if any."""
    path, at, size = name.rpartition("@")
    if not at or Path(name).exists() or not size.isdigit():
        return Path(name), None
    if len(size) > 9 or not 1 <= int(size) <= MOST_SIZE:
        raise ValueError(f"{name}: images can be resized to 1 to {MOST_SIZE} pixels, not {size}")
    return Path(path), int(size)


def _from_npz(path: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    names = f"{split}_images", f"{split}_labels"
    needs = "train_images, train_labels, test_images and test_labels"
    images, labels = read_npz(path, names, needs)
    return bytes_and_labels(path, names, images, labels)


def bytes_and_labels(
    path: Path, names: tuple[str, str], images: NDArray[Any], labels: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images as bytes (N, C, H, W) and their labels, or raise a ValueError that says why."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        kinds = "(N, H, W), (N, H, W, C) or (N, C, H, W)"
        raise ValueError(
            f"{path}: {names[0]} must be bytes (uint8) of shape {kinds}, "
            f"not {images.dtype} of {images.shape}"
        )
    if 0 in images.shape:
        raise ValueError(f"{path}: {names[0]} has no pixels: its shape is {images.shape}")
    return _channels_first(images, f"{path}: {names[0]}"), _labels(
        labels, len(images), f"{path}: {names[1]}"
    )


def _channels_first(images: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    if images.ndim == 3:
        return images[:, None]
    if images.shape[3] in (1, 3):
        return images.transpose(0, 3, 1, 2)
    if images.shape[1] in (1, 3):
        return images
    raise ValueError(f"{name} has neither one nor three channels: {images.shape}")


def _labels(labels: NDArray[Any], count: int, name: str) -> NDArray[np.int64]:
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{name} must be whole numbers, not {labels.dtype}")
    if labels.shape != (count,) or count == 0:
        raise ValueError(
            f"{name} must be {count} labels, one for each image and at least one, "
            f"not of shape {labels.shape}"
        )
    if labels.min() < 0:
        raise ValueError(f"{name} must not be negative, but has {labels.min()}")
    if labels.max() >= MOST_CLASSES:
        raise ValueError(
            f"{name} must be below {MOST_CLASSES}, but reaches {labels.max()}: number the classes "
            f"from 0"
        )
    return labels.astype(np.int64)
