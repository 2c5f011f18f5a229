"""Threats that change few pixels in any way: L0, and a frame around the image.

Shapes: x, delta, gradient, image (N, C, H, W) with x and image in [0,1]; sizes (N,).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from ccat.checks import require_count
from ccat.threats.geometry import IMAGE, into_box, project_where_needed, scaled, uniform, unit_step


@dataclass(frozen=True)
class L0:
    """The L0 ball: at most ε pixels change, all channels of a pixel together.

    With `per="entry"` each channel counts on its own, as in the paper. With `boxed=False` it steps
    and projects as if there were no box and clips at the end, as the paper does.

    Attributes:
        epsilon: The most pixels that change.
        per: What is counted: a pixel, or an entry of one of its channels.
        boxed: Whether steps and projections know that images lie in [0,1].
    """

    epsilon: int
    per: Literal["pixel", "entry"] = "pixel"
    boxed: bool = True

    def __post_init__(self) -> None:
        require_count("L0: epsilon", self.epsilon)
        if self.per not in ("pixel", "entry"):
            raise ValueError(f"L0: per must be 'pixel' or 'entry', not {self.per!r}")

    def size(self, delta: Tensor) -> Tensor:
        """Return the number (N,) of pixels, or of entries, that change."""
        changed = torch.ne(delta, 0, out=torch.empty_like(delta))  # numbers are faster than a mask
        if self.per == "pixel" and delta.shape[1] > 1:
            changed = changed.amax(1)
        return changed.flatten(1).sum(1)

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return the nearest point of ball and box together."""
        return project_where_needed(self, x, delta, self._nearest)

    def _nearest(self, x: Tensor, delta: Tensor) -> Tensor:
        """Keep the ε pixels whose change brings the image nearest to x+δ.

        Without walls these are the pixels of the largest magnitude.
        """
        reached = into_box(x, delta)
        towards = reached if self.boxed else delta
        # The gain is Σ δ² − (δ − towards)² over the channels.
        gain = self._units(towards * (2 * delta - towards))
        kept = torch.zeros_like(gain).scatter(
            1, gain.topk(min(self.epsilon, gain.shape[1])).indices, 1
        )
        return reached * (
            kept.view_as(delta) if self.per == "entry" else kept.view_as(delta[:, :1])
        )

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return ∇/‖∇‖₁, with the norm over the entries that can move."""
        gradient, movable = scaled(gradient, image, self.boxed)
        return unit_step(gradient, movable.abs().sum(IMAGE))

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Change each pixel to a colour of U(0,1) with probability ⅔ε / number of pixels."""
        shape = x.shape if self.per == "entry" else x[:, :1].shape
        chosen = uniform(shape, x, generator) < 2 / 3 * self.epsilon / shape[1:].numel()
        return torch.where(chosen, uniform(x.shape, x, generator) - x, 0)

    def _units(self, values: Tensor) -> Tensor:
        """Return values of what is counted: (N, pixels), summed over channels, or (N, entries)."""
        return values.flatten(1) if self.per == "entry" else values.sum(1).flatten(1)


@dataclass(frozen=True)
class Frame:
    """A frame: a border `width` pixels wide takes any values in [0,1] (Zajac et al. 2019).

    The size of a perturbation is the width of the border that it needs.

    Attributes:
        width: The pixels of the border on every side.
    """

    width: int

    def __post_init__(self) -> None:
        require_count("Frame: width", self.width)

    @property
    def epsilon(self) -> float:
        """The width of the border, which is the largest allowed size."""
        return self.width

    def size(self, delta: Tensor) -> Tensor:
        """Return the width (N,) of the border that each perturbation needs."""
        touched = (delta != 0).any(1)
        return torch.where(touched, _depth(delta), 0).amax((1, 2)).to(delta.dtype)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the least and the largest value that each entry of δ may have."""
        border = self._border(x)
        return -x * border, (1 - x) * border

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        """Set δ to zero inside the frame and clamp x+δ to [0,1] on it."""
        return delta.clamp(*self.bounds(x))

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return sign(∇) on the border and zero inside it."""
        return gradient.sign() * self._border(gradient)

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Replace the border by values of U(0,1)."""
        return (uniform(x.shape, x, generator) - x) * self._border(x)

    def _border(self, like: Tensor) -> Tensor:
        """Return a mask (H, W) that is 1 on the border and 0 inside it."""
        height, width = like.shape[2:]
        if 2 * self.width >= min(height, width):
            raise ValueError(
                f"Frame: a border of {self.width} leaves nothing inside it of an image of "
                f"{height}x{width} pixels"
            )
        return (_depth(like) <= self.width).to(like.dtype)


def _depth(images: Tensor) -> Tensor:
    """Return (H, W): 1 at the edge of the image, 2 next to it, and so on."""
    height, width = (torch.arange(n, device=images.device) for n in images.shape[2:])
    rows, columns = (torch.minimum(i, i.flip(0)) + 1 for i in (height, width))
    return torch.minimum(rows[:, None], columns)
