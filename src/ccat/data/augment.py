"""Augmentation of training batches on their device, drawn for every image on its own."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.checks import require_number


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images: a crop, a flip, a change of contrast.

    Attributes:
        padding: Black pixels added on every side before a crop of the original size.
        flip: Whether to mirror every image with probability ½.
        contrast: The largest change of contrast, as a share of it; 0.3 scales by 0.7 to 1.3.
    """

    padding: int = 0
    flip: bool = False
    contrast: float = 0.0

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"Augmentation: padding must be at least 0, not {self.padding}")
        require_number("Augmentation: contrast", self.contrast, 0, 1, low_too=True)

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        """Return changed images for images x (N, C, H, W) in [0,1]."""
        count, _, height, width = x.shape
        if self.padding:
            rows, columns = (_draw((count,), 2 * self.padding + 1, generator, x) for _ in range(2))
            padded = torch.nn.functional.pad(x, [self.padding] * 4)
            rows = rows[:, None] + torch.arange(height, device=x.device)
            columns = columns[:, None] + torch.arange(width, device=x.device)
            images = torch.arange(count, device=x.device)[:, None, None, None]
            channels = torch.arange(x.shape[1], device=x.device)[:, None, None]
            x = padded[images, channels, rows[:, None, :, None], columns[:, None, None, :]]
        if self.flip:
            x = torch.where(_draw((count, 1, 1, 1), 2, generator, x) == 1, x.flip(3), x)
        if self.contrast:
            factor = 1 + self.contrast * (
                2 * torch.rand((count, 1, 1, 1), generator=generator, device=generator.device).to(x)
                - 1
            )
            mean = x.mean((1, 2, 3), keepdim=True)
            x = (mean + factor * (x - mean)).clamp(0, 1)
        return x


def _draw(shape: tuple[int, ...], below: int, generator: Generator, like: Tensor) -> Tensor:
    return torch.randint(below, shape, generator=generator, device=generator.device).to(like.device)
