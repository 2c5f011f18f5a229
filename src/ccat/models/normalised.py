"""Normalisation inside the model, where it belongs: attacks and threats see images in [0,1]."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalised(nn.Module):
    """A model that was trained on (x − mean) / std, wrapped so that it takes images x in [0,1].

    Args:
        model: The model that takes normalised images.
        mean: The mean of each channel.
        std: The standard deviation of each channel.

    Raises:
        ValueError: If the numbers of means and deviations differ, or a deviation is not positive.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        finite = all(math.isfinite(value) for value in (*mean, *std))
        if len(mean) != len(std) or not mean or not finite or min(std) <= 0:
            raise ValueError(
                "Normalised needs a finite mean and a positive, finite std for each channel, "
                f"not {list(mean)} and {list(std)}"
            )
        self.model = model
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(list(values)).view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != len(self.mean):
            raise ValueError(
                f"this model normalises {len(self.mean)} channels, the images have {x.shape[1]}"
            )
        logits: Tensor = self.model((x - self.mean) / self.std)
        return logits
