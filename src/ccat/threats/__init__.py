"""Threat models: which perturbations δ of an image an attacker may choose.

Linf, L2, L1 and L0 are balls of radius ε; Frame is a border of pixels that may take any value.
Each is a frozen dataclass with the four methods of `Threat` over a batch of images:

    threat = Linf(8 / 255)
    delta = threat.project(x, delta)  # the nearest allowed perturbation with x+δ in [0,1]
    parse_threat(label(threat)) == threat  # "Linf:8/255"

Pixels at 0 or 1 make or break attacks in L2, L1 and L0. `project` therefore returns the nearest
point of ball and box together, and the length of a step counts only entries that can move: those
that the gradient pushes out of [0,1] are held at their wall and not paid for.

A threat of your own is a frozen dataclass with these methods whose first field, or the field
`epsilon`, is its size; it is called `package.module:Class:0.3`. A `Condition` is a threat, what is
attacked within it, test images or noise, and the attacker's goal: errors or rejection.
"""

from ccat.threats.balls import L1, L2, Linf
from ccat.threats.conditions import Condition, Goal, Source
from ccat.threats.names import (
    THREATS,
    UnknownThreat,
    contains,
    label,
    order,
    parse_threat,
    read_threat,
)
from ccat.threats.pixels import L0, Frame
from ccat.threats.protocol import SLACK, Box, Threat

__all__ = [
    "L0",
    "L1",
    "L2",
    "SLACK",
    "THREATS",
    "Box",
    "Condition",
    "Frame",
    "Goal",
    "Linf",
    "Source",
    "Threat",
    "UnknownThreat",
    "contains",
    "label",
    "order",
    "parse_threat",
    "read_threat",
]
