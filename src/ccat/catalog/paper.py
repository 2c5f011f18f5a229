"""The paper's table of attacks, with its iterations and restarts, at one rate per threat.

Sized for GPUs and clusters, or in brief for a CPU; to compare with the paper's numbers, not to
trust a robust error.
"""

from dataclasses import replace
from typing import Literal, NamedTuple

from ccat.attacking import Case
from ccat.attacks import PGD, CornerSearch, Estimated, Geometry, Random, Simple, Square
from ccat.objectives import any_class_confidence, cross_entropy, other_class_confidence
from ccat.threats import L0, L2, Frame, Linf, Threat


class Length(NamedTuple):
    """How long the gradient attacks run, and their restarts from random points."""

    iterations: int  # of PGD-Conf; PGD-CE has 200
    conf_restarts: int
    ce_restarts: int


FULL, TEN, BRIEF = Length(1000, 10, 50), Length(1000, 10, 10), Length(200, 1, 1)
_STARTS: tuple[tuple[Literal["zero", "random"], int], ...] = (("zero", 1), ("random", 10))


def paper_attacks(seen: Linf, larger: Linf, *others: Threat, frame: Frame) -> tuple[Case, ...]:
    """Return the paper's attacks within its balls, in frames, and around noise."""
    balls = [
        case for ball in (seen, larger, *others) for case in _white_box(ball) + _black_box(ball)
    ]
    return (*balls, *_white_box(frame), *_distal(seen, FULL))


def paper_gradients(length: Length, seen: Linf, *threats: Threat) -> tuple[Case, ...]:
    """Return the paper's gradient attacks within threats, and around noise within the seen one."""
    on_images = [case for one in (seen, *threats) for case in _white_box(one, length)]
    return (*on_images, *_distal(seen, length))


def paper_rate(threat: Threat, divisor: float) -> float:
    """Return a rate of PGD with which a zero start reaches the boundary well within T.

    It is a part of ε; in L0 it is so large that a step crosses the box.
    """
    if isinstance(threat, L0):
        return 2500.0
    return 0.1 if isinstance(threat, Frame) else threat.epsilon / divisor


def _white_box(threat: Threat, length: Length = FULL) -> list[Case]:
    zero = PGD(length.iterations, paper_rate(threat, 30))
    random = replace(zero, start="random")
    ce = PGD(200, paper_rate(threat, 6), backtracking=1.25, start="random")
    restarts = length.conf_restarts
    return [
        Case("PGD-Conf zero", threat, zero, family="PGD-Conf"),
        Case("PGD-Conf random", threat, random, restarts=restarts, family="PGD-Conf"),
        Case("PGD-CE random", threat, ce, cross_entropy, length.ce_restarts, family="PGD-CE"),
    ]


def _distal(threat: Linf, length: Length) -> list[Case]:
    return [
        replace(case, objective=any_class_confidence, source="noise")
        for case in _white_box(threat, length)
        if case.objective is not cross_entropy
    ]


def _black_box(threat: Threat) -> list[Case]:
    rate = paper_rate(threat, 30)
    cases = [
        Case(
            f"QL {start}",
            threat,
            PGD(1000, rate, start=start, gradient=Estimated(50, 0.1)),
            other_class_confidence,
            restarts,
            family="QL",
        )
        for start, restarts in _STARTS
    ]
    cases += [
        Case("Simple", threat, Simple(1000), restarts=10),
        Case("Geometry", threat, Geometry(1000)),
        Case("Random", threat, Random(5000)),
    ]
    if isinstance(threat, Linf | L2):
        cases.append(Case("Square", threat, Square(5000)))
    if isinstance(threat, L0):
        cases.append(Case("Corner Search", threat, CornerSearch(200), cross_entropy))
    return cases
