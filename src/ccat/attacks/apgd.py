"""PGD that finds its own step size (Croce & Hein 2020 for L∞ and L2, Croce & Hein 2021 for L1).

Both schedules look back at checkpoints, example by example: where the score no longer rises, the
step shrinks and the search goes on from the best point so far. In L1 a step moves only as many
entries as the best point has changed, or fewer (with constants of ours, docs/ATTACKS.md).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, best, choose, pick
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.checks import require_count
from ccat.threats import L1, L2, Frame, Linf, Threat
from ccat.threats.geometry import above, movable

_INERTIA = 0.75  # the share of a step that is the new direction; the rest repeats the last one
_RISING = 0.75  # the share of steps between checkpoints that have to raise the score
_LEAST = 0.02  # in L1, the shortest step as a share of ε
_FEWER = 2.5  # in L1, a step moves this many times fewer entries than the best point has changed


@dataclass(frozen=True)
class APGD(Attack):
    """PGD with no rate to choose: T+1 forwards and T backwards per example, T = `iterations`.

    It is made for Linf, L2, L1 and Frame.

    Attributes:
        iterations: The steps T of an attack.
        start: Where it starts: zero or random.
    """

    iterations: int
    start: Literal["zero", "random"] = "zero"

    def __post_init__(self) -> None:
        require_count("APGD: iterations", self.iterations)
        if self.start not in ("zero", "random"):
            raise ValueError(f"APGD: start must be 'zero' or 'random', not {self.start!r}")

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        zero = torch.zeros_like(problem.x)
        return self.from_start(
            problem,
            zero if self.start == "zero" else problem.threat.sample(problem.x, generator),
            generator,
        )

    def from_start(self, problem: Problem, delta: Tensor, generator: Generator) -> Found:
        """Run from a given perturbation; nothing is random."""
        problem = problem.search()
        if isinstance(problem.threat, L1):
            return self._sparse(problem, problem.threat, delta)
        if isinstance(problem.threat, Linf | L2 | Frame):
            return self._dense(problem, delta)
        raise ValueError(
            f"APGD is made for Linf, L2, L1 and Frame, not for {type(problem.threat).__name__}"
        )

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(self.iterations + 1, self.iterations)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Linf | L2 | L1 | Frame)

    def _dense(self, problem: Problem, delta: Tensor) -> Found:
        """Search in L∞, L2 and frames.

        The step begins with the diameter of the ball, in a frame with that of the box, and is
        halved at checkpoints.
        """
        now, gradient = problem.value_and_grad(delta)
        found, best_gradient, before = now, gradient, now.delta
        step = torch.full_like(
            now.value, 1.0 if isinstance(problem.threat, Frame) else 2 * problem.threat.epsilon
        )
        rises, halved, value_then = (
            torch.zeros_like(step),
            torch.ones_like(step, dtype=torch.bool),
            found.value,
        )
        checkpoints = _checkpoints(self.iterations)
        last = 0
        for iteration in range(1, self.iterations + 1):
            ascent = problem.threat.ascent(gradient, problem.images(now))
            ahead = problem.project(torch.addcmul(now.delta, _per_image(step), ascent))
            if iteration > 1:  # the inertia's share of this step, the rest of the last one
                ahead.mul_(_INERTIA).add_(now.delta, alpha=2 * (1 - _INERTIA))
                ahead.sub_(before, alpha=1 - _INERTIA)
            before = now.delta
            trial, gradient = _look(problem, ahead, iteration == self.iterations)
            rises += trial.value > now.value
            now = trial
            best_gradient = pick(trial.value > found.value, gradient, best_gradient)
            found = best(found, trial)
            if iteration in checkpoints:
                slow = rises < _RISING * (iteration - last)
                stuck = ~halved & (found.value <= value_then)
                halved = slow | stuck
                step = torch.where(halved, step / 2, step)
                now, gradient = choose(halved, found, now), pick(halved, best_gradient, gradient)
                before = pick(halved, found.delta, before)
                rises, value_then, last = torch.zeros_like(rises), found.value, iteration
            if problem.finished:
                break
        return found

    def _sparse(self, problem: Problem, threat: L1, delta: Tensor) -> Found:
        """Search in L1.

        A step moves the entries of the largest gradient that the box lets move, all by the same
        amount.
        """
        now, gradient = problem.value_and_grad(delta)
        found, best_gradient = now, gradient
        entries = problem.x[0].numel()
        count = torch.full_like(now.value, 0.2 * entries)
        step = torch.full_like(now.value, threat.epsilon)
        every = max(1, round(0.04 * self.iterations))
        for iteration in range(1, self.iterations + 1):
            ascent = _largest(gradient, problem.images(now), count)
            now, gradient = _look(
                problem, now.delta + _per_image(step) * ascent, iteration == self.iterations
            )
            best_gradient = pick(now.value > found.value, gradient, best_gradient)
            found = best(found, now)
            if iteration % every == 0:
                fewer = ((found.delta != 0).flatten(1).sum(1) / _FEWER).clamp(1, entries)
                settled = fewer / count >= 0.95
                count = torch.where(settled, count, fewer)
                step = torch.where(
                    settled, (step / 1.5).clamp_min(threat.epsilon * _LEAST), threat.epsilon
                )
                now, gradient = choose(settled, found, now), pick(settled, best_gradient, gradient)
            if problem.finished:
                break
        return found


def _checkpoints(iterations: int) -> set[int]:
    """Return 22 % of the iterations, then more at intervals that shrink from 19 % to 6 %."""
    places, interval, at = set(), 0.22, 0.0
    while at + interval <= 1:
        at += interval
        places.add(max(1, round(at * iterations)))
        interval = max(interval - 0.03, 0.06)
    return places


def _largest(gradient: Tensor, image: Tensor, count: Tensor) -> Tensor:
    """Return ±1/n at the n = `count` entries of the largest gradient that can move, else zero."""
    free = movable(gradient, image).flatten(1)
    length, places = free.abs(), (count.long() - 1).clamp(0, free.shape[1] - 1)
    ranked = length.topk(int(places.max()) + 1).values
    chosen = above(length, ranked.gather(1, places[:, None]), equal=True).mul_(free.sign())
    return (chosen / chosen.abs().sum(1, keepdim=True).clamp_min(1)).view_as(gradient)


def _look(problem: Problem, delta: Tensor, last: bool) -> tuple[Found, Tensor]:
    """Return value and gradient at a point; zero at the last one, for no step follows it."""
    return (
        (problem.evaluate(delta), torch.zeros_like(delta))
        if last
        else problem.value_and_grad(delta)
    )


def _per_image(values: Tensor) -> Tensor:
    return values[:, None, None, None]
