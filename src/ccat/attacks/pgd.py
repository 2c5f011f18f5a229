"""Projected gradient descent with momentum and backtracking, written as ascent.

This is Algorithm 2 of the paper's supplement.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, best, choose, pick
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import drawn_from_pool, require_pool
from ccat.checks import require_count, require_number

Start = Literal["zero", "near", "random", "either", "mixed"]

_LARGEST = 80.0  # the exponential of larger scores is infinite in float32


@dataclass(frozen=True)
class Estimated:
    """A gradient from scores alone (Ilyas et al. 2018).

    It takes `samples` Gaussian points of deviation `sigma` around the image, in antithetic pairs.
    Differences are of exp(score), the confidence where the objective is its logarithm.

    Attributes:
        samples: The points that a gradient is estimated from, an even number.
        sigma: Their deviation from the image.
    """

    samples: int = 50
    sigma: float = 0.1

    def __post_init__(self) -> None:
        require_count("Estimated: samples", self.samples)
        require_number("Estimated: sigma", self.sigma, 0)
        if self.samples % 2:
            raise ValueError(
                f"Estimated: samples come in pairs, so their number must be even, "
                f"not {self.samples}"
            )

    def __call__(self, problem: Problem, image: Tensor, generator: Generator) -> Tensor:
        """Return an estimate of the gradient at each image (N, C, H, W)."""
        gradient = torch.zeros_like(image)
        for _ in range(self.samples // 2):
            noise = torch.randn(
                image.shape, generator=generator, device=generator.device, dtype=image.dtype
            ).to(image.device)
            points = torch.cat([image, image])
            points[: len(image)].add_(noise, alpha=self.sigma)
            points[len(image) :].add_(noise, alpha=-self.sigma)
            up, down = problem.probe(points).clamp_max(_LARGEST).exp().chunk(2)
            gradient.addcmul_((up - down)[:, None, None, None], noise)
        return gradient / (self.samples * self.sigma)


@dataclass(frozen=True)
class PGD(Attack):
    """Algorithm 2 with T = `iterations`: T+1 forwards and T backwards per example, at most.

    The algorithm values every trial point and, once it is accepted, values it again for its
    gradient. Here both come from one pass: an accepted example takes over value and gradient of the
    trial, a rejected one keeps its own and divides its rate by `backtracking` (None: every trial is
    accepted). Once its rate is below what an image can tell apart, and a step raises nothing, an
    example costs no more passes.

    With `gradient=Estimated()` it is the query-limited attack: the gradient is drawn anew at the
    current point in every iteration, and one query more values the trial.

    It starts from zero, "near" zero (Gaussian noise of deviation 0.001), at random, or for each
    example from "either" zero or a random point. A "mixed" start is zero for a quarter of the
    examples, random for another, and for the others the point of the threat nearest to an image of
    the pool, the better of two; it takes two forwards more.

    With `smooth` it follows smoothed gradients (`ccat.attacks.smooth`), which lead across what is
    flat. Every point is valued by the model itself, which takes one more forward per step.

    Attributes:
        iterations: The steps T of an attack.
        rate: The length of the first step, in the norm of the threat.
        momentum: How much of the earlier directions a step keeps.
        backtracking: Divides the rate where a step is rejected; None accepts every step.
        start: Where it starts: zero, near, random, either or mixed.
        gradient: How the gradient is estimated; None computes it exactly.
        smooth: The share of their inputs by which rectifiers and limits are smoothed; None uses the
            gradient of the model as it is.
    """

    iterations: int
    rate: float
    momentum: float = 0.9
    backtracking: float | None = 1.1
    start: Start = "zero"
    gradient: Estimated | None = None
    smooth: float | None = None

    def __post_init__(self) -> None:
        require_count("PGD: iterations", self.iterations)
        if self.smooth is not None:
            require_number("PGD: smooth", self.smooth, 0)
        if self.smooth is not None and self.gradient is not None:
            raise ValueError("PGD: an estimated gradient uses scores alone; it cannot be smoothed")
        require_number("PGD: rate", self.rate, 0)
        require_number("PGD: momentum", self.momentum, 0, 1, low_too=True)
        if self.backtracking is not None:
            require_number("PGD: backtracking, which divides the rate,", self.backtracking, 1)
        if self.start not in get_args(Start):
            choices = ", ".join(map(repr, get_args(Start)))
            raise ValueError(f"PGD: start must be one of {choices}, not {self.start!r}")

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if self.start != "mixed":
            return self.from_start(problem, self._first(problem, generator), generator)
        require_pool(problem, "PGD with a mixed start")
        one, other = (
            problem.evaluate(drawn_from_pool(problem, generator) - problem.x) for _ in range(2)
        )
        near = best(one, other)
        coin = torch.rand(len(near.value), generator=generator, device=generator.device)
        elsewhere = replace(self, start="either")._first(problem, generator)
        start = pick(coin.to(near.delta.device) < 0.5, near.delta, elsewhere)
        return best(near, self.from_start(problem, start, generator))

    def from_start(self, problem: Problem, delta: Tensor, generator: Generator) -> Found:
        """Run Algorithm 2 from a given δ⁽⁰⁾."""
        problem = problem.search()
        now, gradient = self._look(problem, delta, last=False)
        found = now
        velocity = torch.zeros_like(problem.x)
        rate = torch.full_like(problem.x[:, :1, :1, :1], self.rate)
        for iteration in range(1, self.iterations + 1):
            image = problem.images(now)
            if self.gradient is not None:
                gradient = self.gradient(problem, image, generator)
            step = problem.threat.ascent(gradient, image)
            velocity = self.momentum * velocity + (1 - self.momentum) * step
            trial, trial_gradient = self._look(
                problem, now.delta + rate * velocity, last=iteration == self.iterations
            )
            found = best(found, trial)
            if self.backtracking is None:
                now, gradient = trial, trial_gradient
            else:
                accepted = trial.value >= now.value
                problem.retire(
                    (rate.flatten() < torch.finfo(rate.dtype).eps / 2) & (trial.value <= now.value)
                )
                now = choose(accepted, trial, now)
                gradient = pick(accepted, trial_gradient, gradient)
                rate = torch.where(accepted[:, None, None, None], rate, rate / self.backtracking)
            if problem.finished:
                break
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        first = 3 if self.start == "mixed" else 1
        if self.gradient is None:
            smoothed = self.iterations if self.smooth else 0
            return Counts(self.iterations + first + smoothed, self.iterations)
        return Counts(first + self.iterations * (self.gradient.samples + 1))

    def _first(self, problem: Problem, generator: Generator) -> Tensor:
        """Return δ⁽⁰⁾."""
        zero = torch.zeros_like(problem.x)
        if self.start == "zero":
            return zero
        if self.start == "near":
            return 0.001 * torch.randn(
                zero.shape, generator=generator, device=generator.device, dtype=zero.dtype
            ).to(zero.device)
        random = problem.threat.sample(problem.x, generator)
        if self.start == "random":
            return random
        coin = torch.rand(len(zero), generator=generator, device=generator.device).to(zero.device)
        return pick(coin < 0.5, zero, random)

    def _look(self, problem: Problem, delta: Tensor, *, last: bool) -> tuple[Found, Tensor]:
        """Return value and gradient at a point.

        The gradient is zero at the last point, for no step follows it, and where gradients are
        estimated.
        """
        if last or self.gradient:
            return problem.evaluate(delta), torch.zeros_like(delta)
        if self.smooth:
            found = problem.evaluate(delta)
            return found, problem.probe_grad(problem.images(found), self.smooth)
        return problem.value_and_grad(delta)
