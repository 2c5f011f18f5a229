"""Picture files of every kind become the bytes that a model takes, or a sentence that names them.

Folders of them: one note counts what was converted; classes of the splits must agree.
"""

import re
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from ccat.data import PictureError, conversions_of, load_own, names_of_classes, read_picture
from ccat.data.picture import MOST_PIXELS, read_header

RED, WHITE = (255, 0, 0), (255, 255, 255)


def saved(file: Path, picture: Image.Image, **options: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    picture.save(file, **options)  # type: ignore[arg-type]
    return file


def pixel(read: NDArray[np.uint8], row: int = 0, column: int = 0) -> tuple[int, ...]:
    return tuple(read[:, row, column].tolist())


# ---- what a file may hold


def test_colour_and_grey_are_read_as_they_are(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    colour = saved(tmp_path / "c.png", Image.fromarray(pixels))
    assert np.array_equal(read_picture(colour), pixels.transpose(2, 0, 1))
    assert read_picture(str(colour)).flags.c_contiguous
    grey = saved(tmp_path / "g.bmp", Image.fromarray(pixels[..., 0]))
    assert np.array_equal(read_picture(grey), pixels[None, ..., 0])
    assert np.array_equal(read_picture(grey, channels=3), np.repeat(pixels[None, ..., 0], 3, 0))
    # ITU-R 601-2, which Pillow documents for grey
    luma = (pixels @ np.array([299, 587, 114])) / 1000
    assert np.abs(read_picture(colour, channels=1)[0] - luma).max() <= 1
    assert read_header(colour) == (3, "", False)
    assert read_header(grey) == (1, "", False)


def test_transparent_pixels_are_laid_on_white(tmp_path: Path) -> None:
    picture = Image.new("RGBA", (4, 4), (0, 0, 0, 0))  # invisible black
    picture.putpixel((1, 0), (*RED, 255))
    picture.putpixel((2, 0), (0, 0, 0, 51))  # a fifth of black, four of white
    for ending in ("png", "webp"):
        file = saved(
            tmp_path / f"a.{ending}", picture, **({"lossless": True} if ending == "webp" else {})
        )
        read = read_picture(file)
        assert [pixel(read, 0, n) for n in range(3)] == [WHITE, RED, (204, 204, 204)]
        assert read_header(file).kind == "RGBA"
    both = Image.new("LA", (4, 4), (10, 0))
    both.putpixel((0, 0), (10, 255))
    read = read_picture(file := saved(tmp_path / "la.png", both))
    assert read.shape == (1, 4, 4)
    assert (pixel(read), pixel(read, 1)) == ((10,), (255,))
    assert read_header(file) == (1, "grey with transparency", False)


def test_a_transparent_colour_of_palette_rgb_or_grey_is_white(tmp_path: Path) -> None:
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([0, 0, 0, *RED])
    palette.putpixel((0, 0), 1)
    for name, options in (("p.png", {"transparency": 0}), ("p.gif", {"transparency": 0})):
        read = read_picture(saved(tmp_path / name, palette, **options))
        assert (pixel(read), pixel(read, 1)) == (RED, WHITE)
    alphas = saved(tmp_path / "alphas.png", palette, transparency=bytes([51, 255]))
    read = read_picture(alphas)
    assert (pixel(read), pixel(read, 1)) == (RED, (204, 204, 204))
    opaque = read_picture(saved(tmp_path / "o.png", palette))
    assert (pixel(opaque), pixel(opaque, 1)) == (RED, (0, 0, 0))
    for mode, hidden, shown in (("RGB", (1, 2, 3), RED), ("L", 7, (9,))):
        plain = Image.new(mode, (4, 4), hidden)
        plain.putpixel((0, 0), shown if mode == "RGB" else 9)
        read = read_picture(saved(tmp_path / f"{mode}.png", plain, transparency=hidden))
        assert (pixel(read), pixel(read, 1)) == (shown, (255,) * len(shown))


def test_16_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    wide = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)
    file = saved(tmp_path / "wide.png", Image.fromarray(wide))
    assert np.array_equal(read_picture(file)[0], np.round(wide / 257).astype(np.uint8))
    assert read_header(file) == (1, "16-bit", False)


def test_1_bit_and_cmyk(tmp_path: Path) -> None:
    bits = Image.new("1", (4, 4), 1)
    bits.putpixel((0, 0), 0)
    read = read_picture(saved(tmp_path / "bits.png", bits))
    assert (pixel(read), pixel(read, 1)) == ((0,), (255,))
    ink = saved(tmp_path / "ink.jpg", Image.new("CMYK", (16, 16), (0, 255, 255, 0)), quality=100)
    assert np.abs(np.array(pixel(read_picture(ink))) - RED).max() <= 3
    assert read_header(ink).kind == "CMYK"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_pictures_stand_upright(tmp_path: Path, orientation: int, ending: str) -> None:
    """EXIF 2.3: the orientation names the sides on which the picture's row 0 and column 0 lie."""
    upright = np.zeros((16, 24), np.uint8)
    upright[:8, :8], upright[:8, 16:] = 250, 120  # top left, top right
    row0, column0 = {
        1: ("top", "left"), 2: ("top", "right"), 3: ("bottom", "right"), 4: ("bottom", "left"),
        5: ("left", "top"), 6: ("right", "top"), 7: ("right", "bottom"), 8: ("left", "bottom"),
    }[orientation]  # fmt: skip
    stored = upright
    if row0 in ("left", "right"):
        stored = stored.T
    if row0 in ("bottom", "right"):
        stored = stored[::-1]
    if column0 in ("bottom", "right"):
        stored = stored[:, ::-1]
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = tmp_path / f"a.{ending}"
    saved(file, Image.fromarray(np.ascontiguousarray(stored)), exif=exif, quality=100)
    read = read_picture(file, channels=1)[0]
    assert read.shape == upright.shape
    assert np.abs(read.astype(int) - upright).max() <= 8
    assert read_header(file).turned == (orientation > 1)


def test_damaged_exif_does_not_damage_the_picture(tmp_path: Path) -> None:
    file = saved(
        tmp_path / "a.jpg", Image.new("L", (8, 8), 99), exif=b"Exif\x00\x00II*\x00\xff\xff"
    )
    assert pixel(read_picture(file)) == (99,)


def test_a_photo_with_a_preview_is_its_first_picture(tmp_path: Path) -> None:
    photo, preview = Image.new("RGB", (16, 16), RED), Image.new("RGB", (8, 8))
    file = saved(tmp_path / "a.jpg", photo, format="MPO", save_all=True, append_images=[preview])
    assert read_picture(file).shape == (3, 16, 16)


# ---- size


def test_the_middle_is_cropped_to_the_shape_and_resized(tmp_path: Path) -> None:
    wide = np.zeros((8, 24), np.uint8)
    wide[:, 8:16] = 255
    file = saved(tmp_path / "wide.png", Image.fromarray(wide))
    assert (read_picture(file, size=4) == 255).all()
    assert read_picture(file, 3, 16).shape == (3, 16, 16)
    assert np.array_equal(read_picture(file, size=(8, 24))[0], wide)
    assert np.array_equal(read_picture(file, size=(8, 16))[0], wide[:, 4:20])
    tall = saved(tmp_path / "tall.png", Image.fromarray(np.ascontiguousarray(wide.T)))
    assert np.array_equal(read_picture(tall, size=(16, 8))[0], wide.T[4:20])
    assert read_picture(tall, size=(2, 200)).shape == (1, 2, 200)


# ---- what is refused


def header_only(file: Path, width: int, height: int) -> Path:
    """A PNG that says it is so large, and has no pixels."""
    chunks = b"\x89PNG\r\n\x1a\n"
    said = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    for kind, content in ((b"IHDR", said), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")):
        check = zlib.crc32(kind + content)
        chunks += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
    file.write_bytes(chunks)
    return file


@pytest.mark.parametrize("side", [9460, 12_000, 20_000, 2**31 - 1])
def test_huge_pictures_are_refused_unread(tmp_path: Path, side: int) -> None:
    file = header_only(tmp_path / "huge.png", side, side)
    tracemalloc.start()
    with pytest.raises(PictureError, match=rf"huge.png has .* at most {MOST_PIXELS:,}"):
        read_picture(file, 3, 64)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_picture_that_memory_does_not_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = header_only(tmp_path / "a.png", 1000, 1000)
    monkeypatch.setattr("ccat.memory.free", lambda device: 10_000_000)
    with pytest.raises(PictureError, match=r"a.png has 1000x1000 pixels, too many for the memory"):
        read_picture(file)


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (500, 3)])
def test_pictures_that_show_nothing_are_refused(tmp_path: Path, size: tuple[int, int]) -> None:
    file = saved(tmp_path / "dot.png", Image.new("RGB", size))
    with pytest.raises(PictureError, match=r"dot.png has .* too few .* at least 4x4"):
        read_picture(file, 3, 64)


@pytest.mark.parametrize("ending", ["gif", "png", "webp"])
def test_animations_are_refused(tmp_path: Path, ending: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, WHITE)]
    file = saved(tmp_path / f"a.{ending}", frames[0], save_all=True, append_images=frames[1:])
    with pytest.raises(PictureError, match=rf"a.{ending} is animated.*save one frame as a PNG"):
        read_picture(file)
    still = saved(tmp_path / f"still.{ending}", frames[0])
    assert read_picture(still).shape == (3, 8, 8)


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "webp", "bmp"])
@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.8])
def test_truncated_pictures_are_named(tmp_path: Path, ending: str, share: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    file = saved(tmp_path / f"cut.{ending}", Image.fromarray(noise))
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(PictureError, match=rf"cut.{ending} is damaged or not an image"):
        read_picture(file, 3, 64)


def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("<svg/>")
    with pytest.raises(PictureError, match=r"a.png is damaged or not an image; ccat reads PNG, "):
        read_picture(tmp_path / "a.png")
    saved(tmp_path / "b.png", Image.new("L", (8, 8)), format="TIFF")  # a format that is not read
    with pytest.raises(PictureError, match=r"b.png is damaged or not an image"):
        read_picture(tmp_path / "b.png")
    for missing in (tmp_path / "none.png", tmp_path):
        with pytest.raises(PictureError, match=f"there is no file {re.escape(str(missing))}$"):
            read_picture(missing)
    with pytest.raises(ValueError, match="channels must be 1"):
        read_picture(tmp_path / "a.png", channels=4)


# ---- folders


def shapes(folder: Path, count: int = 5, mode: str = "RGB", names: str = "ab") -> Path:
    for name in names:
        for n in range(count):
            saved(folder / name / f"{n}.png", Image.new(mode, (8, 8)))
    return folder


def test_one_note_counts_what_was_converted(tmp_path: Path) -> None:
    folder = shapes(tmp_path / "photos")
    dataset = f"unverified:{folder}@8"
    assert conversions_of(dataset) == ""
    for n, mode in enumerate(("RGBA", "RGBA", "P", "L")):
        saved(folder / "a" / f"{n}.png", Image.new(mode, (9, 8)))
    saved(folder / "b" / "4.png", Image.fromarray(np.zeros((8, 8), np.uint16)))
    exif = Image.Exif()
    exif[0x0112] = 6
    saved(folder / "b" / "3.jpg", Image.new("RGB", (8, 8)), exif=exif)
    (folder / "a" / "notes.txt").write_text("no picture")
    (folder / "a" / "._0.png").write_text("hidden, as some systems leave them")
    assert conversions_of(dataset) == (
        "converted 6 of 11 pictures: 2 RGBA, 1 palette, 1 grey, 1 turned upright, 1 16-bit; "
        f"ignored 1 file of other kinds, such as {folder}/a/notes.txt"
    )
    assert load_own(f"{folder}@8", "train").x.shape == (9, 3, 8, 8)
    assert conversions_of("mnist") == ""


def test_colour_in_one_split_makes_both_colour(tmp_path: Path) -> None:
    folder = shapes(tmp_path / "photos", mode="L")
    assert load_own(folder, "train").x.shape == (8, 1, 8, 8)
    assert conversions_of(f"unverified:{folder}") == ""
    saved(folder / "b" / "4.png", Image.new("RGB", (8, 8)))  # the fifth: a test picture
    assert [len(load_own(folder, split).x[0]) for split in ("train", "test")] == [3, 3]


def test_splits_with_different_classes_are_refused(tmp_path: Path) -> None:
    shapes(tmp_path / "train", names="abc")
    shapes(tmp_path / "test", names="abd")
    with pytest.raises(ValueError, match="must have the same classes, but c is only in train"):
        load_own(tmp_path, "train")
    shapes(tmp_path / "test", names="cef")
    with pytest.raises(
        ValueError, match="must have the same classes, but d, e, f are only in test"
    ):
        load_own(tmp_path, "train")
    shapes(tmp_path / "train", names="def")
    assert names_of_classes(f"unverified:{tmp_path}") == tuple("abcdef")


def test_folders_that_lack_something(tmp_path: Path) -> None:
    shapes(tmp_path / "few", 4)
    with pytest.raises(ValueError, match="a has 4 images, too few for a test image: every fifth"):
        load_own(tmp_path / "few", "test")
    saved(tmp_path / "loose" / "1.png", Image.new("L", (8, 8)))
    with pytest.raises(ValueError, match="but has 0 and 1 images beside: put each into the folder"):
        load_own(tmp_path / "loose", "train")
    shapes(tmp_path / "half" / "train")
    shapes(tmp_path / "half" / "val")
    with pytest.raises(
        ValueError, match=r"train with classes, but no folder test: add .*half/test"
    ):
        load_own(tmp_path / "half", "train")
    for name in ("train", "tram"):  # a class may be called train
        shapes(tmp_path / "cars", names=[name])  # type: ignore[arg-type]
    assert names_of_classes(f"unverified:{tmp_path / 'cars'}") == ("train", "tram")
