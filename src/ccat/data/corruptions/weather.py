"""Corruptions that lay weather over the image: fog, frost, snow, spatter.

Images x (N, H, W, C) in [0,1]; results have the same shape and may leave [0,1].
"""

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw
from scipy import ndimage

from ccat.data.corruptions.blur import blurred_along
from ccat.data.corruptions.pixels import Batch, Floats, as_floats, shrunk

_WATER, _MUD = np.array([175, 238, 238]), np.array([63, 42, 20])  # colours in bytes


def fog(x: Batch, rng: Generator, amount: float, decay: float) -> Batch:
    """Add a plasma fractal, then rescale to the largest value that was there."""
    largest = x.max((1, 2, 3), keepdims=True)
    clouds = plasma(len(x), (x.shape[1], x.shape[2]), decay, rng)[..., None]
    return np.asarray((x + amount * clouds) * largest / (largest + amount))


def plasma(count: int, shape: tuple[int, int], decay: float, rng: Generator) -> Floats:
    """Draw clouds (N, H, W) in [0,1] by displacing midpoints, by less at every finer step."""
    size = 1 << max(3, int(np.ceil(np.log2(max(shape)))))
    maps = np.zeros((count, size, size))
    step, wobble = size, 1.0
    while step >= 2:
        half = step // 2
        corners = maps[:, ::step, ::step]
        squares = (
            corners
            + np.roll(corners, -1, 1)
            + np.roll(corners, -1, 2)
            + np.roll(corners, (-1, -1), (1, 2))
        ) / 4
        maps[:, half::step, half::step] = squares + wobble * rng.uniform(-1, 1, squares.shape)
        middles = maps[:, half::step, half::step]
        left = (corners + np.roll(corners, -1, 1) + middles + np.roll(middles, 1, 2)) / 4
        maps[:, half::step, ::step] = left + wobble * rng.uniform(-1, 1, left.shape)
        top = (corners + np.roll(corners, -1, 2) + middles + np.roll(middles, 1, 1)) / 4
        maps[:, ::step, half::step] = top + wobble * rng.uniform(-1, 1, top.shape)
        step, wobble = half, wobble / decay
    maps -= maps.min((1, 2), keepdims=True)
    maps /= np.maximum(maps.max((1, 2), keepdims=True), 1e-12)
    return maps[:, : shape[0], : shape[1]]


def frost(x: Batch, rng: Generator, image_weight: float, frost_weight: float) -> Batch:
    """Blend with drawn ice crystals: needles that grow from the border, bluish on colour images.

    (The published set blends with photographs.)
    """
    count, height, width, channels = x.shape
    tint = np.array([0.85, 0.93, 1.0]) if channels == 3 else np.ones(channels)
    layers = np.empty((count, height, width))
    for n in range(count):
        canvas = Image.new("L", (4 * width, 4 * height))
        draw = ImageDraw.Draw(canvas)
        for _ in range(60):
            _needle(draw, rng, canvas.size)
        crystals = shrunk(canvas, (width, height))
        layers[n] = np.clip(
            crystals + 0.35 * ndimage.gaussian_filter(rng.random((height, width)), 1), 0, 1
        )
    return image_weight * x + frost_weight * layers[..., None] * tint


def _needle(draw: ImageDraw.ImageDraw, rng: Generator, size: tuple[int, int]) -> None:
    """Draw a line inwards from the border with short branches at 60°."""
    width, height = size
    side = rng.integers(4)
    place = rng.random()
    x, y = [
        (place * width, 0.0),
        (place * width, float(height)),
        (0.0, place * height),
        (float(width), place * height),
    ][side]
    angle = [np.pi / 2, -np.pi / 2, 0.0, np.pi][side] + rng.normal(0, 0.5)
    length = rng.uniform(0.2, 0.7) * min(size)
    brightness = int(rng.uniform(120, 255))
    draw.line(
        [(x, y), (x + length * np.cos(angle), y + length * np.sin(angle))], fill=brightness, width=2
    )
    for share in np.arange(0.2, 1, 0.2):
        for turn in (np.pi / 3, -np.pi / 3):
            start = x + share * length * np.cos(angle), y + share * length * np.sin(angle)
            reach = 0.25 * length * (1 - share)
            draw.line(
                [
                    start,
                    (
                        start[0] + reach * np.cos(angle + turn),
                        start[1] + reach * np.sin(angle + turn),
                    ),
                ],
                fill=brightness,
                width=1,
            )


def snow(
    x: Batch,
    rng: Generator,
    mean: float,
    std: float,
    zoom: float,
    cut: float,
    radius: int,
    sigma: float,
    image_weight: float,
) -> Batch:
    """Lay blurred flakes over a paler image.

    Args:
        x: The images.
        rng: Draws the flakes and the direction of the wind.
        mean: The mean of the noise that flakes are cut from.
        std: Its standard deviation.
        zoom: How much the flakes are enlarged.
        cut: The value below which there is no flake.
        radius: The length of a streak, as in `motion_blur`.
        sigma: How fast a streak fades.
        image_weight: The share of the image itself; the rest is its paler copy.
    """
    count, height, width, _ = x.shape
    pale = np.maximum(x, x.mean(-1, keepdims=True) * 1.5 + 0.5)
    base = image_weight * x + (1 - image_weight) * pale
    out = np.empty_like(x)
    for n in range(count):
        flakes = rng.normal(
            mean, std, (int(np.ceil(height / zoom)) + 1, int(np.ceil(width / zoom)) + 1)
        )
        flakes = ndimage.zoom(flakes, zoom, order=1)[:height, :width]
        flakes = np.where(flakes < cut, 0, np.clip(flakes, 0, 1))
        streaks = blurred_along(
            flakes[..., None], rng.uniform(-3 * np.pi / 4, -np.pi / 4), radius, sigma
        )
        out[n] = base[n] + streaks + np.rot90(streaks, 2)
    return out


def spatter_grey(
    x: Batch,
    rng: Generator,
    mean: float,
    std: float,
    sigma: float,
    threshold: float,
    mask_sigma: float,
    mask_cut: float,
) -> Batch:
    """Paint drops, which are blurred noise above a threshold, at the grey level 63.

    Args:
        x: The images.
        rng: Draws the noise.
        mean: The mean of the noise.
        std: Its standard deviation.
        sigma: How much it is blurred.
        threshold: The value above which there is a drop.
        mask_sigma: How much the drops are blurred.
        mask_cut: The value below which a blurred drop is dropped.
    """
    liquid = _liquid(x, rng, mean, std, sigma)
    mask = ndimage.gaussian_filter(
        (liquid > threshold).astype(np.float64), (0, mask_sigma, mask_sigma)
    )
    mask = np.where(mask < mask_cut, 0, mask)[..., None]
    return np.clip(x + as_floats(mask * 63), 0, 1)


def spatter(
    x: Batch,
    rng: Generator,
    mean: float,
    std: float,
    sigma: float,
    cut: float,
    mask: float,
    kind: int,
) -> Batch:
    """Paint drops of water or mud.

    Args:
        x: The images.
        rng: Draws the noise that drops are cut from.
        mean: The mean of the noise.
        std: Its standard deviation.
        sigma: How much it is blurred.
        cut: The value below which there is no drop.
        mask: How opaque water is; of mud, how far inside its edge it begins.
        kind: 0 for water, 1 for mud.
    """
    liquid = _liquid(x, rng, mean, std, sigma)
    liquid = np.where(liquid < cut, 0, liquid)
    if kind == 0:
        edges = ndimage.gaussian_gradient_magnitude(liquid, (1e-6, 1, 1))
        weight = np.clip(liquid * mask + 0.5 * edges, 0, 1)[..., None]
        return np.asarray(x + weight * (as_floats(_WATER) - x))
    weight = np.clip(
        ndimage.gaussian_filter((liquid > cut).astype(np.float64), (0, sigma, sigma)), 0, 1
    )
    weight = np.where(weight < 0.8 * mask, 0, weight)[..., None]
    return np.asarray(x * (1 - weight) + as_floats(weight * _MUD))


def _liquid(x: Batch, rng: Generator, mean: float, std: float, sigma: float) -> Floats:
    """Draw blurred noise (N, H, W), from which drops are cut."""
    return np.asarray(
        ndimage.gaussian_filter(rng.normal(mean, std, x.shape[:3]), (0, sigma, sigma))
    )
