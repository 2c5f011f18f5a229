"""Drawn shapes in three classes, of mixed sizes, modes and formats, as a user's folder has them."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("circle", "square", "triangle")
MODES = ("RGB", "RGB", "RGB", "RGBA", "P", "L")


def draw(kind: str, generator: np.random.Generator) -> Image.Image:
    """A dark shape on a light ground."""
    width, height = (int(side) for side in generator.integers(48, 120, 2))
    light, dark = generator.integers(150, 256, 3), generator.integers(0, 110, 3)
    picture = Image.new("RGB", (width, height), tuple(light.tolist()))
    radius = int(generator.integers(14, 20))
    x, y = width // 2, height // 2
    box = (x - radius, y - radius, x + radius, y + radius)
    pen, fill = ImageDraw.Draw(picture), tuple(dark.tolist())
    if kind == "circle":
        pen.ellipse(box, fill=fill)
    elif kind == "square":
        pen.rectangle(box, fill=fill)
    else:
        pen.polygon([(x, box[1]), (box[0], box[3]), (box[2], box[3])], fill=fill)
    return picture


def draw_folder(path: Path, each: int = 30) -> Path:
    """Draw a folder with a folder per class."""
    generator = np.random.default_rng(0)
    for kind in CLASSES:
        (path / kind).mkdir(parents=True)
        for n in range(each):
            mode = MODES[n % len(MODES)]
            ending = "jpg" if n % len(MODES) == 1 else "png"
            draw(kind, generator).convert(mode).save(path / kind / f"{n:02}.{ending}")
    return path
