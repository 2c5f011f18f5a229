"""Corruptions pixel by pixel: noise, contrast, colour, compression.

Images x (N, H, W, C) in [0,1]; results have the same shape and may leave [0,1].
"""

import io

import numpy as np
from numpy.random import Generator
from PIL import Image

from ccat.data.corruptions.pixels import Batch, Bytes, as_bytes, as_floats


def gaussian_noise(x: Batch, rng: Generator, sigma: float) -> Batch:
    """Add normal noise."""
    return x + rng.normal(0, sigma, x.shape)


def shot_noise(x: Batch, rng: Generator, count: float) -> Batch:
    """Draw Poisson noise, as if `count` photons made the brightest pixel."""
    return rng.poisson(x * count) / count


def impulse_noise(x: Batch, rng: Generator, amount: float) -> Batch:
    """Replace a share of all entries by 0 and 1, one half each."""
    drawn = rng.random(x.shape)
    return np.where(drawn < amount / 2, 0.0, np.where(drawn > 1 - amount / 2, 1.0, x))


def speckle_noise(x: Batch, rng: Generator, sigma: float) -> Batch:
    """Add normal noise in proportion to brightness."""
    return x + x * rng.normal(0, sigma, x.shape)


def contrast(x: Batch, rng: Generator, factor: float) -> Batch:
    """Scale the distance of every pixel from the mean of its channel."""
    mean = x.mean((1, 2), keepdims=True)
    return np.asarray((x - mean) * factor + mean)


def brightness(x: Batch, rng: Generator, amount: float) -> Batch:
    """Add to the value of HSV, which for grey images is the pixel."""
    value = x.max(-1, keepdims=True)
    new = np.clip(value + amount, 0, 1)
    return np.asarray(np.where(value > 0, x / np.where(value > 0, value, 1) * new, new))


def saturate(x: Batch, rng: Generator, factor: float, offset: float) -> Batch:
    """Multiply the saturation of HSV and add an offset; hue and value stay."""
    value = x.max(-1, keepdims=True)
    chroma = value - x.min(-1, keepdims=True)
    saturation = np.where(value > 0, chroma / np.where(value > 0, value, 1), 0)
    new = np.clip(saturation * factor + offset, 0, 1)
    # 0 in the largest channel, 1 in the smallest
    direction = np.where(chroma > 0, (value - x) / np.where(chroma > 0, chroma, 1), 0)
    return np.asarray(value - value * new * direction)


def jpeg_compression(x: Batch, rng: Generator, quality: int) -> Batch:
    """Save as JPEG and load again."""

    def saved(pixels: Bytes) -> Bytes:
        buffer = io.BytesIO()
        Image.fromarray(pixels.squeeze()).save(buffer, "JPEG", quality=quality)
        return np.asarray(Image.open(buffer)).reshape(pixels.shape)

    return as_floats(np.stack([saved(image) for image in as_bytes(x)]))


def pixelate(x: Batch, rng: Generator, factor: float) -> Batch:
    """Shrink by averaging boxes and enlarge again by repeating pixels."""
    height, width = x.shape[1:3]
    small = int(width * factor), int(height * factor)

    def boxed(pixels: Bytes) -> Bytes:
        image = Image.fromarray(pixels.squeeze()).resize(small, Image.Resampling.BOX)
        return np.asarray(image.resize((width, height), Image.Resampling.NEAREST)).reshape(
            pixels.shape
        )

    return as_floats(np.stack([boxed(image) for image in as_bytes(x)]))
