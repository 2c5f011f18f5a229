"""One case against one block of images: attacked by us, or by someone else and scored by us."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import torch
from torch import Generator, Tensor, nn

from ccat.attacks import Found, Problem
from ccat.attacks.inputs import require_batch
from ccat.attacks.problem import frozen
from ccat.attempts import Block
from ccat.detectors import Detector, aware
from ccat.memory import keep_freed
from ccat.models import folded
from ccat.objectives import other_class_confidence
from ccat.recipes import Case, label
from ccat.stages.shared import probabilities_of
from ccat.threats import Threat

Function = Callable[[Tensor, Tensor], Tensor]  # (x, y) -> x_adv

SLACK = 1e-4  # of ε: so far outside a threat examples of others may lie, and are projected
ZERO = 1e-6  # smaller changes of a pixel are rounding


def posed(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    case: Case,
    pool: Tensor | None,
    detectors: Mapping[str, Detector] = MappingProxyType({}),
    batch: int | None = None,
) -> Problem:
    """The problem that a case solves, on a fast copy of the model."""
    problem = Problem.of(folded(model, x), x, y, case.threat, case.objective, pool, batch)
    if case.aware is None:
        return problem
    if not detectors:
        raise ValueError("it is aware of a detector, and this run has none: `ccat detect` makes one that has")
    detector = detectors.get(label(case.threat), next(iter(detectors.values())))
    return replace(problem, score=partial(aware, detector, y if case.source == "test" else None, case.aware))


def solve(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    case: Case,
    generator: Generator,
    pool: Tensor | None,
    detectors: Mapping[str, Detector] = MappingProxyType({}),
    batch: int | None = None,
) -> tuple[Block, Tensor]:
    """What a case finds around these images, scored by detectors too if there are any, and the perturbations."""
    keep_freed()
    begin = time.monotonic()
    problem = posed(model, x, y, case, pool, detectors, batch)
    block, delta = _block(model, problem, case.attack(problem, generator), begin)
    images = (x + delta.to(x)).clamp(0, 1)
    scores = {name: problem.passes.through(lambda part, _, one=one: (one(part),), images, y)[0] for name, one in detectors.items()}  # type: ignore[misc]
    return replace(block, scores=scores or None), delta


def take_over(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, function: Function, name: str) -> tuple[Block, Tensor]:
    """What a function of someone else finds, checked, projected and scored by us. Its passes are not counted."""
    begin = time.monotonic()
    y = require_batch(x, y)
    with torch.random.fork_rng(devices=[]), frozen(model):  # theirs may seed, and ask weights for gradients
        torch.manual_seed(0)
        x_adv = function(x.clone(), y.clone())
    delta = checked(x, x_adv, threat, name)
    problem = Problem.of(model, x, y, threat, other_class_confidence)
    return _block(model, problem, problem.at(delta), begin)


def checked(x: Tensor, x_adv: Tensor, threat: Threat, name: str) -> Tensor:
    """The perturbation of examples computed elsewhere; refused if they are no images or lie outside the threat."""
    if not isinstance(x_adv, Tensor) or x_adv.shape != x.shape or not x_adv.is_floating_point():
        what = f"{tuple(x_adv.shape)} of {x_adv.dtype}" if isinstance(x_adv, Tensor) else type(x_adv).__name__
        raise ValueError(f"{name} must give images {tuple(x.shape)} of {x.dtype}, not {what}")
    x_adv = x_adv.detach().to(x)
    if not x_adv.isfinite().all():
        raise ValueError(f"{name} gave values that are not numbers, first in example {_first(~x_adv.isfinite())}")
    outside = (x_adv < -ZERO) | (x_adv > 1 + ZERO)
    if outside.any():
        span = f"[{x_adv.min().item():g}, {x_adv.max().item():g}]"
        raise ValueError(f"{name} gave values in {span}, outside [0,1], first in example {_first(outside)}")
    delta = x_adv - x
    delta = torch.where(delta.abs() <= ZERO, 0, delta)
    size = threat.size(delta)
    beyond = size > threat.epsilon * (1 + SLACK)
    if beyond.any():
        largest = f"{size.max().item():g}"
        raise ValueError(f"{name} went beyond {label(threat)}: to {largest}, first in example {_first(beyond)}; {int(beyond.sum())} in all")
    return delta


def _block(model: nn.Module, problem: Problem, found: Found, begin: float) -> tuple[Block, Tensor]:
    images = problem.images(found)
    (probabilities,) = problem.passes.through(lambda part, _: (probabilities_of(model, part),), images, found.value)
    counts = problem.counts
    return Block(probabilities, found.value.cpu(), time.monotonic() - begin, counts.forwards, counts.backwards), found.delta.cpu()


def _first(bad: Tensor) -> int:
    return int(bad.flatten(1).any(1).nonzero()[0] if bad.ndim > 1 else bad.nonzero()[0])
