"""Corruptions of MNIST-C that draw: stripes, lines, and the edges of the image alone.

Images x (N, H, W, C) in [0,1]; results have the same shape.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ccat.data.corruptions.pixels import Batch, Floats, shrunk


def stripe(x: Batch, rng: Generator) -> Batch:
    """Invert the columns of the outer quarters."""
    out = x.copy()
    quarter = x.shape[2] // 4
    for columns in (slice(0, quarter), slice(x.shape[2] - quarter, None)):
        out[:, :, columns] = 1 - x[:, :, columns]
    return out


def dotted_line(x: Batch, rng: Generator) -> Batch:
    """Draw a dashed line from left to right between random rows."""
    height, width = x.shape[1:3]

    def dashes() -> Floats:
        first, last = rng.integers(0, height, 2)
        canvas = np.zeros((height, width))
        columns = np.arange(width)
        rows = np.rint(np.linspace(first, last, width)).astype(int)
        drawn = columns % 4 < 2
        canvas[rows[drawn], columns[drawn]] = 1
        return canvas

    return np.maximum(x, np.stack([dashes() for _ in x])[..., None])


def zigzag(x: Batch, rng: Generator) -> Batch:
    """Draw a line of teeth, two wide and two high, that rises or falls by up to five rows.

    It runs from the third column to the third from last.
    """
    height, width = x.shape[1:3]

    def teeth() -> Floats:
        first = rng.integers(6, height - 6)
        last = first + rng.integers(-5, 6)
        columns = np.arange(2, width - 2, 2)
        rows = np.linspace(first, last, len(columns)) + np.where(
            np.arange(len(columns)) % 2 == 0, -2, 2
        )
        canvas = Image.new("L", (4 * width, 4 * height))
        points = [
            (4.0 * column + 2, 4.0 * row + 2) for column, row in zip(columns, rows, strict=True)
        ]
        ImageDraw.Draw(canvas).line(points, fill=255, width=6)
        return shrunk(canvas, (width, height))

    return np.maximum(x, np.stack([teeth() for _ in x])[..., None])


def canny_edges(x: Batch, rng: Generator, sigma: float) -> Batch:
    """Show the edges instead of the image."""
    edges = canny()
    found = np.stack([edges(image[..., 0], sigma=sigma) for image in x])
    return found[..., None].astype(np.float64)


def canny() -> Callable[..., NDArray[np.bool_]]:
    """Return scikit-image's edge detector; nothing else of that library is needed.

    Raises:
        ValueError: The library is not installed.
    """
    try:
        from skimage.feature import canny as found  # noqa: PLC0415 (optional, and slow to import)
    except ImportError as missing:
        raise ValueError(
            "the corruption canny_edges needs scikit-image: pip install 'ccat-torch[corruptions]'"
        ) from missing
    edges: Callable[..., NDArray[np.bool_]] = found
    return edges
