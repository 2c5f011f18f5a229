"""Training methods: each turns one batch into the loss to descend.

Adversarial examples are computed on a fast copy of the model in evaluation mode. Clean and
adversarial images then go through the network in one forward pass, so that batch normalisation sees
both. A batch is expected to be shuffled: its first part is attacked.

Shapes: x (B, C, H, W) in [0,1], y (B,), logits (B, K).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ccat.attacks import APGD, PGD, Attack, Problem, frozen, multi_steepest
from ccat.attacks.inputs import require_batch, require_logits
from ccat.checks import require_count, require_number
from ccat.models import attack_copy
from ccat.objectives import Objective, cross_entropy, other_class_confidence
from ccat.threats import Threat

Forward = Callable[[Tensor], Tensor]


@runtime_checkable
class Method(Protocol):
    """A training method: called with a batch, it returns the loss whose gradient SGD descends.

    To write your own, inherit from this class, as a frozen dataclass whose fields are its numbers,
    and define `__call__`. Override `threats` if it trains on adversarial examples.
    """

    @property
    def threats(self) -> tuple[Threat, ...]:
        """The threats that training sees, which tables mark; none by default."""
        return ()

    def at(self, done: float) -> "Method":
        """Return the method as it is after a share `done` of training; by default always itself.

        A method with a number that changes during training returns a copy with that number.
        """
        return self

    @abstractmethod
    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        """Return the loss of a batch, a scalar tensor with a gradient.

        Args:
            model: The bare module in training mode, to be attacked.
            forward: What is trained: the module itself, or DistributedDataParallel around it. Call
                it once.
            x: Images (B, C, H, W) in [0,1], shuffled and augmented.
            y: Labels (B,).
            generator: The source of every random draw.
        """


@dataclass(frozen=True)
class Normal(Method):
    """Normal training: cross-entropy on clean images."""

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        y = require_batch(x, y)
        return _cross_entropy(forward(x), y)


@dataclass(frozen=True)
class Adversarial(Method):
    """Adversarial training (Madry et al. 2018) on a share of each batch.

    A share of 1 is the paper's AT-100 %, ½ its AT-50 %. With `objective=other_class_confidence` it
    is the paper's ablation AT-Conf.

    Attributes:
        threat: What the attack may do.
        attack: What looks for adversarial examples to train on.
        share: The share of each batch that is attacked.
        objective: What the attack maximises.
    """

    threat: Threat
    attack: Attack
    share: float = 0.5
    objective: Objective = cross_entropy

    def __post_init__(self) -> None:
        require_number("Adversarial: share", self.share, 0, 1, high_too=True)

    @property
    def threats(self) -> tuple[Threat, ...]:
        return (self.threat,)

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        y = require_batch(x, y)
        count = attacked_count(self.share, len(x))
        problem = Problem.of(
            attack_copy(model, x), x[:count], y[:count], self.threat, self.objective
        )
        images = torch.cat([problem.images(self.attack(problem, generator)), x[count:]])
        return _cross_entropy(forward(images), y)


@dataclass(frozen=True)
class ConfidenceCalibrated(Method):
    """Confidence-calibrated adversarial training (CCAT), Algorithm 1 of the paper.

    The further an image was moved within the threat, the closer its target is to the uniform
    distribution; `rho` says how fast it gets there.

    Attributes:
        threat: What the attack may do.
        attack: What looks for accepted errors to train on, in half of each batch.
        rho: The power ρ with which the label fades to the uniform distribution.
    """

    threat: Threat
    attack: Attack
    rho: float = 10.0

    def __post_init__(self) -> None:
        require_number("ConfidenceCalibrated: rho", self.rho, 0)

    @property
    def threats(self) -> tuple[Threat, ...]:
        return (self.threat,)

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        y = require_batch(x, y)
        half = attacked_count(0.5, len(x))
        fast, objective = attack_copy(model, x), other_class_confidence
        problem = Problem.of(fast, x[:half], y[:half], self.threat, objective, pool=x)
        found = self.attack(problem, generator)  # line 4: δ maximises the confidence in k ≠ y
        logits = forward(torch.cat([problem.images(found), x[half:]]))
        distance = torch.zeros_like(x[:, 0, 0, 0])  # clean images were not moved
        distance[:half] = self.threat.size(found.delta) / self.threat.epsilon
        return calibrated_loss(logits, y, transition(distance, self.rho)).mean()  # lines 6 to 9


@dataclass(frozen=True)
class Trades(Method):
    """TRADES (Zhang et al. 2019): clean cross-entropy + β · KL(f(x) ‖ f(x+δ)).

    The attack maximises that divergence. At δ = 0 it has no gradient, so the attack has to start
    elsewhere: `PGD(start="near")`.

    Attributes:
        threat: What the attack may do.
        attack: What maximises the divergence.
        beta: The weight β of the divergence.
    """

    threat: Threat
    attack: Attack
    beta: float = 6.0

    def __post_init__(self) -> None:
        require_number("Trades: beta", self.beta, 0)
        if isinstance(self.attack, PGD | APGD) and self.attack.start == "zero":
            raise ValueError(
                "Trades: at a zero start the divergence has no gradient; "
                "use start='near' or 'random'"
            )

    @property
    def threats(self) -> tuple[Threat, ...]:
        return (self.threat,)

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        y = require_batch(x, y)
        fast = attack_copy(model, x)
        with torch.no_grad():
            fixed = _frozen_logits(fast, x)
        problem = Problem(
            x,
            self.threat,
            lambda images, rows: divergence(fixed[rows], _frozen_logits(fast, images)),
        )
        attacked = problem.images(self.attack(problem, generator))
        logits = forward(torch.cat([x, attacked]))
        clean, nearby = logits[: len(x)], logits[len(x) :]
        return _cross_entropy(clean, y) + self.beta * divergence(clean, nearby).mean()


@dataclass(frozen=True)
class Direction:
    """One of the steepest-ascent directions of MSD: a threat and the length of a step in it.

    Attributes:
        threat: The ball.
        rate: The length of a step, in the norm of the ball.
    """

    threat: Threat
    rate: float

    def __post_init__(self) -> None:
        require_number("Direction: rate", self.rate, 0)


@dataclass(frozen=True)
class MultiSteepest(Method):
    """MSD (Maini et al. 2020): adversarial training against the union of three balls.

    Attributes:
        linf: The L∞ ball and its step.
        l2: The L2 ball and its step.
        l1: The L1 ball and its step.
        iterations: The steps of the attack.
    """

    linf: Direction
    l2: Direction
    l1: Direction
    iterations: int = 50

    def __post_init__(self) -> None:
        require_count("MultiSteepest: iterations", self.iterations)

    @property
    def threats(self) -> tuple[Threat, ...]:
        return self.linf.threat, self.l2.threat, self.l1.threat

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        y = require_batch(x, y)
        problem = Problem.of(attack_copy(model, x), x, y, self.linf.threat, cross_entropy)
        directions = [(one.threat, one.rate) for one in (self.linf, self.l2, self.l1)]
        found = multi_steepest(problem, directions, self.iterations)
        return _cross_entropy(forward(problem.images(found)), y)


@dataclass(frozen=True)
class Imported(Method):
    """The method of imported weights, trained outside ccat: on `threat`, if that is known."""

    threat: Threat | None = None

    @property
    def threats(self) -> tuple[Threat, ...]:
        return () if self.threat is None else (self.threat,)

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        raise ValueError(
            "Imported: these weights were trained outside ccat and cannot be trained again; "
            "choose a recipe with a training method"
        )


def transition(distance: Tensor, rho: float) -> Tensor:
    """Return λ = (1 − min(1, ‖δ‖/ε))^ρ (equation 6) for distances ‖δ‖/ε."""
    return (1 - distance.clamp(max=1)) ** rho


def calibrated_loss(logits: Tensor, y: Tensor, lam: Tensor) -> Tensor:
    """Return the cross-entropy (B,) with the targets ỹ = λ·one-hot(y) + (1−λ)/K (equation 5)."""
    require_logits(logits, y)
    one_hot = functional.one_hot(y, logits.shape[1]).to(logits.dtype)
    target = lam[:, None] * one_hot + (1 - lam[:, None]) / logits.shape[1]
    return functional.cross_entropy(logits, target, reduction="none")


def attacked_count(share: float, batch: int) -> int:
    """Return how many images of a batch are attacked: a share of them, but at least one."""
    return max(1, int(share * batch + 1e-9))


def divergence(logits: Tensor, nearby: Tensor) -> Tensor:
    """Return KL(f(x) ‖ f(x+δ)) of each example, (N,), from logits (N, K) at x and at x+δ."""
    clean = functional.log_softmax(logits, 1)
    return (clean.exp() * (clean - functional.log_softmax(nearby, 1))).sum(1)


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    require_logits(logits, y)
    return functional.cross_entropy(logits, y)


def _frozen_logits(model: nn.Module, images: Tensor) -> Tensor:
    with frozen(model):
        logits: Tensor = model(images)
    return logits
