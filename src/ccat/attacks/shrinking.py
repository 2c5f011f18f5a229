"""A ball that shrinks around the attacked image: gradients that start at other images.

Where a model is unsure all over a ball its gradient is dead, and there is nothing to climb from the
image, from random points, or from the points of the ball nearest to other images. This search
begins at another image, where the model is sure of its answer, and climbs while the ball that it
must stay in shrinks to the one that is allowed.
"""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, best
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import drawn_from_pool, require_pool
from ccat.checks import require_count, require_number
from ccat.threats import L1, L2, Linf, Threat

_SHRINKING = 0.6  # the share of the iterations in which the ball shrinks
_MOMENTUM = 0.75
_STEP = 0.15  # the first step, as a share of the radius; the last one is a tenth of it


@dataclass(frozen=True)
class Shrinking(Attack):
    """Gradient ascent from `starts` random images of the pool, in a ball that shrinks to ε.

    The first radius is `begin` times ε, but at most 1 in L∞; it falls linearly to ε over the first
    60 % of `iterations`. Each start takes T+1 forwards and T backwards per example, T =
    `iterations`. It is made for Linf, L2 and L1.
    """

    iterations: int
    starts: int = 1
    begin: float = 6.0

    def __post_init__(self) -> None:
        require_count("Shrinking: iterations", self.iterations)
        require_count("Shrinking: starts", self.starts)
        require_number("Shrinking: begin", self.begin, 1, low_too=True)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not self.supports(problem.threat):
            kind = type(problem.threat).__name__
            raise ValueError(f"Shrinking is made for Linf, L2 and L1, not for {kind}")
        require_pool(problem, "Shrinking")
        problem = problem.search()
        found = problem.evaluate(torch.zeros_like(problem.x))
        for _ in range(self.starts):
            start = drawn_from_pool(problem, generator) - problem.x
            found = best(found, self._from(problem, start))
            if problem.finished:
                break
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + self.starts * (self.iterations + 1), self.starts * self.iterations)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Linf | L2 | L1)

    def _from(self, problem: Problem, delta: Tensor) -> Found:
        """Climb from perturbations that may lie outside of the ball, and shrink it."""
        threat, velocity = problem.threat, torch.zeros_like(delta)
        assert isinstance(threat, Linf | L2 | L1)
        found: Found | None = None
        for iteration in range(self.iterations):
            done = iteration / self.iterations
            radius = self._radius(threat, done)
            if radius > threat.epsilon:
                delta = replace(threat, epsilon=radius).project(problem.x, delta)
                image = problem.x + delta
                gradient = problem.probe_grad(image)
            else:
                now, gradient = problem.value_and_grad(delta)
                delta, image = now.delta, problem.images(now)
                found = now if found is None else best(found, now)
            velocity = _MOMENTUM * velocity + (1 - _MOMENTUM) * threat.ascent(gradient, image)
            delta = delta + _STEP * (1 - 0.9 * done) * radius * velocity
            if problem.finished:
                break
        last = problem.evaluate(delta)
        return last if found is None else best(found, last)

    def _radius(self, threat: Threat, done: float) -> float:
        first = self.begin * threat.epsilon
        first = min(1.0, first) if isinstance(threat, Linf) else first
        share = min(1.0, done / _SHRINKING)
        return first + (threat.epsilon - first) * share if share < 1 else threat.epsilon
