"""Whether a suite finds errors that were planted: see planted.py."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from ccat import codec
from ccat.attacking.block import Target
from ccat.attacking.case import Attempt, Case, attempts_of
from ccat.attacking.planted import ACCEPTED, Features, PlantedModel, PlantedScore, Plants, plant
from ccat.attacks import AutoAttack, External, Foolbox, Given, Problem
from ccat.evaluation.planted import PlantedBy, PlantedErrors
from ccat.models import attack_copy
from ccat.objectives import goal_of, other_class_confidence
from ccat.rejection import Aware


def checkable(case: Case) -> bool:
    """Return True if a case can be asked for planted errors: it wants errors, knows no detector."""
    given = isinstance(case.objective, Aware) or isinstance(case.attack, Given)
    return goal_of(case.objective) == "error" and not given


def check(
    target: Target,
    suite: str,
    cases: Sequence[Case],
    x: Tensor,
    others: Tensor,
    *,
    complete: bool = False,
) -> PlantedErrors:
    """Plant an error around each image and let the cases of one condition look for it.

    Args:
        target: The model and the pool of images that attacks may start from.
        suite: What the cases are called together.
        cases: Under one condition, within a ball in L∞, L2 or L1.
        x: Images in [0,1].
        others: Images to choose planted points from; not those of the pool.
        complete: Ask every case for every planted error; otherwise what one has found is not asked
            of those after it.
    """
    model, threat = attack_copy(target.model, x), cases[0].threat
    seed = codec.seed_from(["planted", cases[0].condition.key])
    plants = plant(model, x, threat, others, Generator().manual_seed(seed))
    left = plants.separable.clone()
    found, by = torch.zeros_like(left), []
    for attempt in attempts_of(cases):
        asked = (plants.separable if complete else left).nonzero()[:, 0]
        mine = _found(target, attempt, Features(model), plants, x, asked)
        by.append(PlantedBy(attempt.record.name, len(asked), int(mine.sum())))
        found[asked[mine]] = True
        left = plants.separable & ~found
    count = int(plants.separable.sum())
    return PlantedErrors(suite, count, len(x) - count, int(found.sum()), _joined(by))


def _found(
    target: Target, attempt: Attempt, features: Features, plants: Plants, x: Tensor, rows: Tensor
) -> Tensor:
    """Return which of some planted errors (M,) an attempt finds."""
    if len(rows) == 0:
        return torch.zeros(0, dtype=torch.bool)
    case, enough = attempt.case, math.log(ACCEPTED)
    objective = other_class_confidence  # of two classes, where it has the direction of any other
    part = Plants(*(one[rows] for one in plants))
    score = PlantedScore(features, part, objective)
    problem = Problem(x[rows], case.threat, score, target.pool, enough=enough)
    generator = attempt.generator(0)
    if isinstance(case.attack, External | Foolbox | AutoAttack):
        deltas = []
        for row in range(len(rows)):
            head = PlantedModel(features, part, x[rows], row)
            label = torch.zeros(1, dtype=torch.int64, device=x.device)
            one = Problem.of(head, x[rows[row : row + 1]], label, case.threat, objective)
            one = replace(one, pool=target.pool)
            deltas.append(case.attack(one, generator).delta)
        delta = torch.cat(deltas)
    else:
        delta = case.attack(problem, generator).delta
    return (problem.evaluate(delta).value >= enough).cpu()


def _joined(by: Sequence[PlantedBy]) -> tuple[PlantedBy, ...]:
    """Return one entry for each name, restarts together."""
    found: dict[str, PlantedBy] = {}
    for one in by:
        before = found.get(one.name)
        asked, mine = (before.asked, before.found) if before else (one.asked, 0)
        found[one.name] = PlantedBy(one.name, asked, mine + one.found)
    return tuple(found.values())
