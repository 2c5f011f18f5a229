"""The simplest call there is: adversarial images for a model, within a threat."""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from ccat.api.inputs import require_threat
from ccat.attacking import BLOCK
from ccat.attacks import Attack, Problem, best, frozen
from ccat.attacks.inputs import require_batch, require_model
from ccat.catalog.strong import Effort, strong
from ccat.checks import require_count, require_number
from ccat.models import attack_copy
from ccat.models.predict import probabilities
from ccat.objectives import other_class_confidence
from ccat.threats import Threat


def attack(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    *,
    tau: float | None = None,
    iterations: int = 100,
    pool: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return adversarial images: the strongest that ccat's attacks find within a threat.

    Several attacks maximise the confidence in a wrong class (equation 4), gradients from the image
    and gradients that go on from a search; per image the best is kept.

    Args:
        model: Maps images (N, C, H, W) in [0,1] to logits (N, K), in any mode, on any device.
        x: Images in [0,1].
        y: Their labels.
        threat: What the attacker may do.
        tau: Be content with a wrong answer of at least this confidence; attacks then stop early.
        iterations: Of each gradient attack; searches take five times as many.
        pool: Other images that searches walk towards; by default the images themselves.
        generator: All random numbers; by default seeded with 0.

    Returns:
        Images like x: in [0,1], within the threat.
    """
    y = require_batch(x, y)
    require_model(model, x)
    require_threat(threat)
    require_count("iterations", iterations)
    if tau is not None:
        require_number("tau", tau, 0, 1, low_too=True, high_too=True)
    generator = generator or Generator().manual_seed(0)
    attacks = [
        case.attack
        for case in strong(threat, Effort(iterations, 5 * iterations))
        if case.objective is other_class_confidence
    ]
    fast, pool = attack_copy(model, x), x if pool is None else pool
    parts = [
        _strongest(model, fast, x[rows], y[rows], threat, attacks, pool, tau, generator)
        for rows in (slice(n, n + BLOCK) for n in range(0, len(x), BLOCK))
    ]
    return torch.cat(parts)


def _strongest(
    model: nn.Module,
    fast: nn.Module,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    attacks: Sequence[Attack],
    pool: Tensor,
    tau: float | None,
    generator: Generator,
) -> Tensor:
    """The best of all attacks on a block; with τ, images with an accepted error are left alone."""
    problem = Problem.of(fast, x, y, threat, other_class_confidence, pool)
    found = problem.evaluate(torch.zeros_like(x))
    for one in attacks:
        rows = _not_fooled(model, problem.images(found), y, tau)
        if len(rows) == 0:
            break
        part = Problem.of(fast, x[rows], y[rows], threat, other_class_confidence, pool)
        trial = one(part, generator)
        found = best(found, problem.evaluate(found.delta.index_copy(0, rows, trial.delta)))
    return problem.images(found)


def _not_fooled(model: nn.Module, images: Tensor, y: Tensor, tau: float | None) -> Tensor:
    """The rows of images whose answer is right or below τ; all of them if there is no τ."""
    if tau is None:
        return torch.arange(len(images), device=images.device)
    with frozen(model):
        given = probabilities(model, images).to(images.device)
    confidence, answers = given.max(1)
    return ((answers == y) | (confidence < tau)).nonzero()[:, 0]
