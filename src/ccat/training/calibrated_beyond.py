"""Interval bounds within an L∞ ball, confidence-calibrated training beyond it.

Shapes: x (B, C, H, W) in [0,1], y (B,), logits (B, K).
"""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from ccat.attacks.inputs import require_batch
from ccat.checks import require_number
from ccat.threats import Threat
from ccat.training.calibrated_union import Part, attacked_parts
from ccat.training.interval_bound import IntervalBound
from ccat.training.methods import (
    Forward,
    Method,
    attacked_count,
    calibrated_loss,
    transition,
)


@dataclass(frozen=True)
class CalibratedBeyond(Method):
    """The right label within the ball of `bound`, ever less confidence beyond.

    The loss is that of `bound` plus Algorithm 1's of what attacks find in half of the batch. How
    far such an image was moved is counted from the ball, not from the image: of each entry of δ
    only what exceeds the ball's ε counts. The two losses therefore never ask for different answers
    at one point. (The size of what changes in a frame is the width that it needs, so there the
    label fades with the first pixel.)

    Attributes:
        bound: The training for certificates, within L∞.
        parts: The other threats, each with its attack.
        rho: The power ρ with which the label fades to the uniform distribution.
        weight: The weight of what attacks find.
        begin: The share of training after which attacks begin.
    """

    bound: IntervalBound
    parts: tuple[Part, ...]
    rho: float = 10.0
    weight: float = 1.0
    begin: float = 0.25

    def __post_init__(self) -> None:
        require_number("CalibratedBeyond: rho", self.rho, 0)
        require_number("CalibratedBeyond: weight", self.weight, 0, low_too=True)
        require_number("CalibratedBeyond: begin", self.begin, 0, 1, low_too=True, high_too=True)
        if not self.parts:
            raise ValueError("CalibratedBeyond: parts must name at least one threat")

    @property
    def threats(self) -> tuple[Threat, ...]:
        return (*self.bound.threats, *(part.threat for part in self.parts))

    def at(self, done: float) -> "CalibratedBeyond":
        """Return the method with the bounds that are due, without attacks until they begin."""
        weight = self.weight if done >= self.begin else 0.0
        return replace(self, bound=self.bound.at(done), weight=weight)

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        if self.weight == 0:
            return self.bound(model, forward, x, y, generator)
        y = require_batch(x, y)
        half = attacked_count(0.5, len(x))
        images, distance = x[:half].clone(), torch.zeros_like(x[:half, 0, 0, 0])
        for part, rows, found, moved in attacked_parts(self.parts, model, x, y, half, generator):
            images[rows] = moved
            outside = (found.delta.abs() - self.bound.epsilon).clamp_min(0)
            distance[rows] = part.threat.size(outside) / part.threat.epsilon
        loss, logits = self.bound.with_others(model, forward, x, y, images)
        lam = transition(distance, self.rho)
        return loss + self.weight * calibrated_loss(logits, y[:half], lam).mean()
