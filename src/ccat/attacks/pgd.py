"""Projected gradient descent with momentum and backtracking (Algorithm 2 of the paper's supplement), written as ascent."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from ccat.attacks.problem import Found, Problem, best, choose


@dataclass(frozen=True)
class PGD:
    """Algorithm 2, for exactly `iterations` = T iterations: T+1 forwards and T backwards per example.

    The algorithm values every trial point and, once it is accepted, values it again for its gradient. Here both come from one pass:
    an accepted example takes over value and gradient of the trial, a rejected one keeps its own and divides its rate by `backtracking`
    (None: every trial is accepted).
    """

    iterations: int
    rate: float
    momentum: float = 0.9
    backtracking: float | None = 1.1
    start: Literal["zero", "random", "either"] = "zero"

    def __post_init__(self) -> None:
        if isinstance(self.iterations, bool) or not isinstance(self.iterations, int) or self.iterations < 1:
            raise ValueError(f"PGD: iterations must be a whole number of at least 1, not {self.iterations!r}")
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"PGD: rate must be positive and finite, not {self.rate!r}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"PGD: momentum must be at least 0 and below 1, not {self.momentum!r}")
        if self.backtracking is not None and not 1 < self.backtracking < float("inf"):
            raise ValueError(f"PGD: backtracking divides the rate and must be above 1, or None, not {self.backtracking!r}")
        if self.start not in ("zero", "random", "either"):
            raise ValueError(f"PGD: start must be 'zero', 'random' or 'either', not {self.start!r}")

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        now, gradient = problem.climb(self._first(problem, generator))
        found = now
        velocity = torch.zeros_like(problem.x)
        rate = torch.full_like(problem.x[:, :1, :1, :1], self.rate)
        for iteration in range(1, self.iterations + 1):
            step = problem.threat.ascent(gradient, problem.image(now))
            velocity = self.momentum * velocity + (1 - self.momentum) * step
            trial, slope = self._look(problem, now.delta + rate * velocity, last=iteration == self.iterations)
            found = best(found, trial)
            if self.backtracking is None:
                now, gradient = trial, slope
            else:
                accepted = trial.value >= now.value
                now = choose(accepted, trial, now)
                gradient = torch.where(accepted[:, None, None, None], slope, gradient)
                rate = torch.where(accepted[:, None, None, None], rate, rate / self.backtracking)
        return found

    def _first(self, problem: Problem, generator: Generator) -> Tensor:
        zero = torch.zeros_like(problem.x)
        if self.start == "zero":
            return zero
        random = problem.threat.sample(problem.x, generator)
        if self.start == "random":
            return random
        coin = torch.rand(len(zero), generator=generator, device=generator.device).to(zero.device)
        return torch.where((coin < 0.5)[:, None, None, None], zero, random)

    def _look(self, problem: Problem, delta: Tensor, *, last: bool) -> tuple[Found, Tensor]:
        """Value and gradient at a trial point; the last one is only valued, for no step follows it."""
        return (problem.at(delta), torch.zeros_like(delta)) if last else problem.climb(delta)
