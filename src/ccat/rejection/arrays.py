"""Arrays of images from outside, with the axes and in the range that a model takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def to_images(images: Any, shape: Sequence[int]) -> Tensor:
    """Return an array of images as (N, C, H, W), whichever way its axes are ordered.

    Args:
        images: Bytes, or floats in [0,1], of shape (N, C, H, W), (N, H, W, C) or (N, H, W).
        shape: The shape (C, H, W) that each image must have.

    Raises:
        ValueError: If they are no such images.
    """
    if isinstance(images, Tensor):
        x = images
    else:
        array = np.require(images, requirements=["C", "W"])
        if array.dtype.kind not in "biuf":
            raise ValueError(f"images must be bytes or floats in [0,1], not {array.dtype}")
        x = torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    channels, height, width = shape
    if x.ndim == 3 and channels == 1:
        x = x[:, None]
    elif x.ndim == 4 and tuple(x.shape[1:]) == (height, width, channels) != tuple(shape):
        x = x.permute(0, 3, 1, 2)
    return require_images(x, shape)


def require_images(images: Tensor, shape: Sequence[int]) -> Tensor:
    """Return images (N, C, H, W), or raise a ValueError unless they are bytes or lie in [0,1].

    Values are not looked at while a model is compiled or exported.
    """
    if images.ndim != 4 or tuple(images.shape[1:]) != tuple(shape):
        raise ValueError(
            f"this classifier takes images of shape (N, {', '.join(map(str, shape))}), "
            f"not {tuple(images.shape)}"
        )
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point():
        raise ValueError(f"images must be bytes or floats in [0,1], not {images.dtype}")
    if not torch.compiler.is_compiling() and len(images):
        low, high = images.amin().item(), images.amax().item()
        if not (low >= 0 and high <= 1):
            raise ValueError(
                f"images as floats must lie in [0,1], but reach from {low:g} to {high:g}: "
                f"divide bytes by 255, or hand them over as uint8"
            )
    return images
