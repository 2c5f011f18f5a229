"""Analyse a run: how an attack climbs, and what a model says beyond its ball and between images.

Shapes: confidences (N, steps, K).
"""

from dataclasses import replace

import torch
from torch import Generator, Tensor, nn

from ccat.attacks import PGD, Problem
from ccat.data.splits import split_of
from ccat.errors import PipelineError
from ccat.evaluation.results import Analysis, Climb, Lines
from ccat.models.predict import probabilities
from ccat.objectives import other_class_confidence
from ccat.runs import Run
from ccat.threats import L2, Linf, Threat, label

SHOWN = 3  # lines whose images are kept


def analyse(run: Run, examples: int = 100, iterations: int = 200, device: str = "cpu") -> Analysis:
    """Return the analysis of a run, computed once for these weights and numbers.

    Args:
        run: A trained run.
        examples: The first test images.
        iterations: Of the attacks.
        device: Where to compute.
    """
    stored = run.analysis()
    if stored is not None and (stored.examples, stored.iterations) == (examples, iterations):
        return stored
    images = split_of(run.recipe.dataset, "test")
    if not 2 <= examples <= len(images):
        raise PipelineError(f"--examples must be 2 to {len(images)}, not {examples}")
    x, y = images[:examples].floats().to(device), images[:examples].y.to(device)
    with run.writing():
        analysis = _analysed(run, run.training.model().to(device), x, y, iterations)
        run.save_analysis(analysis)
    return analysis


def _analysed(run: Run, model: nn.Module, x: Tensor, y: Tensor, iterations: int) -> Analysis:
    epsilon = next((seen.epsilon for seen in run.seen if isinstance(seen, Linf)), 0.3)
    directions: dict[Threat, float] = {
        Linf(epsilon): 0.01 * epsilon / 0.3,
        L2(10 * epsilon): 0.2 * epsilon / 0.3,
    }
    return Analysis(
        examples=len(x),
        iterations=iterations,
        climbs=_climbs(model, x, y, Linf(epsilon), iterations),
        directions={
            label(threat): _direction(model, x, y, threat, rate, iterations)
            for threat, rate in directions.items()
        },
        between=_between(model, x, y),
    )


def _climbs(
    model: nn.Module, x: Tensor, y: Tensor, threat: Threat, iterations: int
) -> dict[str, Climb]:
    """Climb by PGD-Conf from the image, with and without momentum and backtracking."""
    rate = threat.epsilon / 10
    attack = PGD(iterations, rate)
    variants = {
        "momentum and backtracking": attack,
        "momentum only": replace(attack, backtracking=None),
        "backtracking only": replace(attack, momentum=0.0),
        "neither": replace(attack, momentum=0.0, backtracking=None),
    }
    return {name: _climb(model, x, y, threat, variant) for name, variant in variants.items()}


def _climb(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, attack: PGD) -> Climb:
    """Record the confidence in another class at every point that the attack tries."""
    problem = Problem.of(model, x, y, threat, other_class_confidence)
    values: list[Tensor] = []

    def score(images: Tensor, rows: Tensor) -> Tensor:
        value = problem.score(images, rows)
        values.append(value.detach().exp())
        return value

    attack(replace(problem, score=score), Generator())
    tried = torch.stack(values)
    return Climb(tried.mean(1).tolist(), tried.cummax(0).values.mean(1).tolist())


def _direction(
    model: nn.Module, x: Tensor, y: Tensor, threat: Threat, rate: float, iterations: int
) -> Lines:
    """Look along what PGD-Conf finds, up to three times as far as the threat allows."""
    found = PGD(iterations, rate)(
        Problem.of(model, x, y, threat, other_class_confidence), Generator()
    )
    steps = torch.linspace(0, 3, 61)
    attacked = (
        probabilities(model, (x + found.delta).clamp(0, 1)).scatter(1, y[:, None], 0).argmax(1)
    )
    return _lines(model, x, found.delta, steps, y, attacked)


def _between(model: nn.Module, x: Tensor, y: Tensor) -> Lines:
    """Look from each image to the next one of another class."""
    order = [
        next(k for k in _following(n, len(y)) if y[k] != y[n]) if (y != y[n]).any() else n
        for n in range(len(y))
    ]
    return _lines(model, x, x[order] - x, torch.linspace(0, 1, 41), y, y[order])


def _following(n: int, count: int) -> list[int]:
    return [*range(n + 1, count), *range(n)]


def _lines(
    model: nn.Module, x: Tensor, delta: Tensor, steps: Tensor, first: Tensor, second: Tensor
) -> Lines:
    """Return confidences along x + κδ: in two classes, and in the likeliest of the others."""
    confidences = torch.stack(
        [probabilities(model, (x + step * delta).clamp(0, 1)) for step in steps.tolist()], 1
    )
    rows = torch.arange(len(x))
    rest = confidences.clone()
    rest[rows, :, first], rest[rows, :, second] = 0, 0
    ends = [
        (x[:SHOWN] + float(step) * delta[:SHOWN]).clamp(0, 1)
        for step in (steps[0], steps[len(steps) // 2], steps[-1])
    ]
    return Lines(
        steps=steps.tolist(),
        first=confidences[rows, :, first].mean(0).tolist(),
        second=confidences[rows, :, second].mean(0).tolist(),
        rest=rest.amax(2).mean(0).tolist(),
        confidences=confidences[:SHOWN].tolist(),
        first_class=first[:SHOWN].tolist(),
        second_class=second[:SHOWN].tolist(),
        images=torch.stack(ends, 1).mul(255).round().int().tolist(),
    )
