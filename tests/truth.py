"""What tests compare with.

Models whose worst perturbation is known, and slow, literal versions of what src/ does fast.
"""

import math

import torch
from torch import Generator, Tensor, nn

from ccat.attacks import Found
from ccat.objectives import Objective
from ccat.threats import Threat


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


class Linear(nn.Module):
    """Two classes with logits ∓½w·x.

    The score of class 1 grows with w·x, so the worst perturbation of class 0 maximises w·δ.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        margin = (x * self.weight).flatten(1).sum(1)
        return torch.stack([-margin / 2, margin / 2], 1)


class Small(nn.Module):
    """A real network with batch normalisation and dropout, in float64, small and fast."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 6, 3, stride=2, padding=1),
            nn.BatchNorm2d(6),
            nn.Tanh(),
            nn.Dropout(0.5),
            nn.Flatten(),
            nn.Linear(6 * 16, classes),
        )
        self.double()
        generator = seeded(7)
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(
                    torch.randn(weight.shape, generator=generator, dtype=torch.float64) * 0.5
                )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


def best_linear(threat_name: str, epsilon: float, x: Tensor, weight: Tensor) -> Tensor:
    """max w·δ over ball and box, example by example, in closed form."""
    gain = weight.abs().flatten()
    values = []
    for image in x:
        wall = torch.where(weight > 0, 1 - image, image).flatten()
        if threat_name == "Linf":
            values.append((gain * wall.clamp(max=epsilon)).sum())
        elif threat_name == "L1":  # spend the budget where it pays most, as far as the wall
            order = gain.argsort(descending=True)
            before = wall[order].cumsum(0) - wall[order]
            values.append(
                (gain[order] * torch.minimum(wall[order], (epsilon - before).clamp(min=0))).sum()
            )
        elif threat_name == "L0":
            values.append((gain * wall).topk(int(epsilon)).values.sum())
        else:  # L2: δ = min(s·|w|, wall), s as large as the ball allows
            low, high = 0.0, 1e6
            for _ in range(200):
                middle = (low + high) / 2
                fits = torch.minimum(middle * gain, wall).norm() <= epsilon
                low, high = (middle, high) if fits else (low, middle)
            values.append((gain * torch.minimum(low * gain, wall)).sum())
    return torch.stack(values)


def algorithm_2(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    objective: Objective,
    start: Tensor,
    iterations: int,
    rate: float,
    momentum: float,
    backtracking: float,
) -> Found:
    """Algorithm 2 line by line, one example at a time, with its two forwards per iteration."""
    points, values = [], []
    for image, label, first in zip(x[:, None], y[:, None], start[:, None], strict=True):
        gamma = rate
        v, best = -math.inf, first
        g = torch.zeros_like(image)
        delta = first
        for t in range(iterations + 1):
            delta = threat.project(image, delta)
            point = (image + delta).clamp(0, 1).requires_grad_()
            value = objective(model(point), label)[0]
            (gradient,) = torch.autograd.grad(value, point)
            if value > v:
                v, best = value.item(), delta
            if t == iterations:
                break
            g = momentum * g + (1 - momentum) * threat.ascent(gradient, point.detach())
            trial = threat.project(image, delta + gamma * g)
            with torch.no_grad():
                trial_value = objective(model((image + trial).clamp(0, 1)), label)[0]
            if trial_value >= value:
                delta = trial
            else:
                gamma = gamma / backtracking
        points.append(best)
        values.append(v)
    return Found(torch.cat(points), torch.tensor(values, dtype=x.dtype))
