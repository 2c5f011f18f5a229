"""Proposition 1 of the paper, solved numerically.

Two points, x = 0 of class 2 and x = ε of class 1, with p₀ = p(x=0). A classifier is no more than
a = g₁(0) − g₂(0) and b = g₁(ε) − g₂(ε) here: it is right at 0 if a < 0, and right at ε if b > 0.
The losses of the training methods are written down as in the proof.

The proof solves CCAT's loss on the branch a < b. On a ≥ b the attack returns δ = 0, so λ = 1, and
the loss jumps: the best point there, a = b, has to be compared with the best one of a < b, which
`solve` does.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

Training = Literal["AT-100%", "AT-50%", "CCAT"]


@dataclass(frozen=True)
class Solution:
    """The best classifier of one branch, with its loss and its error on clean points."""

    a: float
    b: float
    loss: float
    error: float


def loss(training: Training, p0: float, lam: float, a: float, b: float) -> float:
    """Return the loss of a training method; λ is that of distance ε and concerns CCAT only."""
    clean = p0 * _softplus(a) + (1 - p0) * _softplus(-b)
    if training == "CCAT" and a >= b:
        return 2 * clean
    if training == "CCAT":
        right, wrong = (1 + lam) / 2, (1 - lam) / 2
        at_zero = right * _softplus(b) + wrong * _softplus(-b)
        at_epsilon = right * _softplus(-a) + wrong * _softplus(a)
        return clean + p0 * at_zero + (1 - p0) * at_epsilon
    attacked = p0 * _softplus(max(a, b)) + (1 - p0) * _softplus(max(-a, -b))
    return attacked + clean * (training == "AT-50%")


def solve(training: Training, p0: float, lam: float = 0.0) -> tuple[Solution, Solution]:
    """Return the best classifier of a < b and that of a ≥ b, each found numerically.

    Training aims at the one with the smaller loss.
    """
    # Imported here because it takes a moment, in every command.
    from scipy.optimize import minimize  # noqa: PLC0415

    apart = minimize(
        lambda v: loss(training, p0, lam, v[0], v[0] + abs(v[1]) + 1e-12),
        [0.0, 0.5],
        method="Nelder-Mead",
        options=_EXACT,
    )
    together = minimize(
        lambda v: loss(training, p0, lam, v[0] + abs(v[1]), v[0]),
        [0.0, 0.5],
        method="Nelder-Mead",
        options=_EXACT,
    )
    (low, gap), (second, back) = apart.x, together.x
    return _solution(p0, low, low + abs(gap), apart.fun), _solution(
        p0, second + abs(back), second, together.fun
    )


_TIE = 1e-5  # a smaller margin is none: both classes are equally likely, half the answers wrong
_EXACT = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 10_000, "maxfev": 20_000}


def closed_form(p0: float, lam: float) -> tuple[float, float]:
    """Return a* and b* of the proof, the best point of CCAT's loss on a < b."""
    right, wrong = (1 + lam) / 2, (1 - lam) / 2
    a = math.log(right * (1 - p0) / (p0 + wrong * (1 - p0)))
    return a, math.log((wrong * p0 + 1 - p0) / (right * p0))


def condition(p0: float, lam: float) -> bool:
    """Return whether the proposition's condition for an error of zero holds."""
    return lam < min(p0 / (1 - p0), (1 - p0) / p0)


def branch_is_global(p0: float, lam: float) -> bool:
    """Return whether the closed form costs less than a = b, which costs twice the entropy of p₀."""
    entropy = -(p0 * math.log(p0) + (1 - p0) * math.log(1 - p0))
    return loss("CCAT", p0, lam, *closed_form(p0, lam)) < 2 * entropy


def _solution(p0: float, a: float, b: float, value: float) -> Solution:
    wrong_at_zero, wrong_at_epsilon = (
        0.5 if abs(margin) < _TIE else float(margin > 0) for margin in (a, -b)
    )
    return Solution(
        float(a), float(b), float(value), p0 * wrong_at_zero + (1 - p0) * wrong_at_epsilon
    )


def _softplus(value: float) -> float:
    """Return log(1 + eᵛ)."""
    return float(np.logaddexp(0, value))
