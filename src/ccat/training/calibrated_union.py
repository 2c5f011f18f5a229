"""Confidence-calibrated training against several threats at once.

Shapes: x (B, C, H, W) in [0,1], y (B,), logits (B, K).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from ccat.attacks import Attack, Found, Problem
from ccat.attacks.inputs import require_batch
from ccat.checks import require_number
from ccat.models import attack_copy
from ccat.objectives import other_class_confidence
from ccat.threats import Threat
from ccat.training.methods import (
    Forward,
    Method,
    attacked_count,
    calibrated_loss,
    transition,
)


@dataclass(frozen=True)
class Part:
    """A threat to train on, and the attack that looks for accepted errors within it.

    Attributes:
        threat: What the attack may do.
        attack: What looks for accepted errors.
    """

    threat: Threat
    attack: Attack


def attacked_parts(
    parts: Sequence[Part], model: nn.Module, x: Tensor, y: Tensor, half: int, generator: Generator
) -> Iterator[tuple[Part, slice, Found, Tensor]]:
    """Attack the first `half` images, each part its share; yield what it found, and the images."""
    fast = attack_copy(model, x)
    for number, part in enumerate(parts):
        rows = slice(number, half, len(parts))
        if len(x[rows]):
            about = (fast, x[rows], y[rows], part.threat, other_class_confidence)
            problem = Problem.of(*about, pool=x)
            found = part.attack(problem, generator)
            yield part, rows, found, problem.images(found)


@dataclass(frozen=True)
class CalibratedUnion(Method):
    """Algorithm 1 of the paper with several threats, each on its share of the attacked half.

    What an attack finds within a threat counts the more, the larger the mean confidence is that it
    reaches there on this batch, as if threats were drawn in proportion to their current error
    (after Croce & Hein 2022). `focus` says how much: 0 counts all threats the same, 1 in
    proportion.

    Attributes:
        parts: The threats, each with its attack.
        rho: The power ρ with which the label fades to the uniform distribution.
        focus: How much more a threat counts the more confident its attack makes the model: 0 to 1.
    """

    parts: tuple[Part, ...]
    rho: float = 10.0
    focus: float = 1.0

    def __post_init__(self) -> None:
        require_number("CalibratedUnion: rho", self.rho, 0)
        require_number("CalibratedUnion: focus", self.focus, 0, 1, low_too=True, high_too=True)
        if not self.parts:
            raise ValueError("CalibratedUnion: parts must name at least one threat")

    @property
    def threats(self) -> tuple[Threat, ...]:
        return tuple(part.threat for part in self.parts)

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        y = require_batch(x, y)
        half = attacked_count(0.5, len(x))
        images = x.clone()
        distance = torch.zeros_like(x[:, 0, 0, 0])  # clean images were not moved
        reached = torch.ones_like(distance)
        for part, rows, found, moved in attacked_parts(self.parts, model, x, y, half, generator):
            images[rows] = moved
            distance[rows] = part.threat.size(found.delta) / part.threat.epsilon
            reached[rows] = found.value.exp().mean().to(reached)
        loss = calibrated_loss(forward(images), y, transition(distance, self.rho))
        weight = torch.ones_like(reached)
        weight[:half] += self.focus * (reached[:half] / reached[:half].mean() - 1)
        return (weight * loss).mean()
