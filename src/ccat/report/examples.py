"""Adversarial examples as files for other programs."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccat.files import whole_folder, write_whole


def save_examples(out: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Save examples into one .npz file, or into a folder as pairs of images.

    Args:
        out: A file that ends in .npz, or an empty or new folder: then each example becomes two PNG
            files, as it was and as it was attacked.
        arrays: x and x_adv (N, C, H, W) in [0,1], y, prediction and score (N,).
    """
    if out.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, buffer.getvalue())
        return
    if out.suffix:
        raise ValueError(
            f"examples are saved as a .npz file or into a folder without an ending, not {out}"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is not empty: choose a new folder for the images")
    with whole_folder(out) as folder:
        for n in range(len(arrays["y"])):
            shown = f"{arrays['prediction'][n]}-at-{100 * float(arrays['score'][n]):.0f}"
            (folder / f"{n:04d}-is-{arrays['y'][n]}.png").write_bytes(png(arrays["x"][n]))
            (folder / f"{n:04d}-taken-for-{shown}.png").write_bytes(png(arrays["x_adv"][n]))


def png(image: NDArray[np.generic]) -> bytes:
    """Return an image (C, H, W) in [0,1] as a PNG file of 8 bits."""
    from PIL import Image  # noqa: PLC0415 (lists and tables do without)

    pixels = np.rint(np.asarray(image, dtype=np.float64) * 255).astype(np.uint8).transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    return buffer.getvalue()
