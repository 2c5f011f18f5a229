"""Labelled images for a classifier that is in use: in the shape that it takes, by class name.

more.npz: arrays images, bytes (N, H, W), (N, H, W, C) or (N, C, H, W), and labels (N,)
more/cat/*.png, more/dog/*.jpg: a folder per class; all pictures below it are taken
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ccat.data.images import Images
from ccat.data.npz import read_npz
from ccat.data.own import bytes_and_labels
from ccat.data.picture import pictures_in, read_picture


def load_labelled(path: Path, classes: Sequence[str], shape: Sequence[int]) -> Images:
    """Load all labelled images of an .npz file or of a folder.

    Args:
        path: The file or the folder.
        classes: The names of the classes, which the folders must have.
        shape: The shape (C, H, W) that pictures are brought to, and that arrays must have.

    Raises:
        ValueError: If something is wrong with the files; the message says what.
    """
    if path.is_dir():
        return _from_folders(path, classes, shape)
    if path.suffix != ".npz":
        raise ValueError(f"{path} is neither a folder with a folder per class nor an .npz file")
    names = ("images", "labels")
    images, labels = read_npz(path, names, "the arrays images and labels")
    x, y = bytes_and_labels(path, names, images, labels)
    if x.shape[1:] != tuple(shape):
        raise ValueError(f"{path}: images are of shape {x.shape[1:]}, not {tuple(shape)}")
    if y.max() >= len(classes):
        raise ValueError(
            f"{path}: labels reach {y.max()}, but the classifier has {len(classes)} classes"
        )
    return Images.from_arrays(x, y)


def _from_folders(path: Path, classes: Sequence[str], shape: Sequence[int]) -> Images:
    there = {one.name for one in path.iterdir() if one.is_dir() and not one.name.startswith(".")}
    if unknown := sorted(there - set(classes)):
        raise ValueError(
            f"{path} has a folder {unknown[0]!r}, which is no class of the classifier: it knows "
            f"{', '.join(classes)}"
        )
    channels, height, width = shape
    files = [
        (file, label) for label, name in enumerate(classes) for file in pictures_in(path / name)
    ]
    if not files:
        raise ValueError(f"{path} has no pictures in folders named {', '.join(classes)}")
    pixels = [read_picture(file, channels, (height, width)) for file, _ in files]
    return Images.from_arrays(np.stack(pixels), np.array([label for _, label in files]))
