"""Corruptions by blurring and moving. Images x (N, H, W, C) in [0,1]; so is what they give."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import ndimage

Batch = NDArray[np.float64]
Change = Callable[[Batch, int], Batch]


def gaussian_blur(x: Batch, rng: Generator, sigma: float) -> Batch:
    """Along both axes."""
    return np.asarray(ndimage.gaussian_filter(x, (0, sigma, sigma, 0)))


def glass_blur(x: Batch, rng: Generator, sigma: float, shift: int, passes: int) -> Batch:
    """Blurred, pixels swapped with neighbours, blurred again."""
    x = gaussian_blur(x, rng, sigma)
    count, height, width, _ = x.shape
    images = np.arange(count)
    for _ in range(passes):
        for row in range(height - shift - 1, shift - 1, -1):
            for column in range(width - shift - 1, shift - 1, -1):
                rows, columns = (place + rng.integers(-shift, shift + 1, count) for place in (row, column))
                kept = x[images, rows, columns].copy()
                x[images, rows, columns] = x[:, row, column]
                x[:, row, column] = kept
    return gaussian_blur(x, rng, sigma)


def defocus_blur(x: Batch, rng: Generator, radius: float, alias: float) -> Batch:
    """A disk whose edge is softened."""
    reach = np.arange(-8, 9)
    disk = (reach[:, None] ** 2 + reach**2 <= radius**2).astype(np.float64)
    kernel = ndimage.gaussian_filter(disk / disk.sum(), alias, truncate=1 / alias)
    return np.asarray(ndimage.convolve(x, kernel[None, :, :, None] / kernel.sum(), mode="reflect"))


def motion_blur(x: Batch, rng: Generator, radius: int, sigma: float) -> Batch:
    """Along a line at a random angle of each image, fading."""
    angles = rng.uniform(-np.pi / 4, np.pi / 4, len(x))
    return np.stack([moved(image, angle, radius, sigma) for image, angle in zip(x, angles, strict=True)])


def moved(image: NDArray[np.float64], angle: float, radius: int, sigma: float) -> NDArray[np.float64]:
    """One image (H, W, C), blurred along an angle."""
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
    """The mean of zooms from 1 in steps of 0.01."""
    zooms = np.arange(1, most + 0.005, 0.01)
    return np.asarray(np.mean([zoomed(x, zoom) for zoom in zooms], axis=0))


def zoomed(x: Batch, zoom: float, cval: float | None = None) -> Batch:
    """About the centre; beyond the edge the nearest pixel, or a value."""
    return affine(x, np.eye(2) / zoom, cval)


def affine(x: Batch, matrix: NDArray[np.float64], cval: float | None = 0.0, shift: tuple[float, float] = (0.0, 0.0)) -> Batch:
    """The images seen through a 2×2 matrix about their centre, output to input; one matrix for all."""
    centre = (np.array(x.shape[1:3]) - 1) / 2
    offset = centre - matrix @ (centre + np.array(shift))
    whole = np.eye(4)
    whole[1:3, 1:3] = matrix
    mode = "nearest" if cval is None else "constant"
    return np.asarray(ndimage.affine_transform(x, whole, (0, *offset, 0), order=1, mode=mode, cval=cval or 0.0))


def shear(x: Batch, rng: Generator, angle: float) -> Batch:
    """Rows moved sideways, to either side at random."""
    return either(x, rng, lambda part, sign: affine(part, np.array([[1, 0], [sign * np.tan(angle), 1]])))


def rotate(x: Batch, rng: Generator, angle: float) -> Batch:
    """Either way at random."""

    def turned(part: Batch, sign: int) -> Batch:
        cos, sin = np.cos(angle), sign * np.sin(angle)
        return affine(part, np.array([[cos, -sin], [sin, cos]]))

    return either(x, rng, turned)


def scale(x: Batch, rng: Generator, factor: float) -> Batch:
    """Shrunk about the centre onto black."""
    return zoomed(x, factor, cval=0.0)


def translate(x: Batch, rng: Generator, pixels: int) -> Batch:
    """Along both axes, either way at random."""
    return either(
        either(x, rng, lambda part, sign: affine(part, np.eye(2), shift=(sign * pixels, 0))),
        rng,
        lambda part, sign: affine(part, np.eye(2), shift=(0, sign * pixels)),
    )


def either(x: Batch, rng: Generator, change: Change) -> Batch:
    """A change with a random sign for each image."""
    signs = rng.choice([-1, 1], len(x))
    out = np.empty_like(x)
    for sign in (-1, 1):
        if (signs == sign).any():
            out[signs == sign] = change(x[signs == sign], sign)
    return out


def elastic_transform(x: Batch, rng: Generator, alpha: float, sigma: float, affine_by: float) -> Batch:
    """Three points moved at random, then a smooth random field; all in units of the image's width."""
    count, height, width, channels = x.shape
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    out = np.empty_like(x)
    centre, third = np.array([height, width]) / 2, min(height, width) / 3
    points = np.array([centre + third, [centre[0] + third, centre[1] - third], centre - third])
    for n in range(count):
        target = points + rng.uniform(-affine_by * width, affine_by * width, points.shape)
        matrix = np.linalg.solve(np.c_[target, np.ones(3)], points)  # where a pixel comes from
        place = np.stack([rows, columns, np.ones_like(rows)], -1) @ matrix
        if alpha:
            field = rng.uniform(-1, 1, (2, height, width))
            place = place + np.stack(
                [alpha * width * ndimage.gaussian_filter(one, sigma * width, mode="reflect", truncate=3) for one in field], -1
            )
        for channel in range(channels):
            out[n, :, :, channel] = ndimage.map_coordinates(x[n, :, :, channel], place.transpose(2, 0, 1), order=1, mode="reflect")
    return out
