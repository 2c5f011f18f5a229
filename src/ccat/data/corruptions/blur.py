"""Corruptions that blur: Gaussian, glass, defocus, motion, zoom.

Images x (N, H, W, C) in [0,1]; results have the same shape.
"""

import numpy as np
from numpy.random import Generator
from scipy import ndimage

from ccat.data.corruptions.geometry import zoomed
from ccat.data.corruptions.pixels import Batch, Floats


def gaussian_blur(x: Batch, rng: Generator, sigma: float) -> Batch:
    """Blur along both axes."""
    return np.asarray(ndimage.gaussian_filter(x, (0, sigma, sigma, 0)))


def glass_blur(x: Batch, rng: Generator, sigma: float, shift: int, passes: int) -> Batch:
    """Blur, swap pixels with random neighbours up to `shift` away, and blur again."""
    x = gaussian_blur(x, rng, sigma)
    count, height, width, _ = x.shape
    images = np.arange(count)
    for _ in range(passes):
        for row in range(height - shift - 1, shift - 1, -1):
            for column in range(width - shift - 1, shift - 1, -1):
                rows, columns = (
                    place + rng.integers(-shift, shift + 1, count) for place in (row, column)
                )
                kept = x[images, rows, columns].copy()
                x[images, rows, columns] = x[:, row, column]
                x[:, row, column] = kept
    return gaussian_blur(x, rng, sigma)


def defocus_blur(x: Batch, rng: Generator, radius: float, alias: float) -> Batch:
    """Blur with a disk whose edge is softened by `alias`."""
    reach = np.arange(-8, 9)
    disk = (reach[:, None] ** 2 + reach**2 <= radius**2).astype(np.float64)
    kernel = ndimage.gaussian_filter(disk / disk.sum(), alias, truncate=1 / alias)
    return np.asarray(ndimage.convolve(x, kernel[None, :, :, None] / kernel.sum(), mode="reflect"))


def motion_blur(x: Batch, rng: Generator, radius: int, sigma: float) -> Batch:
    """Blur along a fading line, at a random angle for each image."""
    angles = rng.uniform(-np.pi / 4, np.pi / 4, len(x))
    return np.stack(
        [blurred_along(image, angle, radius, sigma) for image, angle in zip(x, angles, strict=True)]
    )


def blurred_along(image: Floats, angle: float, radius: int, sigma: float) -> Floats:
    """Return one image (H, W, C) blurred along a fading line at an angle."""
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    total = np.zeros_like(image)
    for step, weight in zip(steps, weights, strict=True):
        if weight > 1e-4:
            shift = (-step * np.sin(angle), -step * np.cos(angle), 0)
            total += weight * ndimage.shift(image, shift, order=1, mode="nearest")
    return total


def zoom_blur(x: Batch, rng: Generator, most: float) -> Batch:
    """Average zooms from 1 to `most` in steps of 0.01."""
    zooms = np.arange(1, most + 0.005, 0.01)
    return np.asarray(np.mean([zoomed(x, zoom) for zoom in zooms], axis=0))
