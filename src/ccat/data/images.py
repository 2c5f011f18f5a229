"""Images and their labels, kept as the bytes they are stored as.

Shapes: x (N, C, H, W) uint8, y (N,) int64.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Images:
    """Images with their labels: a data set or a part of one.

    `images[:1000]`, `images[-1000:]` and `images[rows]` are parts.
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if self.x.ndim != 4 or self.x.dtype != torch.uint8:
            raise ValueError(
                "Images: x must be uint8 of shape (N, C, H, W), "
                f"not {self.x.dtype} of {tuple(self.x.shape)}"
            )
        if self.y.shape != self.x.shape[:1] or self.y.dtype != torch.int64:
            raise ValueError(
                f"Images: y must be {len(self.x)} int64 labels, "
                f"not {self.y.dtype} of {tuple(self.y.shape)}"
            )

    @classmethod
    def from_arrays(cls, images: NDArray[np.uint8], labels: NDArray[Any]) -> "Images":
        """Wrap arrays of bytes (N, C, H, W), or (N, H, W) if they are grey, and labels (N,).

        The bytes are copied only if they are not contiguous or cannot be written to.
        """
        x = images[:, None] if images.ndim == 3 else images
        x = np.require(x, requirements=["C", "W", "E"])
        return cls(torch.from_numpy(x), torch.from_numpy(labels.astype(np.int64)))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | Tensor) -> "Images":
        return Images(self.x[rows], self.y[rows])

    def floats(self) -> Tensor:
        """Return the images as models take them: float32 in [0,1]."""
        return to_floats(self.x)


def to_floats(x: Tensor) -> Tensor:
    """Return images as models take them: bytes become float32 in [0,1], floats stay as they are."""
    return x.float() / 255 if x.dtype == torch.uint8 else x
