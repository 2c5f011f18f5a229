"""One picture file as the bytes that a model takes.

PNG, JPEG, WebP, GIF and BMP are read. Whatever a file holds becomes 8-bit grey or colour:

    transparent pixels      are laid on white, as a page would show them
    palette, CMYK           become colour
    1-bit, 16-bit           become 8-bit grey, from black to white as before
    EXIF orientation        is followed, so that the picture stands upright
    a size                  is reached by cropping the middle to its shape, then resizing (Lanczos)

Colour profiles are not applied. A file from a stranger is refused before it is decoded if it is too
large, and if it is animated, because then nothing says which frame is meant.

Shapes: pictures (C, H, W) uint8.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ccat import memory

FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
}
ENDINGS = tuple(ending for endings in FORMATS.values() for ending in endings)
MOST_PIXELS = 89_478_485  # of one picture, as Pillow's own limit: a square of 9459x9459
RULE = (  # what `read_picture` does, for those who read pictures without ccat
    "turn the picture upright (EXIF), lay transparent pixels on white, convert it to 8-bit grey (1 "
    "channel) or RGB (3), crop the middle to the shape of image_shape (C, H, W), resize that with "
    "Lanczos, divide by 255"
)
LEAST_SIDE = 4  # a side with fewer pixels shows nothing
_BYTES = 16  # per pixel, that decoding and converting takes at most

_GREY = {"1": "1-bit", "L": "", "LA": "grey with transparency", "I;16": "16-bit", "I": "16-bit"}
_COLOUR = {"RGB": "", "RGBA": "RGBA", "P": "palette", "PA": "palette", "CMYK": "CMYK"}
_ORIENTATION = 0x0112  # the EXIF tag
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureError(ValueError):
    """A picture file that cannot be used; the message names it and says what to do."""


class Header(NamedTuple):
    """What the header of a picture file tells before its pixels are read.

    Attributes:
        channels: 1 if it is grey, 3 if it is in colour.
        kind: What has to be converted, such as "RGBA" or "16-bit"; "" if it is 8-bit grey or RGB.
        turned: Whether its EXIF orientation says that it has to be turned to stand upright.
    """

    channels: int
    kind: str
    turned: bool


def read_picture(
    file: str | Path, channels: int | None = None, size: int | tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """Read a picture file as bytes (C, H, W).

    Args:
        file: A PNG, JPEG, WebP, GIF or BMP file.
        channels: 1 for grey, 3 for colour; None leaves it as the file has it.
        size: The (height, width) to bring it to, or one number for a square; None leaves it as it
            is. What is cropped is the same on both sides.

    Raises:
        PictureError: The file is missing, damaged, not a picture, animated, too large or too small.
    """
    if channels not in (None, 1, 3):
        raise ValueError(f"channels must be 1 (grey) or 3 (colour), not {channels!r}")
    with _opened(Path(file)) as picture:
        found = channels or _header(picture).channels
        picture.load()
        turn = _UPRIGHT.get(_orientation(picture))
        flat = _flat(picture).convert("L" if found == 1 else "RGB")
        if turn is not None:
            flat = flat.transpose(turn)
        if size is not None:
            height, width = (size, size) if isinstance(size, int) else size
            flat = _fitted(flat, height, width)
        pixels = np.array(flat)
    return pixels[None] if found == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def read_header(file: str | Path) -> Header:
    """Read the header of a picture file and refuse what it shows to be unfit.

    Raises:
        PictureError: As `read_picture`; a file whose pixels alone are damaged passes.
    """
    with _opened(Path(file)) as picture:
        return _header(picture)


def pictures_in(folder: Path) -> list[Path]:
    """Return the picture files of a folder and of those below it, by name; hidden ones are not."""
    found = (one for one in folder.rglob("*") if one.suffix.lower() in ENDINGS and one.is_file())
    return sorted(
        one for one in found if not any(part[0] == "." for part in one.relative_to(folder).parts)
    )


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    """Open a file, check its header, and name the file in whatever goes wrong."""
    if not file.is_file():
        raise PictureError(f"there is no file {file}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks do not name the file
            with Image.open(file, formats=tuple(FORMATS)) as picture:
                _require_fit(file, picture)
                yield picture
    except PictureError:
        raise
    except Image.DecompressionBombError as large:
        raise _too_large(file, f"more than {2 * MOST_PIXELS:,} pixels") from large
    except UnidentifiedImageError as other:
        raise PictureError(
            f"{file} is damaged or not an image; ccat reads {', '.join(FORMATS)}"
        ) from other
    except Exception as broken:  # a damaged picture makes Pillow raise anything
        raise PictureError(f"{file} is damaged or not an image ({broken})") from broken


def _too_large(file: Path, found: str) -> PictureError:
    return PictureError(
        f"{file} has {found}, and ccat reads at most {MOST_PIXELS:,} (9459x9459): make it smaller"
    )


def _require_fit(file: Path, picture: Image.Image) -> None:
    """Raise PictureError if the header says that the pixels are not worth reading."""
    width, height = picture.size
    if width * height > MOST_PIXELS:
        raise _too_large(file, f"{width}x{height} pixels")
    if _BYTES * width * height > memory.free("cpu"):
        raise PictureError(
            f"{file} has {width}x{height} pixels, too many for the memory that is free: make it "
            "smaller"
        )
    if min(width, height) < LEAST_SIDE:
        raise PictureError(
            f"{file} has {width}x{height} pixels, too few to show anything: pictures need at least "
            f"{LEAST_SIDE}x{LEAST_SIDE}; delete or replace it"
        )
    # A photo may carry a second one, for stereo or as a preview (MPO): the first is the photo.
    if picture.format != "MPO" and hasattr(picture, "is_animated") and picture.is_animated:
        raise PictureError(
            f"{file} is animated, and nothing says which frame is meant: save one frame as a PNG"
        )
    if picture.mode not in _GREY | _COLOUR:
        raise PictureError(f"{file} is of mode {picture.mode}: save it as an 8-bit PNG")


def _header(picture: Image.Image) -> Header:
    # Pillow decodes a whole PNG to find an orientation that is not in front of its pixels.
    early = picture.format != "PNG" or "exif" in picture.info
    turned = early and _orientation(picture) in _UPRIGHT
    if picture.mode in _GREY:
        return Header(1, _GREY[picture.mode], turned)
    return Header(3, _COLOUR[picture.mode], turned)


def _flat(picture: Image.Image) -> Image.Image:
    """Return a picture in 8 bits per channel and without transparency."""
    if picture.mode in ("I;16", "I"):  # numbers from 0 to 65535
        wide = np.asarray(picture).astype(np.uint32)
        return Image.fromarray(((wide * 255 + 32767) // 65535).astype(np.uint8))
    if not picture.has_transparency_data:
        return picture
    over = picture.convert("RGBA")
    white = Image.new("RGBA", over.size, "white")
    return Image.alpha_composite(white, over).convert("RGB")


def _orientation(picture: Image.Image) -> int:
    """Return the EXIF orientation; 1, which is upright, if there is none that can be read."""
    try:
        found = picture.getexif().get(_ORIENTATION)
    except Exception:  # damaged EXIF does not damage the picture
        return 1
    return found if isinstance(found, int) else 1


def _fitted(picture: Image.Image, height: int, width: int) -> Image.Image:
    """Crop the middle of a picture to the shape asked for, and resize that."""
    across, down = picture.size
    if across * height >= down * width:
        across = max(1, round(down * width / height))
    else:
        down = max(1, round(across * height / width))
    left, top = (picture.size[0] - across) // 2, (picture.size[1] - down) // 2
    middle = picture.crop((left, top, left + across, top + down))
    return middle.resize((width, height), Image.Resampling.LANCZOS)
