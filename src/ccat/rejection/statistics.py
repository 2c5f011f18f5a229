"""Statistics of one layer: how usual its features are, a number per image, differentiable.

Shapes: features (N, D), values (N,), means (K, D), precision (D, D), reference (R, D).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """Minus the distance to the nearest class mean (Lee et al. 2018).

    Distances are measured under the covariance that all classes share.
    """

    means: Tensor
    precision: Tensor

    @classmethod
    def fit(cls, features: Tensor, y: Tensor, name: str) -> "Mahalanobis":
        """Fit means and covariance to features (N, D) of training images with labels.

        Raises:
            ValueError: If there are too few images for the covariance.
        """
        values, y = features.cpu().double(), y.cpu()
        count, width = values.shape
        classes = y.unique()  # type: ignore[no-untyped-call]
        if count <= width + len(classes):
            least = width + len(classes) + 1
            raise ValueError(
                f"{count} images are too few for the covariance of the {width} features of layer "
                f"{name!r}: {least} are needed"
            )
        means = torch.stack([values[y == label].mean(0) for label in classes])
        centred = values - means[torch.searchsorted(classes, y)]
        covariance = centred.T @ centred / count
        return cls(means.to(features), torch.linalg.pinv(covariance, hermitian=True).to(features))

    def __call__(self, features: Tensor) -> Tensor:
        difference = features[:, None] - self.means  # (N, K, D)
        return -((difference @ self.precision) * difference).sum(2).amin(1)

    def tensors(self) -> dict[str, Tensor]:
        """Return what `statistic_of` needs to make it again."""
        return {"means": self.means, "precision": self.precision}


@dataclass(frozen=True, eq=False)
class LocalDimension:
    """Minus the local intrinsic dimension (Ma et al. 2018).

    It is estimated by maximum likelihood from the distances to the `neighbours` nearest of a fixed
    set of training images.
    """

    reference: Tensor
    neighbours: int

    @classmethod
    def fit(cls, features: Tensor, neighbours: int, name: str) -> "LocalDimension":
        """Keep the features of reference images.

        Raises:
            ValueError: If there are too few of them.
        """
        if not 2 <= neighbours < len(features):
            raise ValueError(
                f"layer {name!r}: {neighbours} neighbours need more than {neighbours} reference "
                f"images, and there must be at least two"
            )
        return cls(features, neighbours)

    def __call__(self, features: Tensor) -> Tensor:
        distances = torch.cdist(
            features, self.reference, compute_mode="donot_use_mm_for_euclid_dist"
        )
        distances = torch.where(
            distances <= 1e-7 * (1 + self.reference.abs().max()), torch.inf, distances
        )  # the image itself is no neighbour
        nearest = distances.topk(self.neighbours, dim=1, largest=False).values
        mean_log = (nearest / nearest[:, -1:]).log().sum(1) / (self.neighbours - 1)
        return 1 / mean_log.clamp(max=-1e-6)

    def tensors(self) -> dict[str, Tensor]:
        """Return what `statistic_of` needs to make it again."""
        return {"reference": self.reference, "neighbours": torch.tensor(self.neighbours)}


Statistic = Mahalanobis | LocalDimension


def statistic_of(tensors: dict[str, Any]) -> Statistic:
    """Make a statistic from what its `tensors()` returned."""
    if "means" in tensors:
        return Mahalanobis(tensors["means"], tensors["precision"])
    return LocalDimension(tensors["reference"], int(tensors["neighbours"]))
