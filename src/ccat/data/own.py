"""One's own images: an .npz file, or a folder with a folder per class.

There are no checksums to verify them by; only their format is checked.

    mine.npz: arrays train_images, train_labels, test_images, test_labels; images are bytes
        (N, H, W), (N, H, W, C) or (N, C, H, W), labels are whole numbers from 0
    mine/train/cat/*.png, mine/test/dog/*.jpg: PNG or JPEG, all of one size and mode;
        classes are in alphabetical order

Images of different sizes need a rule: `mine@64` crops each to the square in its middle and resizes
that to 64×64 (Lanczos). The rule is part of the name, so every run records it.

A folder without train and test is split: of each class every fifth image, in alphabetical order, is
a test image. Test images are put in an order that mixes the classes, the same every time, because
attacks take the first ones and the last ones choose the threshold.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ccat.data.images import Images

ENDINGS = (".png", ".jpg", ".jpeg")


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
    order = np.random.default_rng(0).permutation(len(y)) if split == "test" else np.arange(len(y))
    return Images.from_arrays(x[order], y[order])


def own_path(name: str) -> tuple[Path, int | None]:
    """Return the path of one's own images, and the size they are resized to, if any."""
    path, at, size = name.rpartition("@")
    if not at or Path(name).exists() or not size.isdigit():
        return Path(name), None
    if int(size) < 1:
        raise ValueError(f"{name}: images cannot be resized to {size} pixels")
    return Path(path), int(size)


def _from_npz(path: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    names = f"{split}_images", f"{split}_labels"
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in names if name not in file]
            if missing:
                raise ValueError(
                    f"{path} has no array {missing[0]}; it needs train_images, train_labels, "
                    "test_images and test_labels"
                )
            images, labels = file[names[0]], file[names[1]]
    except (zipfile.BadZipFile, OSError, EOFError) as broken:
        raise ValueError(f"{path} is damaged or not an .npz file ({broken})") from broken
    except ValueError as objects:
        if "Object arrays" in str(objects):
            raise ValueError(
                f"{path} has objects inside, which are never loaded: "
                "store images as bytes and labels as whole numbers"
            ) from None
        raise
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        kinds = "(N, H, W), (N, H, W, C) or (N, C, H, W)"
        raise ValueError(
            f"{path}: {names[0]} must be bytes (uint8) of shape {kinds}, "
            f"not {images.dtype} of {images.shape}"
        )
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
    arrays = []
    for file in files:
        try:
            with Image.open(file) as picture:
                if picture.mode not in ("L", "RGB"):
                    raise ValueError(
                        f"{file} is of mode {picture.mode}: convert it to grey (L) or colour (RGB)"
                    )
                arrays.append(np.asarray(picture if size is None else _fitted(picture, size)))
        except (UnidentifiedImageError, OSError) as broken:
            raise ValueError(f"{file} is damaged or not an image ({broken})") from broken
        if arrays[-1].shape != arrays[0].shape:
            raise ValueError(
                f"{file} is {arrays[-1].shape}, but {files[0]} is {arrays[0].shape}: all images "
                "must be of one mode and size, or be resized to one, such as 64x64 by writing @64 "
                "after the path"
            )
    return _channels_first(np.stack(arrays), str(files[0].parent))


def _fitted(picture: Image.Image, size: int) -> Image.Image:
    """Resize the square in the middle of a picture."""
    side = min(picture.size)
    left, top = ((length - side) // 2 for length in picture.size)
    return picture.crop((left, top, left + side, top + side)).resize(
        (size, size), Image.Resampling.LANCZOS
    )
