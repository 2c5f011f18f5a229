"""The attacks that found most (docs/ATTACKS.md), for each kind of threat.

They are gradients from the image, and gradients that go on from what a search without gradients has
found. No single one of them is strong against every model.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ccat.attacking import Case
from ccat.attacks import APGD, PGD, Attack, CornerSearch, Geometry, Refined, Shrinking, Simple
from ccat.objectives import any_class_confidence, cross_entropy, other_class_confidence
from ccat.threats import L0, L1, L2, Frame, Linf, Threat

Rates = tuple[float, float]  # the smaller and the larger rate of PGD


class Effort(NamedTuple):
    """How long the attacks of a suite run."""

    iterations: int  # of gradient attacks
    search: int  # of the searches they go on from
    restarts: int = 1  # of what is random


def strong(threat: Threat, effort: Effort, rates: Rates | None = None) -> list[Case]:
    """Return the strong attacks within a threat, around images of any size.

    Args:
        threat: Any threat; one that is not ccat's gets the attacks that need to know least.
        effort: How long they run.
        rates: Of PGD; by default parts of ε.
    """
    attacks = _STRONG.get(type(threat), _anywhere)
    return attacks(threat, effort, rates or rates_for(threat))


def distal(threat: Threat, effort: Effort, rates: Rates | None = None) -> list[Case]:
    """Return the strong attacks within a threat around noise instead of images."""
    return [
        replace(case, objective=any_class_confidence, source="noise")
        for case in strong(threat, effort, rates)
        if case.objective is other_class_confidence
    ]


def rates_for(threat: Threat) -> Rates:
    """Two rates for PGD within any threat: parts of ε, in L0 and frames fixed ones."""
    if isinstance(threat, L0):
        return 250.0, 2500.0
    if isinstance(threat, Frame):
        return 0.1, 0.5
    slow, fast = _PARTS.get(type(threat), (15, 4))
    return float(f"{threat.epsilon / slow:.3g}"), float(f"{threat.epsilon / fast:.3g}")


_PARTS: dict[type, tuple[float, float]] = {Linf: (30, 6), L2: (15, 4), L1: (9, 2.4)}


def _in_ball(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, restarts = effort
    adaptive, random = APGD(iterations), APGD(iterations, start="random")
    geometry, simple = Refined(Geometry(2 * search), adaptive), Refined(Simple(search), adaptive)
    return [
        *(_conf(f"PGD-Conf zero {rate:g}", threat, PGD(iterations, rate)) for rate in rates),
        _conf("APGD-Conf random", threat, random, restarts),
        Case("APGD-CE random", threat, random, cross_entropy, restarts, family="APGD-CE"),
        _conf("Geometry, then APGD-Conf", threat, geometry, restarts),
        _conf("Simple, then APGD-Conf", threat, simple, restarts),
        _conf("Shrinking", threat, Shrinking(iterations, starts=3), restarts),
    ]


def _in_pixels(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, restarts = effort
    small, large = (PGD(iterations, rate) for rate in rates)
    corners = Refined(CornerSearch(200), large)
    cases = [
        _conf("PGD-Conf zero 250", threat, small),
        _conf("PGD-Conf zero 2500", threat, large),
        _conf("PGD-Conf random 2500", threat, replace(large, start="random"), restarts),
        _conf("Geometry, then PGD-Conf", threat, Refined(Geometry(2 * search), large), restarts),
        _conf("Simple, then PGD-Conf", threat, Refined(Simple(search), large), restarts),
    ]
    if corners.supports(threat):
        cases.append(_conf("Corner Search, then PGD-Conf", threat, corners))
    return cases


def _in_frame(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, restarts = effort
    adaptive, random = APGD(iterations), APGD(iterations, start="random")
    _, rate = rates
    simple = Refined(Simple(2 * search), adaptive)
    return [
        _conf(f"PGD-Conf zero {rate:g}", threat, PGD(iterations, rate)),
        _conf(f"PGD-Conf random {rate:g}", threat, PGD(iterations, rate, start="random"), restarts),
        _conf("APGD-Conf zero", threat, adaptive),
        _conf("APGD-Conf random", threat, random, restarts),
        Case("APGD-CE random", threat, random, cross_entropy, restarts, family="APGD-CE"),
        _conf("Simple, then APGD-Conf", threat, simple, restarts),
    ]


def _anywhere(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    """Attacks that ask nothing of a threat but its four methods."""
    iterations, search, restarts = effort
    last = PGD(iterations, rates[1])
    return [
        *(_conf(f"PGD-Conf zero {rate:g}", threat, PGD(iterations, rate)) for rate in rates),
        _conf("PGD-Conf random", threat, replace(last, start="random"), restarts),
        _conf("Geometry, then PGD-Conf", threat, Refined(Geometry(2 * search), last), restarts),
        _conf("Simple, then PGD-Conf", threat, Refined(Simple(search), last), restarts),
    ]


_STRONG: dict[type, Callable[[Threat, Effort, Rates], list[Case]]] = {
    Linf: _in_ball,
    L2: _in_ball,
    L1: _in_ball,
    L0: _in_pixels,
    Frame: _in_frame,
}


def _conf(name: str, threat: Threat, attack: Attack, restarts: int = 1) -> Case:
    """A case that maximises equation 4, of the family that its name begins with."""
    family = re.sub(r" (zero|random)\b.*", "", name)
    return Case(name, threat, attack, other_class_confidence, restarts, family=family)
