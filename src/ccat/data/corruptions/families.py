"""The corruptions of MNIST-C and CIFAR-10-C by name, with the parameters of each severity."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ccat.data.corruptions import blur, geometry, lines, noise, weather
from ccat.data.corruptions.pixels import Batch

Corruption = Callable[[Batch, np.random.Generator], Batch]


def _levels(function: Callable[..., Batch], *severities: Any) -> tuple[Corruption, ...]:
    """Return one corruption per severity, each with its parameters."""
    return tuple(
        _with(function, *(one if isinstance(one, tuple) else (one,))) for one in severities
    )


def _with(function: Callable[..., Batch], *parameters: float) -> Corruption:
    return lambda x, rng: function(x, rng, *parameters)


MNIST_C: dict[str, tuple[Corruption, ...]] = {
    "shot_noise": _levels(noise.shot_noise, 3),
    "impulse_noise": _levels(noise.impulse_noise, 0.17),
    "glass_blur": _levels(blur.glass_blur, (0.7, 1, 2)),
    "motion_blur": _levels(blur.motion_blur, (10, 3)),
    "shear": _levels(geometry.shear, 0.4),
    "rotate": _levels(geometry.rotate, 0.4),
    "scale": _levels(geometry.scale, 0.7),
    "translate": _levels(geometry.translate, 3),
    "brightness": _levels(noise.brightness, 0.5),
    "fog": _levels(weather.fog, (3.0, 1.4)),
    "spatter": _levels(weather.spatter_grey, (0.65, 0.3, 1.0, 0.65, 1.5, 0.8)),
    "stripe": _levels(lines.stripe, ()),
    "dotted_line": _levels(lines.dotted_line, ()),
    "zigzag": _levels(lines.zigzag, ()),
    "canny_edges": _levels(lines.canny_edges, 1.0),
}
CIFAR10_C: dict[str, tuple[Corruption, ...]] = {
    "gaussian_noise": _levels(noise.gaussian_noise, 0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": _levels(noise.shot_noise, 500, 250, 100, 75, 50),
    "impulse_noise": _levels(noise.impulse_noise, 0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": _levels(noise.speckle_noise, 0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian_blur": _levels(blur.gaussian_blur, 0.4, 0.6, 0.7, 0.8, 1),
    "glass_blur": _levels(
        blur.glass_blur, (0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)
    ),
    "defocus_blur": _levels(
        blur.defocus_blur, (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)
    ),
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
        geometry.elastic_transform,
        (0, 0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    ),
}
# Each family is a data set under its corruptions.
FAMILIES = {"mnist-c": ("mnist", MNIST_C), "cifar10-c": ("cifar10", CIFAR10_C)}


def require_libraries(names: Iterable[str]) -> None:
    """Raise a ValueError if a library that one of these corruptions needs is not installed.

    Call it before generating a family: none is then left half-made.
    """
    if "canny_edges" in names:
        lines.canny()
