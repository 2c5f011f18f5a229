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
from typing import Literal, get_args

import numpy as np
import torch
from torch import Generator, Tensor, nn

from ccat.bounds.differences import differences
from ccat.bounds.interval import Interval
from ccat.bounds.layers import Arithmetic
from ccat.bounds.linear import linear_differences
from ccat.bounds.walk import NoBoundError
from ccat.checks import require_count
from ccat.data.images import to_floats
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
    least = x + lower - SLACK * lower.abs() - _STORED
    most = x + upper + SLACK * upper.abs() + _STORED
    return Interval.between(least.clamp(0, 1), most.clamp(0, 1))


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
        model: Maps images in [0,1] to logits by layers of `ccat.bounds.RULES`; it is bounded in
            evaluation mode.
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
    x = _checked(x, y, batch, bounds)
    exact, twin, how = _copies(model)
    wrong, score = [], []
    with torch.no_grad():
        for start in range(0, len(x), batch):
            rows = slice(start, start + batch)
            box = box_around(x[rows].to(torch.float64), threat)
            u = differences(exact, box, how)
            _require_within(twin, box, u)
            labels = None if y is None else y[rows].to(u.device)
            if labels is not None and labels.max() >= u.shape[1]:
                raise ValueError(f"labels must be 0 to {u.shape[1] - 1}, not {int(labels.max())}")
            best = _worst(u, labels)
            for n in (best > -torch.inf).nonzero()[:, 0] if bounds == "linear" else ():
                one = slice(int(n), int(n) + 1)
                part = Interval(box.centre[one], box.radius[one])
                both = torch.fmin(linear_differences(exact, part, how), u[one])
                _require_within(twin, part, both)
                best[one] = _worst(both, None if labels is None else labels[one])
            wrong.append(best.cpu() > -torch.inf)
            score.append(best.cpu().clamp(0, 1))
    return Outcome(
        np.asarray(torch.cat(wrong).numpy(), dtype=np.bool_), torch.cat(score).double().numpy()
    )


def _worst(u: Tensor, labels: Tensor | None) -> Tensor:
    """Return the highest confidence (N,) in a wrong class as the answer; −∞: none is possible."""
    highest = (1 + _SOFTMAX) * torch.exp(-torch.logsumexp(-u, 2))
    possible = torch.where(u.amin(2) < -_SOFTMAX, -torch.inf, highest.nan_to_num(nan=1.0))
    if labels is not None:
        possible[torch.arange(len(labels)), labels] = -torch.inf
    return possible.amax(1)


def _checked(x: Tensor, y: Tensor | None, batch: int, bounds: str) -> Tensor:
    """Return images as floats; raise a ValueError if they, or the labels, are something else."""
    require_count("certify: batch", batch)
    if bounds not in get_args(Bounds):
        raise ValueError(f"bounds must be one of {', '.join(get_args(Bounds))}, not {bounds!r}")
    if x.ndim != 4 or len(x) == 0:
        raise ValueError(f"images must be (N, C, H, W), not {tuple(x.shape)}")
    x = to_floats(x)
    if not ((x >= -_STORED) & (x <= 1 + _STORED)).all():
        raise ValueError("images must be in [0,1], or bytes")
    if y is not None and (y.shape != x.shape[:1] or y.is_floating_point() or y.min() < 0):
        raise ValueError(f"labels must be {len(x)} classes, not {tuple(y.shape)} of {y.dtype}")
    return x


def _require_within(model: nn.Module, box: Interval, u: Tensor) -> None:
    """Raise a NoBoundError if the model itself leaves its bounds at points of the box.

    This proves nothing. It finds models that do something else than their traced layers say.
    """
    kind = next((one.dtype for one in model.parameters()), torch.float32)
    corners = Generator().manual_seed(0)
    signs = [torch.randint(-1, 2, box.centre.shape, generator=corners) for _ in range(3)]
    for sign in (0 * signs[0], *signs):
        z = model((box.centre + sign.to(box.centre) * box.radius).to(kind)).double()
        if not (z[:, :, None] - z[:, None, :] <= u + _SOFTMAX * (1 + u.abs())).all():
            raise NoBoundError(
                f"{type(model).__name__} does not compute what its layers say: an image of the box "
                f"has logits beyond their bounds. It may be random, depend on other images of a "
                f"batch, or have weights that are not finite"
            )


def _copies(model: nn.Module) -> tuple[nn.Module, nn.Module, Arithmetic]:
    """Return copies in float64 and in the model's precision, and the arithmetic of that."""
    kinds = {one.dtype for one in model.parameters() if one.is_floating_point()}
    if kinds & {torch.float16, torch.bfloat16}:
        raise NoBoundError(
            f"{type(model).__name__} computes in half precision, whose overflow and underflow have "
            f"no bounds: convert it to float32"
        )
    unit = max((torch.finfo(kind).eps / 2 for kind in kinds), default=2.0**-24)
    try:
        exact, twin = (copy.deepcopy(model).eval() for _ in range(2))
        exact = exact.to(torch.float64)
    except (RuntimeError, TypeError, NotImplementedError, AttributeError) as why:
        raise NoBoundError(f"{type(model).__name__} cannot be copied ({why})") from why
    return exact, twin, Arithmetic(unit)
