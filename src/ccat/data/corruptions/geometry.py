"""Corruptions that move pixels: shear, rotation, scale, translation, elastic transformation.

Images x (N, H, W, C) in [0,1]; results have the same shape.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from scipy import ndimage

from ccat.data.corruptions.pixels import Batch, Floats

Change = Callable[[Batch, int], Batch]  # of images, with a sign


def shear(x: Batch, rng: Generator, angle: float) -> Batch:
    """Shift rows sideways in proportion to their height, to either side at random."""
    return either(
        x, rng, lambda part, sign: affine(part, np.array([[1, 0], [sign * np.tan(angle), 1]]))
    )


def rotate(x: Batch, rng: Generator, angle: float) -> Batch:
    """Turn about the centre by an angle in radians, either way at random."""

    def turned(part: Batch, sign: int) -> Batch:
        cos, sin = np.cos(angle), sign * np.sin(angle)
        return affine(part, np.array([[cos, -sin], [sin, cos]]))

    return either(x, rng, turned)


def scale(x: Batch, rng: Generator, factor: float) -> Batch:
    """Shrink about the centre onto black."""
    return zoomed(x, factor, cval=0.0)


def translate(x: Batch, rng: Generator, pixels: int) -> Batch:
    """Move along both axes by whole pixels, either way at random."""
    return either(
        either(x, rng, lambda part, sign: affine(part, np.eye(2), shift=(sign * pixels, 0))),
        rng,
        lambda part, sign: affine(part, np.eye(2), shift=(0, sign * pixels)),
    )


def elastic_transform(
    x: Batch, rng: Generator, alpha: float, sigma: float, affine_by: float
) -> Batch:
    """Move three points at random, then all by a smooth random field.

    Args:
        x: The images.
        rng: Draws the points and the fields.
        alpha: How far the field moves pixels; this and the others are shares of the width.
        sigma: How smooth the field is.
        affine_by: How far the three points are moved at the most.
    """
    count, height, width, channels = x.shape
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    out = np.empty_like(x)
    centre, third = np.array([height, width]) / 2, min(height, width) / 3
    points = np.array([centre + third, [centre[0] + third, centre[1] - third], centre - third])
    for n in range(count):
        target = points + rng.uniform(-affine_by * width, affine_by * width, points.shape)
        matrix = np.linalg.solve(np.c_[target, np.ones(3)], points)  # from result to image
        place = np.stack([rows, columns, np.ones_like(rows)], -1) @ matrix
        if alpha:
            field = rng.uniform(-1, 1, (2, height, width))
            place = place + np.stack(
                [
                    alpha
                    * width
                    * ndimage.gaussian_filter(one, sigma * width, mode="reflect", truncate=3)
                    for one in field
                ],
                -1,
            )
        for channel in range(channels):
            out[n, :, :, channel] = ndimage.map_coordinates(
                x[n, :, :, channel], place.transpose(2, 0, 1), order=1, mode="reflect"
            )
    return out


def zoomed(x: Batch, zoom: float, cval: float | None = None) -> Batch:
    """Zoom about the centre; beyond the edge is the nearest pixel, or `cval`."""
    return affine(x, np.eye(2) / zoom, cval)


def affine(
    x: Batch,
    matrix: Floats,
    cval: float | None = 0.0,
    shift: tuple[float, float] = (0.0, 0.0),
) -> Batch:
    """Transform all images about their centre with one 2×2 matrix.

    Args:
        x: The images.
        matrix: Maps places in the result to places in the image.
        cval: The value beyond the edge; None is that of the nearest pixel.
        shift: How far the result is moved afterwards, in rows and columns.
    """
    centre = (np.array(x.shape[1:3]) - 1) / 2
    offset = centre - matrix @ (centre + np.array(shift))
    whole = np.eye(4)
    whole[1:3, 1:3] = matrix
    mode = "nearest" if cval is None else "constant"
    return np.asarray(
        ndimage.affine_transform(x, whole, (0, *offset, 0), order=1, mode=mode, cval=cval or 0.0)
    )


def either(x: Batch, rng: Generator, change: Change) -> Batch:
    """Apply a change with a random sign for each image."""
    signs = rng.choice([-1, 1], len(x))
    out = np.empty_like(x)
    for sign in (-1, 1):
        if (signs == sign).any():
            out[signs == sign] = change(x[signs == sign], sign)
    return out
