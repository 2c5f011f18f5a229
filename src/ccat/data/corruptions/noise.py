"""Corruptions pixel by pixel: noise, contrast, colour, compression. Images x (N, H, W, C) in [0,1]; so is what they give."""

import io

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image

Batch = NDArray[np.float64]


def gaussian_noise(x: Batch, rng: Generator, sigma: float) -> Batch:
    """Added noise of one deviation."""
    return x + rng.normal(0, sigma, x.shape)


def shot_noise(x: Batch, rng: Generator, count: float) -> Batch:
    """As if `count` photons made the brightest pixel."""
    return rng.poisson(x * count) / count


def impulse_noise(x: Batch, rng: Generator, amount: float) -> Batch:
    """Salt and pepper on that share of entries, half and half."""
    drawn = rng.random(x.shape)
    return np.where(drawn < amount / 2, 0.0, np.where(drawn > 1 - amount / 2, 1.0, x))


def speckle_noise(x: Batch, rng: Generator, sigma: float) -> Batch:
    """Noise that grows with brightness."""
    return x + x * rng.normal(0, sigma, x.shape)


def contrast(x: Batch, rng: Generator, factor: float) -> Batch:
    """Towards the mean of each channel."""
    mean = x.mean((1, 2), keepdims=True)
    return np.asarray((x - mean) * factor + mean)


def brightness(x: Batch, rng: Generator, amount: float) -> Batch:
    """Added to the value of HSV, which for grey is the pixel."""
    value = x.max(-1, keepdims=True)
    new = np.clip(value + amount, 0, 1)
    return np.asarray(np.where(value > 0, x / np.where(value > 0, value, 1) * new, new))


def saturate(x: Batch, rng: Generator, factor: float, offset: float) -> Batch:
    """The saturation of HSV, times a factor, plus an offset; hue and value stay."""
    value = x.max(-1, keepdims=True)
    chroma = value - x.min(-1, keepdims=True)
    saturation = np.where(value > 0, chroma / np.where(value > 0, value, 1), 0)
    new = np.clip(saturation * factor + offset, 0, 1)
    direction = np.where(chroma > 0, (value - x) / np.where(chroma > 0, chroma, 1), 0)  # 0 in the largest channel, 1 in the smallest
    return np.asarray(value - value * new * direction)


def jpeg_compression(x: Batch, rng: Generator, quality: int) -> Batch:
    """Saved and loaded."""

    def saved(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        buffer = io.BytesIO()
        Image.fromarray(pixels.squeeze()).save(buffer, "JPEG", quality=quality)
        return np.asarray(Image.open(buffer)).reshape(pixels.shape)

    return np.stack([saved(image) for image in _bytes(x)]) / 255


def pixelate(x: Batch, rng: Generator, factor: float) -> Batch:
    """Shrunk and enlarged by whole boxes."""
    height, width = x.shape[1:3]
    small = int(width * factor), int(height * factor)

    def boxed(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        image = Image.fromarray(pixels.squeeze()).resize(small, Image.Resampling.BOX)
        return np.asarray(image.resize((width, height), Image.Resampling.NEAREST)).reshape(pixels.shape)

    return np.stack([boxed(image) for image in _bytes(x)]) / 255


def _bytes(x: Batch) -> NDArray[np.uint8]:
    return np.rint(np.clip(x, 0, 1) * 255).astype(np.uint8)
