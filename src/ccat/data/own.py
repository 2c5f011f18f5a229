"""One's own images: an .npz file, or a folder with a folder per class.

There are no checksums to verify them by; only their format is checked.

    mine.npz: arrays train_images, train_labels, test_images, test_labels; images are bytes
        (N, H, W), (N, H, W, C) or (N, C, H, W), labels are whole numbers from 0
    mine/train/cat/*.png, mine/test/dog/*.jpg: PNG or JPEG, all of one size and mode;
        classes are in alphabetical order

Images of different sizes need a rule: `mine@64` crops each to the square in its middle and resizes
that to 64×64 (Lanczos). The rule is part of the name, so every run records it.

A folder without train and test is split: of each class every fifth image, in alphabetical order, is
a test image. Images are put in an order that mixes the classes evenly, the same every time, because
training and attacks take the first ones, and the last ones are monitored or choose the threshold:
whatever part of them is taken has each class in proportion.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ccat import memory
from ccat.data.images import Images
from ccat.data.npz import read_npz

ENDINGS = (".png", ".jpg", ".jpeg")
MOST_CLASSES = 65_535
MOST_PIXELS = 89_478_485  # of one picture, as Pillow's own limit
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
        x, y = _from_folder(path, split, size)
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


def _from_folder(
    path: Path, split: str, size: int | None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    parted = _parted(path)
    classes = class_names(path)
    files: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        folder = path / split / name if parted else path / name
        found = (
            sorted(file for file in folder.iterdir() if file.suffix.lower() in ENDINGS)
            if folder.is_dir()
            else []
        )
        if not parted:
            found = [file for n, file in enumerate(found) if (n % 5 == 4) == (split == "test")]
        if not found:
            raise ValueError(
                f"{folder} has no {'test ' * (split == 'test')}images ({', '.join(ENDINGS)})"
            )
        files += found
        labels += [number] * len(found)
    return _pixels(files, size), np.array(labels)


def class_names(path: Path) -> list[str]:
    """Return the classes of a folder in alphabetical order: a label is a place in this list."""
    folder = path / "train" if _parted(path) else path
    names = sorted(
        one.name for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")
    )
    if len(names) < 2:
        raise ValueError(
            f"{folder} needs a folder for each of two classes or more, but has {len(names)}"
        )
    return names


def _parted(path: Path) -> bool:
    """True if a folder has its own splits."""
    return (path / "train").is_dir() and (path / "test").is_dir()


def _pixels(files: Sequence[Path], size: int | None) -> NDArray[np.uint8]:
    """Read images of one mode, grey or colour, and one size, as bytes (N, C, H, W)."""
    arrays: list[NDArray[np.uint8]] = []
    for file in files:
        arrays.append(_picture(file, size))
        if len(arrays) == 1 and arrays[0].nbytes * len(files) > memory.free("cpu") / 4:
            raise ValueError(
                f"{len(files)} images like {file} do not fit into memory: have them resized, such "
                f"as to 64x64 by writing @64 after the path"
            )
        if arrays[-1].shape != arrays[0].shape:
            raise ValueError(
                f"{file} is {arrays[-1].shape}, but {files[0]} is {arrays[0].shape}: all images "
                "must be of one mode and size, or be resized to one, such as 64x64 by writing @64 "
                "after the path"
            )
    return _channels_first(np.stack(arrays), str(files[0].parent))


def _picture(file: Path, size: int | None) -> NDArray[np.uint8]:
    """Read one image, grey (H, W) or colour (H, W, 3)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(file) as picture:
                width, height = picture.size
                mode, small = picture.mode, width * height <= MOST_PIXELS
                if small and mode in ("L", "RGB"):
                    return np.asarray(picture if size is None else _fitted(picture, size))
    except Image.DecompressionBombError:
        small = False
    except Exception as broken:  # a damaged picture makes Pillow raise anything
        raise ValueError(f"{file} is damaged or not an image ({broken})") from broken
    if not small:
        raise ValueError(f"{file} has more than {MOST_PIXELS} pixels: make it smaller")
    raise ValueError(f"{file} is of mode {mode}: convert it to grey (L) or colour (RGB)")


def _fitted(picture: Image.Image, size: int) -> Image.Image:
    """Resize the square in the middle of a picture."""
    side = min(picture.size)
    left, top = ((length - side) // 2 for length in picture.size)
    return picture.crop((left, top, left + side, top + side)).resize(
        (size, size), Image.Resampling.LANCZOS
    )
