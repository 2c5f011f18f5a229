"""What a threat model is to an attack: four methods over a batch, and its size ε.

Shapes: x, delta, gradient, image (N, C, H, W) with x and image in [0,1]; sizes (N,).
"""

from typing import Protocol, runtime_checkable

from torch import Generator, Tensor

SLACK = 1e-4  # by this share of ε a perturbation may exceed its threat through rounding


class Threat(Protocol):
    """A threat model: which perturbations δ of an image an attacker may choose.

    Nothing that happens to one row of a batch may depend on another row.
    """

    @property
    def epsilon(self) -> float:
        """The largest allowed size ε of a perturbation."""

    def size(self, delta: Tensor) -> Tensor:
        """Return the size (N,) of each perturbation, which is at most ε where it is allowed."""

    def project(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return an allowed perturbation with x+δ in [0,1], which is δ itself if it is one."""

    def ascent(self, gradient: Tensor, image: Tensor) -> Tensor:
        """Return the step along the gradient at `image`.

        The step has unit length over the entries that can move, those that stay in [0,1].
        """

    def sample(self, x: Tensor, generator: Generator) -> Tensor:
        """Return a random perturbation to start from, which need not be projected yet."""


@runtime_checkable
class Box(Protocol):
    """A threat that allows every perturbation between two bounds, so that projecting is clamping.

    Optional for a threat: an attack computes the bounds once and then clamps to them.
    """

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the least and the largest value that each entry of δ may have."""
