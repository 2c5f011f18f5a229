"""Bounds: what a model can answer at most, for every image that a threat allows.

`certify` gives the worst outcome that is possible within a box, as attacks give the worst that was
found; the truth lies between them. Training for certificates (`ccat.IntervalBound`) uses the same
bounds with a gradient.

    possible = certify(model, x, y, Linf(0.1))
    metrics.robust_error(clean, possible, tau)  # no attack within the threat reaches more

A box passes through a model layer by layer (`walk`), by a rule for each kind of layer (`RULES`).
Chains of affine layers and rectifiers have tighter bounds as well (`linear`).
"""

from ccat.bounds.certificate import Bounds, box_around, certify, is_box, require_box
from ccat.bounds.differences import against_label, differences
from ccat.bounds.interval import Interval
from ccat.bounds.layers import NORMS, Arithmetic
from ccat.bounds.linear import linear_differences
from ccat.bounds.rules import RULES
from ccat.bounds.walk import NoBoundError, bound

__all__ = [
    "NORMS",
    "RULES",
    "Arithmetic",
    "Bounds",
    "Interval",
    "NoBoundError",
    "against_label",
    "bound",
    "box_around",
    "certify",
    "differences",
    "is_box",
    "linear_differences",
    "require_box",
]
