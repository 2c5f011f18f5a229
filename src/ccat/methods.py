"""Training methods: each turns one batch into the loss to descend.

Adversarial examples are sought on a folded copy in evaluation mode; clean and adversarial ones then go through the network in one
forward, so that batch normalisation sees both. A batch is expected to be shuffled: its first part is attacked.

Shapes: x (B, C, H, W) in [0,1], y (B,).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ccat.attacks import Attack, Problem, multi_steepest
from ccat.attacks.inputs import require_batch, require_logits
from ccat.attacks.problem import frozen
from ccat.checks import require_count, require_number
from ccat.models import folded
from ccat.objectives import Objective, cross_entropy, other_class_confidence
from ccat.threats import Threat

Forward = Callable[[Tensor], Tensor]


class Method(Protocol):
    """`model` is the bare module to attack; `forward` is what is trained: the module itself or what DistributedDataParallel wraps."""

    def __call__(self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator) -> Tensor: ...


@dataclass(frozen=True)
class Normal:
    """Cross-entropy on clean images."""

    def __call__(self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        y = require_batch(x, y)
        return _cross_entropy(forward(x), y)


@dataclass(frozen=True)
class Adversarial:
    """Adversarial training (Madry et al. 2018) on a share of each batch: 1 is AT-100 %, ½ is AT-50 %.

    With `objective=other_class_confidence` it is the paper's ablation AT-Conf.
    """

    threat: Threat
    attack: Attack
    share: float = 0.5
    objective: Objective = cross_entropy

    def __post_init__(self) -> None:
        require_number("Adversarial: share", self.share, 0, 1, high_too=True)

    def __call__(self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        y = require_batch(x, y)
        count = attacked_count(self.share, len(x))
        problem = Problem.of(folded(model, x), x[:count], y[:count], self.threat, self.objective)
        images = torch.cat([problem.images(self.attack(problem, generator)), x[count:]])
        return _cross_entropy(forward(images), y)


@dataclass(frozen=True)
class ConfidenceCalibrated:
    """Confidence-calibrated adversarial training, Algorithm 1: the further an image was moved, the more uniform its target."""

    threat: Threat
    attack: Attack
    rho: float = 10.0

    def __post_init__(self) -> None:
        require_number("ConfidenceCalibrated: rho", self.rho, 0)

    def __call__(self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        y = require_batch(x, y)
        half = attacked_count(0.5, len(x))
        problem = Problem.of(folded(model, x), x[:half], y[:half], self.threat, other_class_confidence)
        found = self.attack(problem, generator)  # line 4
        logits = forward(torch.cat([problem.images(found), x[half:]]))
        require_logits(logits, y)
        one_hot = functional.one_hot(y, logits.shape[1]).to(logits.dtype)
        lam = torch.ones_like(one_hot[:, :1])  # λ(0) = 1
        lam[:half, 0] = transition(self.threat.size(found.delta) / self.threat.epsilon, self.rho)  # line 6
        target = lam * one_hot + (1 - lam) / logits.shape[1]  # line 7
        return functional.cross_entropy(logits, target)  # line 9


@dataclass(frozen=True)
class Trades:
    """TRADES (Zhang et al. 2019): cross-entropy on clean images and β times the divergence of what is said nearby from what is said there.

    The attack maximises that divergence. At δ = 0 it has no gradient, so it has to start elsewhere: `PGD(start="near")`.
    """

    threat: Threat
    attack: Attack
    beta: float = 6.0

    def __post_init__(self) -> None:
        require_number("Trades: beta", self.beta, 0)
        if getattr(self.attack, "start", "") == "zero":
            raise ValueError("Trades: at a zero start the divergence has no gradient; use start='near' or 'random'")

    def __call__(self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        y = require_batch(x, y)
        fast = folded(model, x)
        with torch.no_grad():
            clean = _frozen_logits(fast, x)
        problem = Problem(x, self.threat, lambda images, rows: divergence(clean[rows], _frozen_logits(fast, images)))
        attacked = problem.images(self.attack(problem, generator))
        logits = forward(torch.cat([x, attacked]))
        clean, nearby = logits[: len(x)], logits[len(x) :]
        return _cross_entropy(clean, y) + self.beta * divergence(clean, nearby).mean()


@dataclass(frozen=True)
class Direction:
    """A threat, and how long a step in it is."""

    threat: Threat
    rate: float

    def __post_init__(self) -> None:
        require_number("Direction: rate", self.rate, 0)


@dataclass(frozen=True)
class MultiSteepest:
    """MSD (Maini et al. 2020): adversarial training against the union of three balls."""

    linf: Direction
    l2: Direction
    l1: Direction
    iterations: int = 50

    def __post_init__(self) -> None:
        require_count("MultiSteepest: iterations", self.iterations)

    @property
    def threats(self) -> tuple[Threat, ...]:
        return self.linf.threat, self.l2.threat, self.l1.threat

    def __call__(self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        y = require_batch(x, y)
        problem = Problem.of(folded(model, x), x, y, self.linf.threat, cross_entropy)
        directions = [(one.threat, one.rate) for one in (self.linf, self.l2, self.l1)]
        return _cross_entropy(forward(problem.images(multi_steepest(problem, directions, self.iterations))), y)


@dataclass(frozen=True)
class Elsewhere:
    """In place of a method: the weights were trained elsewhere, on `threat` if that is known."""

    threat: Threat | None = None

    def __call__(self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        raise ValueError("these weights were trained elsewhere and cannot be trained again")


def divergence(logits: Tensor, nearby: Tensor) -> Tensor:
    """KL(f(x) ‖ f(x+δ)) of each example, (N,), of logits (N, K)."""
    clean = functional.log_softmax(logits, 1)
    return (clean.exp() * (clean - functional.log_softmax(nearby, 1))).sum(1)


def _frozen_logits(model: nn.Module, images: Tensor) -> Tensor:
    with frozen(model):
        logits: Tensor = model(images)
    return logits


def transition(distance: Tensor, rho: float) -> Tensor:
    """λ = (1 − min(1, ‖δ‖/ε))^ρ (equation 6), of the distance ‖δ‖/ε."""
    return (1 - distance.clamp(max=1)) ** rho


def attacked_count(share: float, batch: int) -> int:
    """How many of a batch are attacked: at least one."""
    return max(1, int(share * batch + 1e-9))


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    require_logits(logits, y)
    return functional.cross_entropy(logits, y)
