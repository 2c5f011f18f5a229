"""One case against one block of images, and the worst case per example.

Shapes: x, delta (N, C, H, W), probabilities (N, K), value, scores, by (N,), N up to a hundred.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Generator, Tensor, nn

from ccat.attacking.case import Case
from ccat.attacks import External, Found, Problem
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.models.predict import probabilities
from ccat.objectives import other_class_confidence
from ccat.rejection import CONFIDENCE, Aware, Confidence, Detector, Judge, Rejection
from ccat.threats import Threat, label

_SLACK = 1e-4  # of ε, for rounding


@dataclass(frozen=True, eq=False)
class Target:
    """A model under attack, and what rejects its answers.

    `pool` holds other images that attacks may start from; `batch` is how many images go through
    the model at once (None: a whole block).
    """

    model: nn.Module
    rejection: Rejection = field(default_factory=Confidence)
    judges: Mapping[str, Judge] = field(default_factory=lambda: {CONFIDENCE: Confidence()})
    pool: Tensor | None = None
    batch: int | None = None


@dataclass(frozen=True)
class Block:
    """What an attempt left of up to a hundred examples: the answers, and what they cost.

    `scores` are by judge; `value` is what the attack reached of its objective. `no_gradient` counts
    the examples that the attack left unbroken and whose gradient was zero wherever it asked.
    """

    probabilities: Tensor
    value: Tensor
    scores: Mapping[str, Tensor]
    seconds: float
    forwards: int
    backwards: int
    no_gradient: int = 0


def pose(target: Target, case: Case, x: Tensor, y: Tensor) -> Problem:
    """Return the problem that a case solves, on a fast copy of the model.

    Raises:
        ValueError: If the case's objective knows a detector and the target has none.
    """
    model, objective = attack_copy(target.model, x), case.objective
    first = other_class_confidence if isinstance(objective, Aware) else objective
    problem = Problem.of(model, x, y, case.threat, first, target.pool, target.batch)
    if not isinstance(objective, Aware):
        return problem
    judge = target.judges.get(target.rejection.judge_of(case.condition, list(target.judges)))
    if not isinstance(judge, Detector):
        raise ValueError(
            f"case {case.name!r} knows a detector, but this run rejects by confidence: "
            f"`ccat detect` makes a run with a detector"
        )
    labels = None if case.condition.on_noise else y
    return replace(problem, score=partial(objective.score, judge, labels))


def attack_block(
    target: Target, case: Case, x: Tensor, y: Tensor, generator: Generator
) -> tuple[Block, Tensor]:
    """Attack a block of images with one case.

    Args:
        target: The model and what rejects.
        case: The attack, its threat and objective.
        x: Images in [0,1].
        y: Their labels.
        generator: All random numbers of the attack.

    Returns:
        What is kept of the block, and the perturbations (N, C, H, W) on the CPU.

    Raises:
        ValueError: If the attack returns something else than perturbations within the threat.
    """
    keep_freed()
    begin = time.monotonic()
    problem = pose(target, case, x, y)
    found = case.attack(problem, generator)
    _require_valid(case, problem, found)
    images = problem.images(found)
    (answers,) = problem.passes.run(
        lambda part, _: (probabilities(target.model, part),), images, found.value
    )
    names = target.rejection.judges_of(case.condition, list(target.judges))
    scores = {name: _judged(problem, target.judges[name], images, answers) for name in names}
    counts, seconds = problem.counts, time.monotonic() - begin
    value = found.value.detach().cpu()
    confidence, predicted = answers.max(1)
    broken = (confidence >= 0.5) & ((predicted != y.cpu()) | case.condition.on_noise)
    blind = problem.passes.without_gradient(len(x)) & ~broken
    passes = (counts.forwards, counts.backwards, int(blind.sum()))
    block = Block(answers, value, scores, seconds, *passes)
    return block, found.delta.detach().cpu()


def _judged(problem: Problem, judge: Judge, images: Tensor, answers: Tensor) -> Tensor:
    rows = torch.arange(len(images))
    (scores,) = problem.passes.run(
        lambda part, of: (judge(part, answers[of.cpu()]),), images, rows.to(images.device)
    )
    return scores


def _require_valid(case: Case, problem: Problem, found: Found) -> None:
    """An attack of somebody else may return anything: refuse what is not allowed."""
    name = type(case.attack).__name__
    shape = tuple(problem.x.shape)
    if (
        not isinstance(found, Found)
        or found.delta.shape != problem.x.shape
        or found.value.shape != problem.x.shape[:1]
    ):
        parts = [tuple(part.shape) for part in found] if isinstance(found, Found) else type(found)
        raise ValueError(
            f"{name} must return a Found with delta {shape} and value ({shape[0]},), as "
            f"problem.evaluate gives it, not {parts}"
        )
    images = problem.x + found.delta
    outside = (images < -1e-5).any() or (images > 1 + 1e-5).any()
    beyond = problem.threat.size(found.delta) > problem.threat.epsilon * (1 + _SLACK)
    if not found.delta.isfinite().all() or outside or beyond.any():
        raise ValueError(
            f"{name} returned perturbations outside of {label(case.threat)} or of [0,1]: return "
            f"what problem.evaluate or problem.value_and_grad gave"
        )


NOBODY = -1  # no attempt is wrong


@dataclass(frozen=True)
class Worst:
    """Per example the worst perturbation among some attempts.

    `score` (N,) is −∞ and `by` (N,) is NOBODY where none of them is wrong; `delta` is then zero.
    `by` is the number of an attempt, the beginning of its key; `of` are the keys of all of them.
    """

    delta: Tensor
    score: Tensor
    by: Tensor
    of: frozenset[str]


def worst_of_block(
    key: str, block: Block, judge: str, labels: Tensor | None, delta: Tensor
) -> Worst:
    """Return one attempt's perturbations of a block where they succeed.

    Args:
        key: The attempt's key.
        block: What it left.
        judge: Whose scores count.
        labels: The right answers; None for noise, to which every answer is wrong.
        delta: Its perturbations.
    """
    answers = block.probabilities.argmax(1)
    wrong = torch.ones_like(answers, dtype=torch.bool) if labels is None else answers != labels
    score = torch.where(wrong, block.scores[judge].double(), -torch.inf)
    by = torch.where(wrong, number_of(key), NOBODY)
    delta = torch.where(wrong[:, None, None, None], delta, 0)
    return Worst(delta, score, by, frozenset([key]))


def merge(one: Worst, other: Worst | None) -> Worst:
    """Return, per example, the worse of two; the order does not matter.

    Examples that only one of them has are taken from it.
    """
    if other is None:
        return one
    longest = max(len(one.by), len(other.by))
    one, other = _filled(one, longest), _filled(other, longest)
    earlier = (one.score == other.score) & (one.by < other.by)
    first = (one.score > other.score) | earlier
    return Worst(
        torch.where(first[:, None, None, None], one.delta, other.delta),
        torch.where(first, one.score, other.score),
        torch.where(first, one.by, other.by),
        one.of | other.of,
    )


def _filled(worst: Worst, count: int) -> Worst:
    """Return the same for more examples, none of which is wrong."""
    more = count - len(worst.by)
    if more == 0:
        return worst
    return Worst(
        torch.cat([worst.delta, worst.delta.new_zeros(more, *worst.delta.shape[1:])]),
        torch.cat([worst.score, worst.score.new_full((more,), -torch.inf)]),
        torch.cat([worst.by, worst.by.new_full((more,), NOBODY)]),
        worst.of,
    )


def number_of(key: str) -> int:
    """The number that stands for an attempt in `Worst.by`; its order is that of the keys."""
    return int(key[:15], 16)


def try_out(target: Target, cases: Sequence[Case], x: Tensor, y: Tensor) -> None:
    """Run every case that is not ccat's own on one image.

    Args:
        target: What will be attacked.
        cases: What it will be attacked with.
        x: One image (1, C, H, W).
        y: Its label.

    Raises:
        ValueError: Names the class of an attack or a threat, and what is wrong with it.
    """
    for threat in dict.fromkeys(case.threat for case in cases if _is_foreign(case.threat)):
        require_threat(threat, x)
    for case in cases:
        if isinstance(case.attack, External) or _is_foreign(case.attack):
            attack_block(target, case, x, y, Generator().manual_seed(0))


def require_threat(threat: Threat, x: Tensor) -> None:
    """Raise a ValueError if a method of a threat returns a wrong shape for an image x."""
    delta = threat.sample(x, Generator().manual_seed(0))
    found = {
        "sample(x, generator)": (delta, x.shape),
        "project(x, delta)": (threat.project(x, delta), x.shape),
        "ascent(gradient, image)": (threat.ascent(torch.ones_like(x), x), x.shape),
        "size(delta)": (threat.size(delta), x.shape[:1]),
    }
    for name, (value, shape) in found.items():
        if not isinstance(value, Tensor) or value.shape != shape:
            what = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"{label(threat)}: {type(threat).__name__}.{name} must return a tensor of shape "
                f"{tuple(shape)}, not {what}"
            )


def _is_foreign(value: object) -> bool:
    return type(value).__module__.split(".")[0] != "ccat"
