"""Certificates: what no image within a threat can be taken for, proved by interval bounds.

With u_tj ≥ z_t − z_j for all images of a box, the confidence in class t is at most
1 / Σ_j exp(−u_tj), and t is never the answer if some u_tj < 0. The highest confidence that a wrong
class can still reach is all that an evaluation needs to know: it has the form of an `Outcome`, the
worst that is possible, as the outcome of attacks is the worst that was found.

Bounds are computed in float64 for the model as it runs, in its own precision: the rounding of each
layer is part of them (interval.py), a softmax is granted a relative error of 1e-5, and a
perturbation may exceed its threat by a share of 1e-4, as it may in attacks.

Shapes: x (N, C, H, W), y (N,).
"""

import copy
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from ccat.bounds.differences import differences
from ccat.bounds.interval import Interval
from ccat.bounds.linear import linear_differences
from ccat.bounds.rules import Arithmetic
from ccat.bounds.walk import NoBoundError
from ccat.evaluation.outcome import Outcome
from ccat.threats import SLACK, Box, Threat, UnknownThreat, label

_SOFTMAX = 1e-5  # relative error of probabilities
_STORED = 1e-6  # of images: the rounding of x + δ
_BATCH = 100


def is_box(threat: Threat | UnknownThreat) -> bool:
    """Return True if a threat allows all values between two bounds, entry by entry."""
    return isinstance(threat, Box)


def require_box(threat: Threat) -> Box:
    """Return the threat if it is a box.

    Raises:
        ValueError: If it is not.
    """
    if not isinstance(threat, Box):
        raise ValueError(
            f"a certificate by intervals needs a threat that is a box, Linf or Frame, or one of "
            f"yours with a method `bounds`; {label(threat)} is none"
        )
    return threat


def box_around(x: Tensor, threat: Threat) -> Interval:
    """Return the box of all images that the threat, with what is granted to rounding, allows."""
    lower, upper = require_box(threat).bounds(x)
    wider = 1 + SLACK
    return Interval.between(
        (x + wider * lower - _STORED).clamp(0, 1), (x + wider * upper + _STORED).clamp(0, 1)
    )


Bounds = Literal["interval", "linear"]


def certify(
    model: nn.Module,
    x: Tensor,
    y: Tensor | None,
    threat: Threat,
    batch: int = _BATCH,
    bounds: Bounds = "interval",
) -> Outcome:
    """Return the worst that is possible within a threat: never better than any attack will find.

    Args:
        model: Maps images in [0,1] to logits, in evaluation mode, by layers of `ccat.bounds.RULES`.
        x: Images in [0,1].
        y: Their labels; None for noise, where every answer is wrong.
        threat: A box: `Linf`, `Frame`, or one of yours.
        batch: How many images are bounded at once.
        bounds: "interval", or "linear": images that intervals do not certify are bounded once more
            by linear bounds, which are tighter and take hundreds of times as long.

    Returns:
        `wrong` where a wrong answer is possible, and as `score` the highest confidence it can have.

    Raises:
        ValueError: If the threat is no box.
        NoBoundError: If a layer has no known bounds; names it.
    """
    require_box(threat)
    exact, how = _exact_copy(model)
    wrong, score = [], []
    with torch.no_grad():
        for start in range(0, len(x), batch):
            rows = slice(start, start + batch)
            box = box_around(x[rows].to(torch.float64), threat)
            u = differences(exact, box, how)
            labels = None if y is None else y[rows].to(u.device)
            best = _worst(u, labels)
            for n in (best > -torch.inf).nonzero()[:, 0] if bounds == "linear" else ():
                one = slice(int(n), int(n) + 1)
                tight = linear_differences(exact, Interval(box.centre[one], box.radius[one]), how)
                both = torch.minimum(tight, u[one])
                best[one] = _worst(both, None if labels is None else labels[one])
            wrong.append(best.cpu() > -torch.inf)
            score.append(best.cpu().clamp(0, 1))
    return Outcome(
        np.asarray(torch.cat(wrong).numpy(), dtype=np.bool_), torch.cat(score).double().numpy()
    )


def _worst(u: Tensor, labels: Tensor | None) -> Tensor:
    """Return the highest confidence (N,) in a wrong class as the answer; −∞: none is possible."""
    highest = (1 + _SOFTMAX) * torch.exp(-torch.logsumexp(-u, 2))
    possible = torch.where(u.amin(2) >= -_SOFTMAX, highest, -torch.inf)
    if labels is not None:
        possible[torch.arange(len(labels)), labels] = -torch.inf
    return possible.amax(1)


def _exact_copy(model: nn.Module) -> tuple[nn.Module, Arithmetic]:
    """Return a copy in float64, and the arithmetic of the model itself."""
    kinds = {one.dtype for one in model.parameters() if one.is_floating_point()}
    unit = max((torch.finfo(kind).eps / 2 for kind in kinds), default=2.0**-24)
    try:
        exact = copy.deepcopy(model).to(torch.float64).eval()
    except (RuntimeError, TypeError, NotImplementedError, AttributeError) as why:
        raise NoBoundError(f"{type(model).__name__} cannot be copied ({why})") from why
    return exact, Arithmetic(unit)
