"""Everyone's attacks, made aware of rejection: is a class accepted? That question as a model.

An attack of another library is content with any wrong answer, which a classifier that may reject
then rejects. For a target t and a threshold τ the margin

    m_t = min( z_t − log Σ_{j≠t} exp z_j − log τ/(1−τ),  z_t − max_{j≠t} z_j )

is positive just where the answer is t and accepted, ties and rounding aside. A model with the
logits [0, m_t] turns every attack on classifiers into one that looks for accepted errors.

Shapes: images (N, C, H, W); logits z (N, K); margins (N,).
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from ccat.attacks.found import Found, improve_rows
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.scores import frozen
from ccat.checks import require_count, require_number
from ccat.objectives import any_class_confidence, level, other_class_confidence
from ccat.threats import Threat

_BATCH = 500  # images of the pool that go through the model at once


class AcceptedAs(nn.Module):
    """A model of two classes: 1 where another model answers `target` and τ accepts it, else 0."""

    def __init__(self, model: nn.Module, target: int, tau: float | None, classes: int = 2) -> None:
        super().__init__()
        self.training = False  # the wrapper alone: libraries warn of models in training mode
        self.model, self.target, self.classes = model, target, classes
        self.logit = -math.inf if not tau else math.log(tau) - math.log1p(-tau)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits [0, m_t]; further classes have m_t − 1, m_t − 2, …, and never win."""
        margin = self.margin(self.model(images))
        lower = torch.arange(self.classes - 1, dtype=margin.dtype, device=margin.device)
        return torch.cat([torch.zeros_like(margin)[:, None], margin[:, None] - lower], 1)

    def margin(self, logits: Tensor) -> Tensor:
        """Return m_t (N,) of logits (N, K)."""
        own, others = logits[:, self.target], _without(logits, self.target)
        ahead = own - others.amax(1)
        if self.logit == -math.inf:
            return ahead
        return torch.minimum(own - others.logsumexp(1) - self.logit, ahead)


def accepted_as(
    model: nn.Module, target: int, tau: float | None = None, classes: int = 2
) -> AcceptedAs:
    """Return the question whether a model answers `target` and τ accepts it, as a model itself.

    Args:
        model: Maps images to logits (N, K).
        target: The class in question.
        tau: The threshold on the confidence, strictly between 0 and 1; None: nothing is rejected.
        classes: How many logits it has. Class 1 wins where the answer is accepted, class 0
            elsewhere; further classes never win, but move with class 1, for attacks that ask for
            more than two.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model must be an nn.Module, not {type(model).__name__}")
    if isinstance(target, bool) or not isinstance(target, int) or target < 0:
        raise ValueError(f"target must be the number of a class, not {target!r}")
    if tau is not None:
        require_number("tau", tau, 0, 1)
    require_count("classes", classes)
    if classes < 2:
        raise ValueError("classes must be at least 2")
    return AcceptedAs(model, target, tau, classes)


@runtime_checkable
class Named(Protocol):
    """An attack that knows what it is called in tables."""

    @property
    def name(self) -> str:
        """The name."""


@dataclass(frozen=True)
class EveryTarget(Attack):
    """An attack, of this library or another, that looks for an accepted error of every class.

    The attack is made on `accepted_as(model, target, tau)` for each class that would be an error,
    on the images that are not broken yet. It gets a pool of the images that are accepted as the
    target. Without `tau` it uses the threshold that the problem has. `classes` is for attacks that
    ask for more than two classes, as AutoAttack's targeted ones ask for ten.
    """

    attack: Attack
    tau: float | None = None
    classes: int = 2

    def __post_init__(self) -> None:
        if self.tau is not None:
            require_number("EveryTarget: tau", self.tau, 0, 1)
        require_count("EveryTarget: classes", self.classes)

    @property
    def name(self) -> str:
        """What the attack is called in tables."""
        named = isinstance(self.attack, Named)
        own = self.attack.name if named else type(self.attack).__name__  # type: ignore[attr-defined]
        return f"{own}, every target"

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not self.supports(problem.threat):
            kind = type(problem.threat).__name__
            raise ValueError(f"EveryTarget: {self.name} is not made for {kind}")
        model, tau = problem.model, self.tau or problem.tau
        if model is None or problem.labels is None:
            raise ValueError("EveryTarget needs a problem with a model: make it with Problem.of")
        found = problem.evaluate(torch.zeros_like(problem.x))
        allowed = problem.targets()
        assert allowed is not None
        objective = any_class_confidence if allowed.all() else other_class_confidence
        enough = min(problem.most, math.inf if tau is None else level(objective, tau))
        given = _answers(problem, model)
        for target in range(allowed.shape[1]):
            open_ = (found.value < enough) & allowed[:, target]
            rows = open_.nonzero()[:, 0]
            if len(rows) == 0:
                continue
            question = accepted_as(model, target, tau, self.classes)
            pool = None
            if problem.pool is not None and given is not None:
                pool = problem.pool[question.margin(given) > 0]
            labels = torch.zeros_like(rows)
            part = Problem.of(
                question, problem.x[rows], labels, problem.threat, other_class_confidence, pool
            )
            part = replace(part, counts=problem.counts, enough=math.log(0.5 + 1e-6))
            trial = self.attack(part, generator)
            found = improve_rows(found, rows, problem.take(rows).evaluate(trial.delta))
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        each = self.attack.cost(shape)
        return Counts(1 + 9 * (each.forwards + 1), 9 * each.backwards)

    def supports(self, threat: Threat) -> bool:
        return self.attack.supports(threat)


def _without(logits: Tensor, target: int) -> Tensor:
    """Return the logits of the other classes."""
    return torch.cat([logits[:, :target], logits[:, target + 1 :]], 1)


def _answers(problem: Problem, model: nn.Module) -> Tensor | None:
    """Return the logits of the pool, counted; None if there is none."""
    if problem.pool is None or len(problem.pool) == 0:
        return None
    problem.counts.forwards += len(problem.pool)
    with torch.no_grad(), frozen(model):
        parts = [model(part.to(problem.x)) for part in torch.split(problem.pool, _BATCH)]
    return torch.cat(parts)


class CountedModel(nn.Module):
    """A model that counts the images that go forward and backward through it."""

    def __init__(self, model: nn.Module, counts: Counts) -> None:
        super().__init__()
        self.training = False
        self.model, self.counts = model, counts

    def forward(self, images: Tensor) -> Tensor:
        """Return the model's logits."""
        logits: Tensor = self.model(images)
        self.counts.forwards += len(images)
        if logits.requires_grad:
            logits.register_hook(lambda _: self._count(len(images)))  # type: ignore[no-untyped-call]
        return logits

    def _count(self, images: int) -> None:
        self.counts.backwards += images
