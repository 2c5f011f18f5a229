"""Suites: named tables of attacks."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from ccat.attacks import APGD, PGD, Attack, CornerSearch, Estimated, Geometry, Random, Refined, Simple, Square
from ccat.objectives import any_class_confidence, cross_entropy, other_class_confidence
from ccat.recipes import Case, label
from ccat.threats import L0, L1, L2, Frame, Linf, Threat

_STARTS: tuple[tuple[Literal["zero", "random"], int], ...] = (("zero", 1), ("random", 10))  # with how many restarts, in the paper


class Effort(NamedTuple):
    """How long the attacks of a suite run."""

    iterations: int  # of gradient attacks
    search: int  # of the searches they go on from
    restarts: int = 1  # of what is random


Rates = Mapping[type, tuple[float, float]]
_MNIST_RATES: Rates = {Linf: (0.01, 0.05), L2: (0.2, 0.8), L1: (2.0, 8.0)}
_COLOUR_RATES: Rates = {Linf: (0.001, 0.005), L2: (0.13, 0.5), L1: (2.5, 10.0)}


def _strong(effort: Effort, rates: Rates, *threats: Threat) -> tuple[Case, ...]:
    """What found most (docs/ATTACKS.md): gradients from the image, and gradients that go on from what a search without any has found.
    No single one of them is strong against every model.
    """
    return tuple(case for threat in threats for case in _STRONG[type(threat)](threat, effort, rates))


def _in_ball(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, restarts = effort
    adaptive, random = APGD(iterations), APGD(iterations, start="random")
    return [
        *(_conf(f"PGD-Conf zero {rate:g}", threat, PGD(iterations, rate)) for rate in rates[type(threat)]),
        _conf("APGD-Conf random", threat, random, restarts),
        Case("APGD-CE random", "APGD-CE", threat, random, cross_entropy, restarts),
        _conf("Geometry, then APGD-Conf", threat, Refined(Geometry(2 * search), adaptive), restarts),
        _conf("Simple, then APGD-Conf", threat, Refined(Simple(search), adaptive), restarts),
    ]


def _in_pixels(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, restarts = effort
    small, large = PGD(iterations, 250.0), PGD(iterations, 2500.0)
    corners = [_conf("Corner Search, then PGD-Conf", threat, Refined(CornerSearch(200), large))]
    return [
        _conf("PGD-Conf zero 250", threat, small),
        _conf("PGD-Conf zero 2500", threat, large),
        _conf("PGD-Conf random 2500", threat, replace(large, start="random"), restarts),
        _conf("Geometry, then PGD-Conf", threat, Refined(Geometry(2 * search), large), restarts),
        _conf("Simple, then PGD-Conf", threat, Refined(Simple(search), large), restarts),
        *(corners if getattr(threat, "per", "") == "pixel" else []),  # which are made for pixels, not for entries
    ]


def _in_frame(threat: Threat, effort: Effort, rates: Rates) -> list[Case]:
    iterations, search, restarts = effort
    adaptive, random = APGD(iterations), APGD(iterations, start="random")
    return [
        _conf("PGD-Conf zero 0.5", threat, PGD(iterations, 0.5)),
        _conf("PGD-Conf random 0.5", threat, PGD(iterations, 0.5, start="random"), restarts),
        _conf("APGD-Conf zero", threat, adaptive),
        _conf("APGD-Conf random", threat, random, restarts),
        Case("APGD-CE random", "APGD-CE", threat, random, cross_entropy, restarts),
        _conf("Simple, then APGD-Conf", threat, Refined(Simple(2 * search), adaptive), restarts),
    ]


_STRONG: dict[type, Callable[[Threat, Effort, Rates], list[Case]]] = {
    Linf: _in_ball, L2: _in_ball, L1: _in_ball, L0: _in_pixels, Frame: _in_frame,
}  # fmt: skip


def _distal(effort: Effort, rates: Rates, threat: Threat) -> tuple[Case, ...]:
    """Around noise instead of images."""
    chosen = [case for case in _in_ball(threat, effort, rates) if case.objective is other_class_confidence]
    return tuple(replace(case, objective=any_class_confidence, source="noise") for case in chosen)


def _conf(name: str, threat: Threat, attack: Attack, restarts: int = 1) -> Case:
    """Maximises equation 4; of the family that its name begins with."""
    return Case(name, re.sub(r" (zero|random)\b.*", "", name), threat, attack, other_class_confidence, restarts)


def paper_rate(threat: Threat, divisor: float) -> float:
    """Scaled with ε, so that a zero start reaches the boundary well within T; a step in L0 crosses the box."""
    if isinstance(threat, L0):
        return 2500.0
    return 0.1 if isinstance(threat, Frame) else threat.epsilon / divisor


def _paper_white_box(threat: Threat) -> list[Case]:
    rate = paper_rate(threat, 30)
    conf = [
        Case(f"PGD-Conf {start}", "PGD-Conf", threat, PGD(1000, rate, start=start), other_class_confidence, restarts)
        for start, restarts in _STARTS
    ]
    attack = PGD(200, paper_rate(threat, 6), backtracking=1.25, start="random")
    return [*conf, Case("PGD-CE random", "PGD-CE", threat, attack, cross_entropy, restarts=50)]


def _paper_black_box(threat: Threat) -> list[Case]:
    rate = paper_rate(threat, 30)
    objective = other_class_confidence
    cases = [
        Case(f"QL {start}", "QL", threat, PGD(1000, rate, start=start, gradient=Estimated(50, 0.1)), objective, restarts)
        for start, restarts in _STARTS
    ]
    cases += [
        Case("Simple", "Simple", threat, Simple(1000), objective, restarts=10),
        Case("Geometry", "Geometry", threat, Geometry(1000), objective),
        Case("Random", "Random", threat, Random(5000), objective),
    ]
    if isinstance(threat, Linf | L2):
        cases.append(Case("Square", "Square", threat, Square(5000), objective))
    if isinstance(threat, L0):
        cases.append(Case("Corner Search", "Corner Search", threat, CornerSearch(200), cross_entropy))
    return cases


def _paper(seen: Linf, larger: Linf, *others: Threat, frame: Frame) -> tuple[Case, ...]:
    """The paper's table of attacks with its iterations and restarts, at one rate per threat. Sized for GPUs and clusters."""
    distal = [
        Case(f"PGD-Conf {start}", "PGD-Conf", seen, PGD(1000, paper_rate(seen, 30), start=start), any_class_confidence, restarts, "noise")
        for start, restarts in _STARTS
    ]
    balls = (seen, larger, *others)
    return (*(case for ball in balls for case in _paper_white_box(ball) + _paper_black_box(ball)), *_paper_white_box(frame), *distal)


def image_shape(suite: str) -> tuple[int, int, int]:
    """Of the images that a suite is made for."""
    return (3, 32, 32) if suite in ("paper-svhn", "paper-cifar10", "quick-colour", "standard-colour") else (1, 28, 28)


DEMO, QUICK, STANDARD = Effort(100, 500), Effort(200, 1000), Effort(300, 1000, 3)
_COLOUR = (Linf(0.03), Linf(0.06), L2(2.0), L1(24.0), L0(10), Frame(3))
_MNIST = (Linf(0.3), Linf(0.4), L2(3.0), L1(18.0), L0(15), Frame(2))

SUITES: dict[str, tuple[Case, ...]] = {
    "paper-mnist": _paper(Linf(0.3), Linf(0.4), L2(3.0), L1(18.0), L0(15), frame=Frame(2)),
    "paper-svhn": _paper(Linf(0.03), Linf(0.06), L2(2.0), L1(24.0), L0(10), frame=Frame(3)),
    "paper-cifar10": _paper(Linf(0.03), Linf(0.06), L2(2.0), L1(24.0), L0(10), frame=Frame(3)),
    "demo": _strong(DEMO, _MNIST_RATES, Linf(0.3), Linf(0.4), L2(3.0), Frame(2)) + _distal(DEMO, _MNIST_RATES, Linf(0.3)),
    "quick": _strong(QUICK, _MNIST_RATES, *_MNIST) + _distal(QUICK, _MNIST_RATES, Linf(0.3)),
    "standard": _strong(STANDARD, _MNIST_RATES, *_MNIST) + _distal(STANDARD, _MNIST_RATES, Linf(0.3)),
    "quick-colour": _strong(QUICK, _COLOUR_RATES, *_COLOUR) + _distal(QUICK, _COLOUR_RATES, Linf(0.03)),
    "standard-colour": _strong(STANDARD, _COLOUR_RATES, *_COLOUR) + _distal(STANDARD, _COLOUR_RATES, Linf(0.03)),
}


_EFFORTS = {"demo": DEMO, "quick": QUICK, "standard": STANDARD, "quick-colour": QUICK, "standard-colour": STANDARD}


def within(name: str, *threats: Threat) -> tuple[Case, ...]:
    """The attacks of a suite within any threats, around images of any size, at rates that fit ε."""
    if name not in _EFFORTS:
        raise ValueError(f"suite {name} has its own threats; with others there are {', '.join(_EFFORTS)}")
    return tuple(case for threat in threats for case in _strong(_EFFORTS[name], _rates_for(threat), threat))


def _rates_for(threat: Threat) -> Rates:
    """As in the suites with threats of their own, in parts of ε."""
    parts = {Linf: (30, 6), L2: (15, 4), L1: (9, 2.4)}.get(type(threat), (1, 1))
    return {type(threat): (float(f"{threat.epsilon / parts[0]:.3g}"), float(f"{threat.epsilon / parts[1]:.3g}"))}


def aware(cases: Sequence[Case]) -> tuple[Case, ...]:
    """For a run that rejects by a detector: attacks whose objective the detector is part of, besides those that know nothing of it."""
    found = []
    for threat, source in dict.fromkeys((case.threat, case.source) for case in cases):
        iterations = max(getattr(case.attack, "iterations", 1) for case in cases if isinstance(case.attack, PGD | APGD))
        pixels, frame = isinstance(threat, L0), isinstance(threat, Frame)
        rates = (0.1, 0.5) if frame else (250.0, 2500.0) if pixels else _rates_for(threat)[type(threat)]
        attacks: dict[str, tuple[Attack, float]] = {f"PGD zero {rate:g}": (PGD(iterations, rate), 0.0) for rate in rates}
        last = PGD(iterations, 2500.0) if pixels else APGD(iterations)
        if not frame:
            attacks[f"Geometry, then {type(last).__name__}"] = Refined(Geometry(2 * iterations), last), 0.0
        for penalty in (0.3, 1.0, 3.0):
            attacks[f"{type(last).__name__}, penalty {penalty:g}"] = replace(last, start="random"), penalty
        for name, (attack, penalty) in attacks.items():
            family = re.sub(r" zero\b.*|, penalty.*", "", f"aware {name}")
            found.append(Case(f"aware {name}", family, threat, attack, other_class_confidence, source=source, aware=penalty))
    return tuple(found)


def select(
    name: str, shape: tuple[int, ...], only: str | None = None, threats: Sequence[Threat] = (), detector: bool = False
) -> tuple[Case, ...]:
    """The cases of a suite that attack images of this shape, by a pattern of their names, such as 'square*', and by their threats.

    Threats that the suite does not have are attacked as it attacks its own. Where there is one, the suite for colour is taken for colour.
    Where a detector rejects, attacks that know of it are added.
    """
    if name not in SUITES:
        raise ValueError(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    if f"{name}-colour" in SUITES and shape == image_shape(f"{name}-colour"):
        name = f"{name}-colour"
    fits = shape == image_shape(name)
    if not fits and not threats:
        fitting = [other for other in SUITES if image_shape(other) == shape]
        instead = (
            f"use {' or '.join(fitting)}" if fitting else "say which threats fit yours: --threat Linf:8/255 --threat L2:1 --threat Frame:3"
        )
        raise ValueError(f"suite {name} is made for images of {_size(image_shape(name))}, not of {_size(shape)}; {instead}")
    threats = tuple(dict.fromkeys(threats))
    own = [case for case in SUITES[name] if fits and (not threats or case.threat in threats)]
    cases = (*own, *within(name, *others)) if (others := [t for t in threats if all(c.threat != t for c in own)]) else tuple(own)
    cases = (*cases, *aware(cases)) if detector else cases
    chosen = tuple(case for case in cases if only is None or fnmatchcase(case.name.lower(), only.lower()))
    missed = [threat for threat in threats if all(case.threat != threat for case in chosen)]
    if not chosen or missed:
        where = f" within {label(missed[0])}" if missed and chosen else ""
        raise ValueError(
            f"no case of suite {name}{where} is called {only!r}; there are {', '.join(dict.fromkeys(case.name for case in cases))}"
        )
    return chosen


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
