"""One case against one block of images.

Shapes: x, delta (N, C, H, W), probabilities (N, K), value, scores (N,), N up to a hundred.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Generator, Tensor, nn

from ccat.attacking.case import Case
from ccat.attacks import Counts, External, Found, Problem
from ccat.attacks.passes import Passes
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.models.half_gradients import eager_of
from ccat.models.predict import probabilities
from ccat.objectives import level, other_class_confidence
from ccat.rejection import CONFIDENCE, Aware, Confidence, Judge, Knowable, Rejection
from ccat.threats import SLACK, Threat, label


@dataclass(frozen=True, eq=False)
class Target:
    """A model under attack, and what rejects its answers.

    `pool` holds other images that attacks may start from, with their labels; `batch` is how many
    images go through the model at once (None: a whole block). `enough` has, by judge, the score at
    which an accepted error is enough, so that an example is attacked no more; where it has none,
    attacks go on. `tau` is the usual threshold on the confidence. `copied` makes the fast copy that
    is attacked.
    """

    model: nn.Module
    rejection: Rejection = field(default_factory=Confidence)
    judges: Mapping[str, Judge] = field(default_factory=lambda: {CONFIDENCE: Confidence()})
    pool: Tensor | None = None
    batch: int | None = None
    enough: Mapping[str, float] = field(default_factory=dict)
    pool_labels: Tensor | None = None
    tau: float | None = None
    copied: Callable[[nn.Module, Tensor], nn.Module] = attack_copy


@dataclass(frozen=True)
class Block:
    """What an attempt left of up to a hundred examples: the answers, and what they cost.

    `scores` are by judge; `value` is what the attack reached of its objective, −∞ where it was not
    asked. `no_gradient` counts the examples that the attack left unbroken and whose gradient was
    zero wherever it asked, `rising` those whose score still rose when it ended. `asked` (N,) is
    False for the examples that rested; their answers are those to the images themselves.
    `certified` (N,) is True for those of them that a certificate says cannot be broken, the others
    had been broken by an earlier attempt.
    """

    probabilities: Tensor
    value: Tensor
    scores: Mapping[str, Tensor]
    seconds: float
    forwards: int
    backwards: int
    no_gradient: int = 0
    rising: int = 0
    asked: Tensor = field(default_factory=lambda: torch.ones(0, dtype=torch.bool))
    certified: Tensor = field(default_factory=lambda: torch.ones(0, dtype=torch.bool))

    def __post_init__(self) -> None:
        for name, usual in (("asked", True), ("certified", False)):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, torch.full((len(self.value),), usual))


def pose(target: Target, case: Case, x: Tensor, y: Tensor) -> Problem:
    """Return the problem that a case solves, on a fast copy of the model.

    Raises:
        ValueError: If the case's objective knows a detector and the target has none.
    """
    model, objective = target.copied(target.model, x), case.objective
    if model is not target.model:
        model.eval()  # or what was replaced in the copy would change its mode for every pass
    first = other_class_confidence if isinstance(objective, Aware) else objective
    about = (case.threat, first, target.pool, target.batch, target.pool_labels)
    problem = replace(Problem.of(model, x, y, *about), tau=target.tau, model=eager_of(model))
    name = target.rejection.judge_of(case.condition, list(target.judges))
    if not isinstance(objective, Aware):
        enough = target.enough.get(name) if name == CONFIDENCE else None
        return problem if enough is None else replace(problem, enough=level(objective, enough))
    judge = target.judges.get(name)
    if not isinstance(judge, Knowable):
        raise ValueError(
            f"case {case.name!r} knows a detector, but this run rejects by confidence: "
            f"`ccat detect` makes a run with a detector"
        )
    labels = None if case.condition.on_noise else y
    return replace(problem, score=partial(objective.score, judge, labels))


def attack_block(
    target: Target,
    case: Case,
    x: Tensor,
    y: Tensor,
    generator: Generator,
    resting: Sequence[int] = (),
) -> tuple[Block, Tensor]:
    """Attack a block of images with one case.

    Args:
        target: The model and what rejects.
        case: The attack, its threat and objective.
        x: Images in [0,1].
        y: Their labels.
        generator: All random numbers of the attack.
        resting: The examples that are not attacked.

    Returns:
        What is kept of the block, and the perturbations (N, C, H, W) on the CPU.

    Raises:
        ValueError: If the attack returns something else than perturbations within the threat.
    """
    keep_freed()
    begin = time.monotonic()
    asked = torch.ones(len(x), dtype=torch.bool)
    asked[list(resting)] = False
    rows = asked.nonzero()[:, 0].to(x.device)
    delta, value = torch.zeros_like(x), torch.full((len(x),), -torch.inf)
    passes, no_gradient, rising, counts = Passes(target.batch), 0, 0, Counts()
    if len(rows):
        problem = pose(target, case, x[rows], y[rows])
        found = case.attack(problem, generator)
        _require_valid(case, problem, found)
        delta[rows], value[rows.cpu()] = found.delta.detach(), found.value.detach().float().cpu()
        passes, counts = problem.passes, problem.counts
        still = passes.still_rising(len(rows))
    images = (x + delta).clamp_(0, 1)
    (answers,) = passes.run(lambda part, _: (probabilities(target.model, part),), images, value)
    names = target.rejection.judges_of(case.condition, list(target.judges))
    scores = {name: _judged(passes, target.judges[name], images, answers) for name in names}
    if len(rows):
        unbroken = _unbroken(target, case, answers, y.cpu())
        blind = passes.without_gradient(len(rows)) & unbroken[rows.cpu()]
        no_gradient, rising = int(blind.sum()), int((still & unbroken[rows.cpu()]).sum())
    seconds = time.monotonic() - begin
    about = (seconds, counts.forwards, counts.backwards, no_gradient, rising, asked)
    return Block(answers, value, scores, *about), delta.cpu()


def _unbroken(target: Target, case: Case, answers: Tensor, y: Tensor) -> Tensor:
    """Return which examples (N,) an attack seems to have left as they should be.

    Errors are looked at where the confidence is at least one half, rejection below the usual τ.
    """
    confidence, predicted = answers.max(1)
    if case.condition.rejects:
        return confidence >= (0.5 if target.tau is None else target.tau)
    return (confidence < 0.5) | ((predicted == y) & (not case.condition.on_noise))


def _judged(passes: Passes, judge: Judge, images: Tensor, answers: Tensor) -> Tensor:
    rows = torch.arange(len(images))
    (scores,) = passes.run(
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
    beyond = problem.threat.size(found.delta) > problem.threat.epsilon * (1 + SLACK)
    if not found.delta.isfinite().all() or outside or beyond.any():
        raise ValueError(
            f"{name} returned perturbations outside of {label(case.threat)} or of [0,1]: return "
            f"what problem.evaluate or problem.value_and_grad gave"
        )


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
