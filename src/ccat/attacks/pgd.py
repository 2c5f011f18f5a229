"""Projected gradient descent with momentum and backtracking (Algorithm 2 of the paper's supplement), written as ascent."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from ccat.attacks.problem import Found, Problem, best, choose
from ccat.checks import require_count, require_number


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
        require_count("PGD: iterations", self.iterations)
        require_number("PGD: rate", self.rate, 0)
        require_number("PGD: momentum", self.momentum, 0, 1, low_too=True)
        if self.backtracking is not None:
            require_number("PGD: backtracking, which divides the rate,", self.backtracking, 1)
        if self.start not in ("zero", "random", "either"):
            raise ValueError(f"PGD: start must be 'zero', 'random' or 'either', not {self.start!r}")

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        now, gradient = problem.climb(self._first(problem, generator))
        found = now
        velocity = torch.zeros_like(problem.x)
        rate = torch.full_like(problem.x[:, :1, :1, :1], self.rate)
        for iteration in range(1, self.iterations + 1):
            step = problem.threat.ascent(gradient, problem.images(now))
            velocity = self.momentum * velocity + (1 - self.momentum) * step
            trial, trial_gradient = self._look(problem, now.delta + rate * velocity, last=iteration == self.iterations)
            found = best(found, trial)
            if self.backtracking is None:
                now, gradient = trial, trial_gradient
            else:
                accepted = trial.value >= now.value
                now = choose(accepted, trial, now)
                gradient = torch.where(accepted[:, None, None, None], trial_gradient, gradient)
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
