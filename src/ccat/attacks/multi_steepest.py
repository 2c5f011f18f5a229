"""Multi steepest descent (Maini et al. 2020), written as ascent.

It searches one perturbation within the union of several threats.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ccat.attacks.found import Found, best, choose
from ccat.attacks.problem import Problem
from ccat.threats import Threat


def multi_steepest(
    problem: Problem, directions: Sequence[tuple[Threat, float]], iterations: int
) -> Found:
    """Return the best perturbations found within the union of several threats, from zero.

    In every iteration each threat takes its steepest step from the same point, with its own rate,
    and projects onto its own ball. For each example the step that scores highest is taken, whether
    or not it is better than the point before. This costs K+1 forwards and one backward per image
    and iteration, for K threats.

    Args:
        problem: Images and score; its own threat is not used.
        directions: The threats, each with its rate.
        iterations: The number of steps.
    """
    # These problems share images, score and counts.
    problems = [replace(problem, threat=threat) for threat, _ in directions]
    now, gradient = problems[0].value_and_grad(torch.zeros_like(problem.x))
    found = now
    for iteration in range(1, iterations + 1):
        image = problem.images(now)
        taken, by = now, torch.zeros(len(image), dtype=torch.int64, device=image.device)
        for number, (one, (threat, rate)) in enumerate(zip(problems, directions, strict=True)):
            trial = one.evaluate(now.delta + rate * threat.ascent(gradient, image))
            higher = trial.value > taken.value if number else torch.ones_like(by, dtype=torch.bool)
            taken, by = choose(higher, trial, taken), torch.where(higher, number, by)
        now, found = taken, best(found, taken)
        if iteration < iterations:
            gradient = _gradient(problems, now.delta, by)
    return found


def _gradient(problems: Sequence[Problem], delta: Tensor, by: Tensor) -> Tensor:
    """Return the gradient of each example in the problem whose threat took its last step."""
    gradient = torch.zeros_like(delta)
    for number, problem in enumerate(problems):
        rows = (by == number).nonzero()[:, 0]
        if len(rows):
            gradient[rows] = problem.value_and_grad(delta[rows], rows)[1]
    return gradient
