"""One's own pictures in folders, a folder per class.

    mine/train/cat/1.png, mine/test/dog/2.jpg: with splits of their own, of the same classes
    mine/cat/1.png, mine/dog/2.jpg: without; of each class every fifth picture, in alphabetical
        order, is a test picture

Classes are numbered in alphabetical order. If any picture of either split is in colour, all are
read in colour.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccat import memory
from ccat.data.picture import ENDINGS, read_header, read_picture

SPLITS = ("train", "test")
_FIFTH = 5  # of a class without splits, every fifth picture is a test picture


def read_folder(
    path: Path, split: str, size: int | None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a split of a folder as bytes (N, C, H, W) and labels (N,), class by class.

    Args:
        path: The folder.
        split: "train" or "test".
        size: The square that every picture is brought to; None if they are of one size already.

    Raises:
        ValueError: Something is wrong with the folder or with a picture; the message says what.
    """
    files = _files(path)
    channels = max(read_header(file).channels for each in files.values() for _, file in each)
    labels = [label for label, _ in files[split]]
    return _pixels([file for _, file in files[split]], channels, size), np.array(labels)


def class_names(path: Path) -> list[str]:
    """Return the classes of a folder in alphabetical order: a label is a place in this list.

    Raises:
        ValueError: There are fewer than two classes, or the splits have different ones.
    """
    if not _parted(path):
        return _two_or_more(path, _folders(path))
    train, test = (_folders(path / split) for split in SPLITS)
    for names, others, split, other in ((train, test, *SPLITS), (test, train, *SPLITS[::-1])):
        if missing := sorted(set(names) - set(others)):
            raise ValueError(
                f"{path / split} and {path / other} must have the same classes, but "
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} only in {split}"
            )
    return _two_or_more(path / "train", train)


def conversions(path: Path) -> str:
    """Return in one sentence how many pictures of a folder are converted when they are read.

    It also counts files that are ignored. It is empty if there is nothing to tell.
    """
    files = [file for each in _files(path).values() for _, file in each]
    headers = [read_header(file) for file in files]
    colour = any(one.channels == 3 for one in headers)
    kinds = Counter[str]()
    converted = 0
    for one in headers:
        grey = "grey" if colour and one.channels == 1 else ""
        found = [one.kind or grey] * bool(one.kind or grey) + ["turned upright"] * one.turned
        kinds.update(found)
        converted += bool(found)
    told = []
    if converted:
        each = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        told.append(f"converted {converted} of {len(files)} pictures: {each}")
    others = sorted(
        {file for folder in {file.parent for file in files} for file in _others(folder)}
    )
    if others:
        many = "1 file" if len(others) == 1 else f"{len(others)} files"
        told.append(f"ignored {many} of other kinds, such as {others[0]}")
    return "; ".join(told)


def _files(path: Path) -> dict[str, list[tuple[int, Path]]]:
    """Return for each split its labels and files, class by class, in alphabetical order."""
    found: dict[str, list[tuple[int, Path]]] = {split: [] for split in SPLITS}
    parted = _parted(path)
    for label, name in enumerate(class_names(path)):
        for split in SPLITS:
            folder = path / split / name if parted else path / name
            files = sorted(file for file in _visible(folder) if file.suffix.lower() in ENDINGS)
            if not files:
                raise ValueError(f"{folder} has no images ({', '.join(ENDINGS)})")
            if not parted:
                test = split == "test"
                if test and len(files) < _FIFTH:
                    raise ValueError(
                        f"{folder} has {len(files)} images, too few for a test image: every fifth "
                        f"of a class becomes one, so each class needs {_FIFTH} or more"
                    )
                last = _FIFTH - 1
                files = [file for n, file in enumerate(files) if (n % _FIFTH == last) == test]
            found[split] += [(label, file) for file in files]
    return found


def _pixels(files: Sequence[Path], channels: int, size: int | None) -> NDArray[np.uint8]:
    """Read pictures of one size as bytes (N, C, H, W)."""
    arrays: list[NDArray[np.uint8]] = []
    for file in files:
        arrays.append(read_picture(file, channels, size))
        if len(arrays) == 1 and arrays[0].nbytes * len(files) > memory.free("cpu") / 4:
            raise ValueError(
                f"{len(files)} images like {file} do not fit into memory: have them resized, such "
                f"as to 64x64 by writing @64 after the path"
            )
        (_, height, width), (_, first_height, first_width) = arrays[-1].shape, arrays[0].shape
        if (height, width) != (first_height, first_width):
            raise ValueError(
                f"{file} has {width}x{height} pixels, but {files[0]} has "
                f"{first_width}x{first_height}: all images must be of one size, or be resized to "
                "one, such as 64x64 by writing @64 after the path"
            )
    return np.stack(arrays)


def _two_or_more(folder: Path, names: list[str]) -> list[str]:
    if len(names) >= 2:
        return names
    loose = sum(file.suffix.lower() in ENDINGS for file in _visible(folder))
    raise ValueError(
        f"{folder} needs a folder for each of two classes or more, but has {len(names)}"
        + (f" and {loose} images beside: put each into the folder of its class" if loose else "")
    )


def _parted(path: Path) -> bool:
    """True if a folder has its own splits.

    Raises:
        ValueError: It has classes below `train`, but no folder `test`.
    """
    train, test = (path / split for split in SPLITS)
    if train.is_dir() and not test.is_dir() and _folders(train):
        raise ValueError(
            f"{path} has a folder train with classes, but no folder test: add {test} with the same "
            f"classes, or name {train}, of which every fifth image then becomes a test image"
        )
    return train.is_dir() and test.is_dir()


def _folders(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir() and one.name[0] != ".")


def _visible(folder: Path) -> Iterable[Path]:
    return (one for one in folder.iterdir() if one.is_file() and one.name[0] != ".")


def _others(folder: Path) -> Iterable[Path]:
    return (file for file in _visible(folder) if file.suffix.lower() not in ENDINGS)
