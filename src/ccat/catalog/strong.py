"""The attacks that found most (docs/ATTACKS.md), for each kind of threat.

They come in the order in which they are made: cheap and strong first, because what one of them has
broken rests in the others. No single one of them is strong against every model.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ccat.attacking import Case
from ccat.attacks import (
    APGD,
    PGD,
    Attack,
    Beam,
    Border,
    Exchange,
    Geometry,
    Refined,
    Shrinking,
    Simple,
    Square,
    Windows,
)
from ccat.objectives import any_class_confidence, lowest_confidence, other_class_confidence
from ccat.threats import L0, L1, L2, Frame, Linf, Threat

Rates = tuple[float, float]  # the smaller and the larger rate of PGD


class Effort(NamedTuple):
    """How long the attacks of a suite run, and how many kinds of them there are.

    A breadth of 0 has what finds most, 1 also what adds something on some models, and 2 also what
    seldom does, to be sure.
    """

    iterations: int  # of gradient attacks
    search: int  # of the searches they go on from
    restarts: int = 1  # of what is random
    breadth: int = 1


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


def rejecting(threat: Threat, effort: Effort) -> list[Case]:
    """Return the strong attacks within a threat for an attacker who wants rejection.

    They are the same: from the image alone, gradients miss most of what searches and smoothed
    gradients get rejected (docs/EVALUATION.md). `Beam classes` has no class to aim at then, and
    climbs from the image.
    """
    return [
        replace(
            case,
            objective=lowest_confidence,
            **{field: getattr(case, field).replace("Conf", "Low") for field in ("name", "family")},
        )
        for case in strong(threat, effort)
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


CLASSES = Beam("classes", ((10, 60), (2, 150)), smooth=1.0)
DEEP = Beam("near", ((32, 40), (8, 60), (2, 200)), nearest=1000, smooth=0.3)


def _in_ball(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, _, _ = effort
    simple = Refined(Simple(search), APGD(iterations))
    square = Square(2 * search)  # without any gradient, in case that all of them mislead
    return _broad(
        effort,
        [
            _conf("APGD-Conf zero", threat, APGD(40)),
            _conf("Beam near", threat, Beam()),
            _conf("Beam classes", threat, CLASSES),
        ],
        [
            _conf("Simple, then APGD-Conf", threat, simple),
            _conf("Shrinking", threat, Shrinking(iterations, starts=3)),
        ],
        [
            _conf("Beam classes, sharper", threat, replace(CLASSES, smooth=0.3)),
            _conf("Beam near, deep", threat, DEEP),
            _conf("APGD-Conf random", threat, APGD(iterations, start="random")),
            *([_conf("Square", threat, square)] if square.supports(threat) else ()),
        ],
    )


def _in_pixels(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, restarts, breadth = effort
    exchange, last = Exchange(20 if breadth > 1 else 10), PGD(iterations, rates[1])
    if not exchange.supports(threat):
        return _anywhere(threat, effort, rates)
    return _broad(
        effort,
        [_conf("Exchange", threat, exchange, restarts)],
        [_conf("Simple, then PGD-Conf", threat, Refined(Simple(search), last))],
        [_conf("Geometry, then PGD-Conf", threat, Refined(Geometry(2 * search), last))],
    )


def _in_frame(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, _, _, breadth = effort
    windows = _conf("Windows", threat, Windows())
    return _broad(
        effort,
        [
            _conf("APGD-Conf zero", threat, APGD(iterations)),
            windows if breadth > 1 else _conf("Border", threat, Border()),
        ],
        [_conf("APGD-Conf random", threat, APGD(iterations, start="random"))],
    )


def _broad(effort: Effort, *cases: list[Case]) -> list[Case]:
    """Return the cases up to the breadth of an effort."""
    return [case for some in cases[: 1 + effort.breadth] for case in some]


def _anywhere(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    """Attacks that ask nothing of a threat but its four methods."""
    iterations, search, restarts, _ = effort
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
