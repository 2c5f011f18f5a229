"""Families of corrupted images as files: reading the published ones, generating their like.

Layouts: MNIST-C has mnist_c/CORRUPTION/test_images.npy and test_labels.npy; CIFAR-10-C has
CIFAR-10-C/CORRUPTION.npy with five severities of 10,000 images one after the other, and labels.npy.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from ccat.data.corruptions.families import FAMILIES, Corruption, require_libraries
from ccat.data.corruptions.pixels import as_bytes, as_floats
from ccat.data.images import Images
from ccat.files import whole_folder

GENERATED = "generated.json"  # a file that tells a generated family from the published one
_FOLDERS = {"mnist-c": "mnist_c", "cifar10-c": "CIFAR-10-C"}
_SEVERITY = 10_000  # how many images of each severity a file of CIFAR-10-C has


def corrupted(
    images: Images,
    corruptions: Mapping[str, tuple[Corruption, ...]],
    name: str,
    severity: int,
    seed: int = 0,
) -> Images:
    """Return images under a corruption.

    Args:
        images: The images to corrupt.
        corruptions: A family's table, `MNIST_C` or `CIFAR10_C`.
        name: The name of the corruption in it.
        severity: The severity, from 1.
        seed: What is drawn depends on it, the name and the severity.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), severity])
    x = as_floats(images.x.permute(0, 2, 3, 1).numpy())
    changed = as_bytes(corruptions[name][severity - 1](x, rng))
    return Images.from_arrays(changed.transpose(0, 3, 1, 2), images.y.numpy())


def published(folder: Path, family: str) -> dict[tuple[str, int], Callable[[], Images]]:
    """Find the published files of a family below a folder.

    Returns:
        For each corruption and severity a function that loads its images; empty if the files are
        not there, or were generated.
    """
    place = folder / _FOLDERS[family]
    if (place / GENERATED).exists():
        return {}
    if family == "mnist-c":
        return {
            (file.parent.name, 1): partial(
                _load, file, file.parent / "test_labels.npy", slice(None)
            )
            for file in sorted(place.glob("*/test_images.npy"))
            if file.parent.name != "identity"
        }
    labels = place / "labels.npy"
    return {
        (file.stem, severity): partial(
            _load, file, labels, slice(_SEVERITY * (severity - 1), _SEVERITY * severity)
        )
        for file in sorted(place.glob("*.npy"))
        if file != labels
        for severity in range(1, 6)
    }


def generate(
    images: Images, family: str, folder: Path, seed: int, progress: Callable[[int, int, str], None]
) -> None:
    """Write a family in the published layout; the folder appears when it is complete.

    Args:
        images: The images to corrupt.
        family: A key of `FAMILIES`.
        folder: Where to write it; must not exist.
        seed: Seeds what corruptions draw.
        progress: Called after each corruption with how many are done, how many there are, its name.

    Raises:
        ValueError: The folder exists, or a library is missing; nothing is computed then.
    """
    table = FAMILIES[family][1]
    require_libraries(table)
    if folder.exists():
        raise ValueError(f"{folder} is there already: choose another --out, or delete it")
    with whole_folder(folder) as unfinished:
        made = {"family": family, "seed": seed, "images": len(images)}
        (unfinished / GENERATED).write_text(json.dumps(made) + "\n", encoding="utf-8")
        for done, (corruption, levels) in enumerate(table.items(), start=1):
            parts = [
                corrupted(images, table, corruption, severity, seed)
                for severity in range(1, len(levels) + 1)
            ]
            pixels = np.concatenate([part.x.permute(0, 2, 3, 1).numpy() for part in parts])
            labels = np.concatenate([part.y.numpy() for part in parts])
            files = {
                "mnist-c": (f"{corruption}/test_images", f"{corruption}/test_labels"),
                "cifar10-c": (corruption, "labels"),
            }[family]
            for file, array in zip(files, (pixels, labels), strict=True):
                (unfinished / file).parent.mkdir(exist_ok=True)
                np.save(unfinished / file, array, allow_pickle=False)
            progress(done, len(table), corruption)


def _load(images: Path, labels: Path, rows: slice) -> Images:
    try:
        x, y = (np.load(file, mmap_mode="r", allow_pickle=False)[rows] for file in (images, labels))
    except (OSError, ValueError, EOFError) as broken:
        raise ValueError(
            f"{images} or {labels.name} beside it is damaged or missing ({broken})"
        ) from broken
    if x.dtype != np.uint8 or x.ndim != 4 or len(x) != len(y) or len(x) == 0:
        raise ValueError(
            f"{images} holds {x.dtype} of {x.shape} for {len(y)} labels, not bytes (N, H, W, C)"
        )
    return Images.from_arrays(x.transpose(0, 3, 1, 2), np.asarray(y))
