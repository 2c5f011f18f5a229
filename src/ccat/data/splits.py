"""The splits of a data set by name: loaded once, with fixed roles for the test images.

The last test images choose the threshold τ (they calibrate), all others are attacked and counted.
"""

import hashlib
from functools import lru_cache

from ccat.data.images import Images
from ccat.data.own import own_path
from ccat.data.registry import UNVERIFIED, load_dataset

CALIBRATION = 1000  # how many of the last test images choose τ at the most


def split_of(dataset: str, split: str) -> Images:
    """Load a split of a data set, once per process; one's own images again after they change."""
    return _loaded(dataset, split, _version(dataset))


def calibration_size(dataset: str) -> int:
    """Return how many of the last test images choose the threshold τ and are not counted."""
    return calibration_share(len(split_of(dataset, "test")))


def calibration_share(count: int) -> int:
    """Return how many of `count` test images choose τ: `CALIBRATION`, or half if there are few."""
    return min(CALIBRATION, count // 2)


def counted(dataset: str) -> Images:
    """Return the test images that are attacked and counted: all but those that choose τ."""
    images = split_of(dataset, "test")
    return images[: len(images) - calibration_size(dataset)]


def data_digest(dataset: str) -> str:
    """Return a SHA-256 of the test split, images and labels, by which stored results know it."""
    return _digest(dataset, _version(dataset))


def class_count(dataset: str) -> int:
    """Return the number of classes: one more than the largest label of either split."""
    return 1 + int(max(split_of(dataset, split).y.max() for split in ("train", "test")))


@lru_cache(maxsize=4)
def _loaded(dataset: str, split: str, version: tuple[str, int]) -> Images:
    return load_dataset(dataset, split)


@lru_cache(maxsize=4)
def _digest(dataset: str, version: tuple[str, int]) -> str:
    images = split_of(dataset, "test")
    return hashlib.sha256(images.x.numpy().tobytes() + images.y.numpy().tobytes()).hexdigest()


def _version(dataset: str) -> tuple[str, int]:
    """Return where one's own images are, whatever the working directory, and when they changed."""
    if not dataset.startswith(UNVERIFIED):
        return "", 0
    path, _ = own_path(dataset.removeprefix(UNVERIFIED))
    return (str(path.resolve()), path.stat().st_mtime_ns) if path.exists() else ("", 0)
