"""Training for certificates: interval bound propagation (Gowal et al. 2018, arXiv 1810.12715).

Shapes: x (B, C, H, W) in [0,1], y (B,), logits (B, K).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ccat.attacks.inputs import require_batch, require_logits
from ccat.bounds import NORMS, Arithmetic, Interval, against_label
from ccat.checks import require_number
from ccat.threats import Linf, Threat
from ccat.training.methods import Forward, Method


@dataclass(frozen=True)
class IntervalBound(Method):
    """κ · cross-entropy + (1 − κ) · cross-entropy of the worst logits within L∞ of radius ε.

    The worst logits are interval bounds, z_y at its least and all others at their largest, so that
    descending them makes certificates tight. Batch normalisation is folded with the statistics of
    the clean batch, and of images that pass along with it. ε and 1 − κ grow linearly from 0.

    Attributes:
        epsilon: The radius ε at the end.
        kappa: The part κ of the clean images in the loss at the end.
        ramp: The share of training after which both have grown.
    """

    epsilon: float
    kappa: float = 0.5
    ramp: float = 0.5

    def __post_init__(self) -> None:
        for name in ("epsilon", "kappa", "ramp"):
            value = getattr(self, name)
            require_number(f"IntervalBound: {name}", value, 0, 1, low_too=True, high_too=True)

    @property
    def threats(self) -> tuple[Threat, ...]:
        return (Linf(self.epsilon),) if self.epsilon else ()

    def at(self, done: float) -> "IntervalBound":
        """Return the method with the ε and the κ that are due."""
        if done >= self.ramp:
            return self
        grown = done / self.ramp
        return replace(self, epsilon=grown * self.epsilon, kappa=1 - grown * (1 - self.kappa))

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        return self.with_others(model, forward, x, y, x[:0])[0]

    def with_others(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, others: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, and the logits of other images that pass along with it."""
        y = require_batch(x, y)
        with _inputs_of_norms(model) as seen:
            both = forward(torch.cat([x, others]))
        logits, beside = both[: len(x)], both[len(x) :]
        require_logits(logits, y)
        box = Interval.between((x - self.epsilon).clamp(0, 1), (x + self.epsilon).clamp(0, 1))
        moments = {norm: _moments(given) for norm, given in seen.items()}
        how = Arithmetic(statistics=moments, training=True)
        worst = against_label(model, box, y, how)
        clean, bounded = functional.cross_entropy(logits, y), functional.cross_entropy(worst, y)
        return self.kappa * clean + (1 - self.kappa) * bounded, beside


@contextmanager
def _inputs_of_norms(model: nn.Module) -> Iterator[dict[nn.Module, Tensor]]:
    """Collect what goes into each batch normalisation that is in training mode."""
    seen: dict[nn.Module, Tensor] = {}

    def keep(norm: nn.Module, given: tuple[Tensor, ...]) -> None:
        if norm in seen:
            raise ValueError(
                "IntervalBound: a batch normalisation is used twice, and each use has statistics "
                "of its own: make it two"
            )
        seen[norm] = given[0]

    norms = [one for one in model.modules() if isinstance(one, NORMS) and one.training]
    handles = [norm.register_forward_pre_hook(keep) for norm in norms]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _moments(given: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of each channel, as batch normalisation computes them."""
    mean, variance = _Moments.apply(given)  # type: ignore[no-untyped-call]
    return mean, variance


class _Moments(torch.autograd.Function):
    """Mean and variance over all axes but that of the channels; by hand, it takes half the time."""

    @staticmethod
    def forward(context: Any, *given: Tensor) -> tuple[Tensor, ...]:
        (x,) = given
        axes = [axis for axis in range(x.ndim) if axis != 1]
        mean = x.mean(axes, keepdim=True)
        centred = x - mean  # squares of what is centred do not cancel
        context.save_for_backward(centred)
        return mean.flatten(), centred.square().mean(axes)

    @staticmethod
    def backward(context: Any, *given: Tensor) -> Tensor:
        (centred,) = context.saved_tensors
        count = centred.numel() / centred.shape[1]
        along = (-1, *(1,) * (centred.ndim - 2))
        of_mean, of_variance = (one.view(along) / count for one in given)
        return torch.addcmul(of_mean, centred, of_variance, value=2)
