"""Images and their labels, kept as the bytes they are stored as.

Shapes: x (N, C, H, W) uint8, y (N,) int64.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Images:
    """A data set or a part of one: `images[:1000]`, `images[-1000:]`, `images[rows]` are parts."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if self.x.ndim != 4 or self.x.dtype != torch.uint8:
            raise ValueError(f"Images: x must be uint8 of shape (N, C, H, W), not {self.x.dtype} of {tuple(self.x.shape)}")
        if self.y.shape != self.x.shape[:1] or self.y.dtype != torch.int64:
            raise ValueError(f"Images: y must be {len(self.x)} int64 labels, not {self.y.dtype} of {tuple(self.y.shape)}")

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | Tensor) -> "Images":
        return Images(self.x[rows], self.y[rows])

    def floats(self) -> Tensor:
        """The images as models take them: float32 in [0,1]."""
        return self.x.float() / 255
