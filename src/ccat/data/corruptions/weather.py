"""Corruptions that lay something over the image: fog, frost, snow, spatter, lines; and edges. Images x (N, H, W, C) in [0,1]."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy import ndimage

from ccat.data.corruptions.blur import Batch, moved


def fog(x: Batch, rng: Generator, amount: float, decay: float) -> Batch:
    """A plasma fractal added, then rescaled to the largest value there was."""
    largest = x.max((1, 2, 3), keepdims=True)
    clouds = plasma(len(x), (x.shape[1], x.shape[2]), decay, rng)[..., None]
    return np.asarray((x + amount * clouds) * largest / (largest + amount))


def plasma(count: int, shape: tuple[int, int], decay: float, rng: Generator) -> NDArray[np.float64]:
    """Clouds (N, H, W) in [0,1]: midpoints displaced at random, by less at every finer step."""
    size = 1 << max(3, int(np.ceil(np.log2(max(shape)))))
    maps = np.zeros((count, size, size))
    step, wobble = size, 1.0
    while step >= 2:
        half = step // 2
        corners = maps[:, ::step, ::step]
        squares = (corners + np.roll(corners, -1, 1) + np.roll(corners, -1, 2) + np.roll(corners, (-1, -1), (1, 2))) / 4
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
    """A texture of crystals: needles that grow from the border, bluish on colour images. (The published set blends photographs.)"""
    count, height, width, channels = x.shape
    tint = np.array([0.85, 0.93, 1.0]) if channels == 3 else np.ones(channels)
    layers = np.empty((count, height, width))
    for n in range(count):
        canvas = Image.new("L", (4 * width, 4 * height))
        draw = ImageDraw.Draw(canvas)
        for _ in range(60):
            _needle(draw, rng, canvas.size)
        crystals = np.asarray(canvas.resize((width, height), Image.Resampling.BOX), dtype=np.float64) / 255
        layers[n] = np.clip(crystals + 0.35 * ndimage.gaussian_filter(rng.random((height, width)), 1), 0, 1)
    return image_weight * x + frost_weight * layers[..., None] * tint


def _needle(draw: ImageDraw.ImageDraw, rng: Generator, size: tuple[int, int]) -> None:
    """A line inwards from the border with short branches at 60°."""
    width, height = size
    side = rng.integers(4)
    place = rng.random()
    x, y = [(place * width, 0.0), (place * width, float(height)), (0.0, place * height), (float(width), place * height)][side]
    angle = [np.pi / 2, -np.pi / 2, 0.0, np.pi][side] + rng.normal(0, 0.5)
    length = rng.uniform(0.2, 0.7) * min(size)
    brightness = int(rng.uniform(120, 255))
    draw.line([(x, y), (x + length * np.cos(angle), y + length * np.sin(angle))], fill=brightness, width=2)
    for share in np.arange(0.2, 1, 0.2):
        for turn in (np.pi / 3, -np.pi / 3):
            start = x + share * length * np.cos(angle), y + share * length * np.sin(angle)
            reach = 0.25 * length * (1 - share)
            draw.line([start, (start[0] + reach * np.cos(angle + turn), start[1] + reach * np.sin(angle + turn))], fill=brightness, width=1)


def snow(
    x: Batch, rng: Generator, mean: float, std: float, zoom: float, cut: float, radius: int, sigma: float, image_weight: float
) -> Batch:
    """Blurred flakes over a paler image."""
    count, height, width, _ = x.shape
    pale = np.maximum(x, x.mean(-1, keepdims=True) * 1.5 + 0.5)
    base = image_weight * x + (1 - image_weight) * pale
    out = np.empty_like(x)
    for n in range(count):
        flakes = rng.normal(mean, std, (int(np.ceil(height / zoom)) + 1, int(np.ceil(width / zoom)) + 1))
        flakes = ndimage.zoom(flakes, zoom, order=1)[:height, :width]
        flakes = np.where(flakes < cut, 0, np.clip(flakes, 0, 1))
        streaks = moved(flakes[..., None], rng.uniform(-3 * np.pi / 4, -np.pi / 4), radius, sigma)
        out[n] = base[n] + streaks + np.rot90(streaks, 2)
    return out


def spatter_grey(
    x: Batch, rng: Generator, mean: float, std: float, sigma: float, threshold: float, mask_sigma: float, mask_cut: float
) -> Batch:
    """Thresholded blurred noise, painted at 63/255."""
    liquid = ndimage.gaussian_filter(rng.normal(mean, std, x.shape[:3]), (0, sigma, sigma))
    mask = ndimage.gaussian_filter((liquid > threshold).astype(np.float64), (0, mask_sigma, mask_sigma))
    mask = np.where(mask < mask_cut, 0, mask)[..., None]
    return np.clip(x + mask * 63 / 255, 0, 1)


def spatter(x: Batch, rng: Generator, mean: float, std: float, sigma: float, cut: float, mask: float, kind: int) -> Batch:
    """Drops of water (0) or mud (1)."""
    liquid = ndimage.gaussian_filter(rng.normal(mean, std, x.shape[:3]), (0, sigma, sigma))
    liquid = np.where(liquid < cut, 0, liquid)
    if kind == 0:
        edges = ndimage.gaussian_gradient_magnitude(liquid, (1e-6, 1, 1))
        weight = np.clip(liquid * mask + 0.5 * edges, 0, 1)[..., None]
        return np.asarray(x + weight * (np.array([175, 238, 238]) / 255 - x))
    weight = np.clip(ndimage.gaussian_filter((liquid > cut).astype(np.float64), (0, sigma, sigma)), 0, 1)
    weight = np.where(weight < 0.8 * mask, 0, weight)[..., None]
    return np.asarray(x * (1 - weight) + weight * np.array([63, 42, 20]) / 255)


def stripe(x: Batch, rng: Generator) -> Batch:
    """The columns of the outer quarters inverted."""
    out = x.copy()
    quarter = x.shape[2] // 4
    for columns in (slice(0, quarter), slice(x.shape[2] - quarter, None)):
        out[:, :, columns] = 1 - x[:, :, columns]
    return out


def dotted_line(x: Batch, rng: Generator) -> Batch:
    """A dashed line from the left to the right between random rows."""
    height, width = x.shape[1:3]

    def dashes() -> NDArray[np.float64]:
        first, last = rng.integers(0, height, 2)
        canvas = np.zeros((height, width))
        columns = np.arange(width)
        rows = np.rint(np.linspace(first, last, width)).astype(int)
        drawn = columns % 4 < 2
        canvas[rows[drawn], columns[drawn]] = 1
        return canvas

    return np.maximum(x, np.stack([dashes() for _ in x])[..., None])


def zigzag(x: Batch, rng: Generator) -> Batch:
    """A line of teeth two long and two wide from column 2 to 25, rising or falling by up to five rows."""
    height, width = x.shape[1:3]

    def teeth() -> NDArray[np.float64]:
        first = rng.integers(6, height - 6)
        last = first + rng.integers(-5, 6)
        columns = np.arange(2, width - 2, 2)
        rows = np.linspace(first, last, len(columns)) + np.where(np.arange(len(columns)) % 2 == 0, -2, 2)
        canvas = Image.new("L", (4 * width, 4 * height))
        points = [(4.0 * column + 2, 4.0 * row + 2) for column, row in zip(columns, rows, strict=True)]
        ImageDraw.Draw(canvas).line(points, fill=255, width=6)
        return np.asarray(canvas.resize((width, height), Image.Resampling.BOX), dtype=np.float64) / 255

    return np.maximum(x, np.stack([teeth() for _ in x])[..., None])


def canny_edges(x: Batch, rng: Generator, sigma: float) -> Batch:
    """The edges instead of the image."""
    from skimage.feature import canny  # noqa: PLC0415 (it takes a second to import, in every worker process)

    edges: Callable[..., NDArray[np.bool_]] = canny
    return np.stack([edges(image[..., 0], sigma=sigma) for image in x])[..., None].astype(np.float64)
