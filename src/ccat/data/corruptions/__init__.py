"""The corruption benchmarks MNIST-C (Mu & Gilmer 2019) and CIFAR-10-C (Hendrycks & Dietterich 2019), generated or read as published.

A generated set has the same families and parameters as the published one, but not the same bytes; it is always called generated.
"""

import json
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from ccat.data.corruptions import blur, noise, weather
from ccat.data.images import Images

Corruption = Callable[[blur.Batch, np.random.Generator], blur.Batch]


def _levels(function: Callable[..., blur.Batch], *severities: Any) -> tuple[Corruption, ...]:
    """One corruption per severity, each with its parameters."""
    return tuple(_with(function, *(one if isinstance(one, tuple) else (one,))) for one in severities)


def _with(function: Callable[..., blur.Batch], *parameters: float) -> Corruption:
    return lambda x, rng: function(x, rng, *parameters)


MNIST_C: dict[str, tuple[Corruption, ...]] = {
    "shot_noise": _levels(noise.shot_noise, 3),
    "impulse_noise": _levels(noise.impulse_noise, 0.17),
    "glass_blur": _levels(blur.glass_blur, (0.7, 1, 2)),
    "motion_blur": _levels(blur.motion_blur, (10, 3)),
    "shear": _levels(blur.shear, 0.4),
    "rotate": _levels(blur.rotate, 0.4),
    "scale": _levels(blur.scale, 0.7),
    "translate": _levels(blur.translate, 3),
    "brightness": _levels(noise.brightness, 0.5),
    "fog": _levels(weather.fog, (3.0, 1.4)),
    "spatter": _levels(weather.spatter_grey, (0.65, 0.3, 1.0, 0.65, 1.5, 0.8)),
    "stripe": _levels(weather.stripe, ()),
    "dotted_line": _levels(weather.dotted_line, ()),
    "zigzag": _levels(weather.zigzag, ()),
    "canny_edges": _levels(weather.canny_edges, 1.0),
}
CIFAR10_C: dict[str, tuple[Corruption, ...]] = {
    "gaussian_noise": _levels(noise.gaussian_noise, 0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": _levels(noise.shot_noise, 500, 250, 100, 75, 50),
    "impulse_noise": _levels(noise.impulse_noise, 0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": _levels(noise.speckle_noise, 0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian_blur": _levels(blur.gaussian_blur, 0.4, 0.6, 0.7, 0.8, 1),
    "glass_blur": _levels(blur.glass_blur, (0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "defocus_blur": _levels(blur.defocus_blur, (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "motion_blur": _levels(blur.motion_blur, (6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": _levels(blur.zoom_blur, 1.05, 1.10, 1.15, 1.20, 1.25),
    "fog": _levels(weather.fog, (0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "frost": _levels(weather.frost, (1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "snow": _levels(
        weather.snow,
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "spatter": _levels(
        weather.spatter,
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "contrast": _levels(noise.contrast, 0.75, 0.5, 0.4, 0.3, 0.15),
    "brightness": _levels(noise.brightness, 0.05, 0.1, 0.15, 0.2, 0.3),
    "saturate": _levels(noise.saturate, (0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    "jpeg_compression": _levels(noise.jpeg_compression, 80, 65, 58, 50, 40),
    "pixelate": _levels(noise.pixelate, 0.95, 0.9, 0.85, 0.75, 0.65),
    "elastic_transform": _levels(
        blur.elastic_transform, (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)
    ),
}
FAMILIES = {"mnist-c": ("mnist", MNIST_C), "cifar10-c": ("cifar10", CIFAR10_C)}  # each a data set under its corruptions
GENERATED = "generated.json"  # beside files in the published layout, which are then not taken for published ones


def corrupted(images: Images, corruptions: dict[str, tuple[Corruption, ...]], name: str, severity: int, seed: int = 0) -> Images:
    """The images under a corruption at a severity from 1 on. What is drawn depends on the seed, the corruption and the severity."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), severity])
    x = images.x.permute(0, 2, 3, 1).numpy() / 255.0
    changed = np.rint(np.clip(corruptions[name][severity - 1](x, rng), 0, 1) * 255).astype(np.uint8)
    return Images(torch.from_numpy(np.ascontiguousarray(changed.transpose(0, 3, 1, 2))), images.y)


def published(folder: Path, family: str) -> dict[tuple[str, int], Callable[[], Images]]:
    """The published files below a folder, by corruption and severity, each loaded when called; nothing where there are none."""
    if (folder / {"mnist-c": "mnist_c", "cifar10-c": "CIFAR-10-C"}[family] / GENERATED).exists():
        return {}
    if family == "mnist-c":
        found = sorted(folder.glob("mnist_c/*/test_images.npy"))
        return {
            (file.parent.name, 1): partial(_load, file, file.parent / "test_labels.npy", slice(None))
            for file in found
            if file.parent.name != "identity"
        }
    labels = folder / "CIFAR-10-C" / "labels.npy"
    files = [file for file in sorted((folder / "CIFAR-10-C").glob("*.npy")) if file != labels]
    return {
        (file.stem, severity): partial(_load, file, labels, slice(10_000 * (severity - 1), 10_000 * severity))
        for file in files
        for severity in range(1, 6)
    }


def generate(images: Images, family: str, folder: Path, seed: int, progress: Callable[[int, int, str], None]) -> None:
    """Writes a family in the published layout. The folder appears when it is whole."""
    if folder.exists():
        raise ValueError(f"{folder} is there already: choose another --out, or delete it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as name:
        unfinished = Path(name) / "whole"
        unfinished.mkdir()
        (unfinished / GENERATED).write_text(json.dumps({"family": family, "seed": seed, "images": len(images)}) + "\n")
        table = FAMILIES[family][1]
        for done, (corruption, levels) in enumerate(table.items(), start=1):
            parts = [corrupted(images, table, corruption, severity, seed) for severity in range(1, len(levels) + 1)]
            pixels = np.concatenate([part.x.permute(0, 2, 3, 1).numpy() for part in parts])
            labels = np.concatenate([part.y.numpy() for part in parts])
            files = {"mnist-c": (f"{corruption}/test_images", f"{corruption}/test_labels"), "cifar10-c": (corruption, "labels")}[family]
            for file, array in zip(files, (pixels, labels), strict=True):
                (unfinished / file).parent.mkdir(exist_ok=True)
                np.save(unfinished / file, array, allow_pickle=False)
            progress(done, len(table), corruption)
        unfinished.rename(folder)


def _load(images: Path, labels: Path, rows: slice) -> Images:
    try:
        x, y = (np.load(file, mmap_mode="r", allow_pickle=False)[rows] for file in (images, labels))
    except (OSError, ValueError, EOFError) as broken:
        raise ValueError(f"{images} or {labels.name} beside it is damaged or missing ({broken})") from broken
    if x.dtype != np.uint8 or x.ndim != 4 or len(x) != len(y) or len(x) == 0:
        raise ValueError(f"{images} holds {x.dtype} of {x.shape} for {len(y)} labels, not bytes (N, H, W, C)")
    return Images(torch.from_numpy(np.array(x.transpose(0, 3, 1, 2), order="C")), torch.from_numpy(np.array(y, dtype=np.int64)))
