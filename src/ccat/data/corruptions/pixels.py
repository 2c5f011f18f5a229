"""Pixels of corrupted images: as bytes, and as the floats that corruptions compute with.

Shapes: batches are (N, H, W, C), as NumPy's libraries and the published files have them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Batch = Floats  # images (N, H, W, C) in [0,1]


def as_floats(values: NDArray[Any]) -> Floats:
    """Return values on the scale from 0 to 255 as floats on the scale from 0 to 1."""
    return np.asarray(values, dtype=np.float64) / 255


def as_bytes(x: Floats) -> Bytes:
    """Return floats as bytes, those outside [0,1] as 0 or 255."""
    return np.rint(np.clip(x, 0, 1) * 255).astype(np.uint8)


def shrunk(canvas: Image.Image, size: tuple[int, int]) -> Floats:
    """Return a grey drawing at a smaller size (width, height), each pixel the mean of a box."""
    return as_floats(np.asarray(canvas.resize(size, Image.Resampling.BOX)))
