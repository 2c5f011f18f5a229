"""Suites: named tables of attacks, and how parts of them are chosen."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ccat.attacking import Case
from ccat.attacks import (
    APGD,
    PGD,
    Attack,
    AutoAttack,
    EveryTarget,
    External,
    Foolbox,
    Geometry,
    Refined,
)
from ccat.catalog.paper import BRIEF, TEN, paper_attacks, paper_gradients, paper_rate
from ccat.catalog.strong import Effort, Rates, distal, rates_for, rejecting, strong
from ccat.objectives import usual_objective
from ccat.rejection import Aware, Confidence, Rejection
from ccat.threats import L0, L1, L2, Condition, Frame, Linf, Threat

__all__ = ["SUITES", "Suite", "cases_of", "paper_rate", "select", "within"]

Shape = tuple[int, ...]
GREY, COLOUR = (1, 28, 28), (3, 32, 32)
DEMO, QUICK, STANDARD = Effort(100, 500, 1, 0), Effort(200, 1000), Effort(300, 1000, 3, 2)


@dataclass(frozen=True)
class Suite:
    """A table of attacks on images of one shape.

    With an `effort`, its attacks can be made for any other threat, around images of any size.
    """

    cases: tuple[Case, ...]
    shape: Shape = GREY
    effort: Effort | None = None


def _suite(
    effort: Effort,
    rates: Mapping[type, Rates],
    noise: Linf,
    *threats: Threat,
    shape: Shape = GREY,
) -> Suite:
    """The strong attacks within each threat and, around noise, within one."""
    on_images = [case for one in threats for case in strong(one, effort, rates.get(type(one)))]
    return Suite((*on_images, *distal(noise, effort, rates[Linf])), shape, effort)


_MNIST_RATES: Mapping[type, Rates] = {Linf: (0.01, 0.05), L2: (0.2, 0.8), L1: (2.0, 8.0)}
_COLOUR_RATES: Mapping[type, Rates] = {Linf: (0.001, 0.005), L2: (0.13, 0.5), L1: (2.5, 10.0)}
_COLOUR = (Linf(0.03), Linf(0.06), L2(2.0), L1(24.0), L0(10), Frame(3))
_MNIST = (Linf(0.3), Linf(0.4), L2(3.0), L1(18.0), L0(15), Frame(2))
_PAPER_COLOUR = paper_attacks(Linf(0.03), Linf(0.06), L2(2.0), L1(24.0), L0(10), frame=Frame(3))

SUITES: dict[str, Suite] = {
    "paper-mnist": Suite(
        paper_attacks(Linf(0.3), Linf(0.4), L2(3.0), L1(18.0), L0(15), frame=Frame(2))
    ),
    "paper-svhn": Suite(_PAPER_COLOUR, COLOUR),
    "paper-cifar10": Suite(_PAPER_COLOUR, COLOUR),
    "paper-gradients": Suite(paper_gradients(TEN, *_MNIST)),
    "paper-brief": Suite(paper_gradients(BRIEF, Linf(0.3), Linf(0.4), L2(3.0), Frame(2))),
    "demo": _suite(DEMO, _MNIST_RATES, Linf(0.3), Linf(0.3), Linf(0.4), L2(3.0), Frame(2)),
    "quick": _suite(QUICK, _MNIST_RATES, Linf(0.3), *_MNIST),
    "standard": _suite(STANDARD, _MNIST_RATES, Linf(0.3), *_MNIST),
    "quick-colour": _suite(QUICK, _COLOUR_RATES, Linf(0.03), *_COLOUR, shape=COLOUR),
    "standard-colour": _suite(STANDARD, _COLOUR_RATES, Linf(0.03), *_COLOUR, shape=COLOUR),
}


def within(name: str, *conditions: Condition) -> tuple[Case, ...]:
    """Return the attacks of a suite under any conditions, at rates that fit their ε.

    Raises:
        ValueError: If the suite has its own threats only.
    """
    effort = SUITES[name].effort
    if effort is None:
        others = [other for other, suite in SUITES.items() if suite.effort]
        raise ValueError(
            f"suite {name} has its own threats only; use {', '.join(others)} for others"
        )
    return tuple(
        case
        for one in conditions
        for case in (rejecting if one.rejects else distal if one.on_noise else strong)(
            one.known_threat, effort
        )
    )


def cases_of(attacks: Sequence[Attack], conditions: Sequence[Condition]) -> tuple[Case, ...]:
    """Return a case for each attack under each condition, named after the attack's class."""
    return tuple(
        Case(
            _name(attack, attacks),
            one.known_threat,
            attack,
            usual_objective(one),
            source=one.source,
        )
        for one in conditions
        for attack in attacks
    )


def conditions_of(cases: Sequence[Case]) -> list[Condition]:
    """Return the conditions of some cases on images, each once."""
    return list(dict.fromkeys(case.condition for case in cases if case.source == "test"))


def aware(cases: Sequence[Case], objectives: Sequence[Aware]) -> tuple[Case, ...]:
    """Return attacks that know what rejects, for the conditions of some cases.

    Raises:
        ValueError: If they are to get images rejected, which none of them knows how to do.
    """
    found = []
    if objectives and any(case.condition.rejects for case in cases):
        raise ValueError(
            "a detector rejects here, and attacks that want rejection lower the confidence "
            "instead: attack the run that the detector was added to"
        )
    for threat, source in dict.fromkeys((case.threat, case.source) for case in cases):
        longest = max(
            (case.attack.iterations for case in cases if isinstance(case.attack, PGD | APGD)),
            default=100,
        )
        for objective in objectives:
            for name, attack in _aware_attacks(threat, longest, objective).items():
                family = re.sub(r" zero\b.*|, penalty.*", "", f"aware {name}")
                found.append(Case(f"aware {name}", threat, attack, objective, 1, source, family))
    return tuple(found)


def select(
    name: str,
    shape: Shape,
    only: str | None = None,
    conditions: Sequence[Condition] = (),
    rejection: Rejection | None = None,
) -> tuple[Case, ...]:
    """Choose cases of a suite that attack images of a shape.

    Args:
        name: The suite; where there is one for colour it is taken for colour images.
        shape: Of an image (C, H, W).
        only: A pattern of the cases' names, such as 'square*'.
        conditions: Only these; those that the suite does not have are attacked as its own are.
        rejection: What rejects; attacks that know it are added.

    Raises:
        ValueError: If there is no such suite or case, or the images do not fit.
    """
    if name not in SUITES:
        raise ValueError(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    colour = SUITES.get(f"{name}-colour")
    if colour and shape == colour.shape:
        name = f"{name}-colour"
    suite = SUITES[name]
    fits = shape == suite.shape
    if not fits and not conditions:
        raise ValueError(_unfitting(name, shape))
    asked = list(dict.fromkeys(conditions))
    own = [case for case in suite.cases if fits and (not asked or case.condition in asked)]
    others = [one for one in asked if all(case.condition != one for case in own)]
    cases = (*own, *within(name, *others)) if others else tuple(own)
    cases = (*cases, *aware(cases, (rejection or Confidence()).objectives))
    chosen = tuple(
        case for case in cases if only is None or fnmatchcase(case.name.lower(), only.lower())
    )
    missed = [one for one in asked if all(case.condition != one for case in chosen)]
    if not chosen or missed:
        where = f" within {missed[0].title}" if missed and chosen else ""
        names = ", ".join(dict.fromkeys(case.name for case in cases))
        raise ValueError(f"no case of suite {name}{where} is called {only!r}; there are {names}")
    return chosen


def _aware_attacks(threat: Threat, iterations: int, objective: Aware) -> dict[str, Attack]:
    """By name: with a penalty gradients from a random start, without one from image and search."""
    pixels = isinstance(threat, L0)
    last: PGD | APGD = PGD(iterations, 2500.0) if pixels else APGD(iterations)
    if not last.supports(threat):
        last = PGD(iterations, rates_for(threat)[1])
    kind = type(last).__name__
    if objective.penalty > 0:
        return {f"{kind}, penalty {objective.penalty:g}": replace(last, start="random")}
    attacks: dict[str, Attack] = {
        f"PGD zero {rate:g}": PGD(iterations, rate) for rate in rates_for(threat)
    }
    if not isinstance(threat, Frame):
        attacks[f"Geometry, then {kind}"] = Refined(Geometry(2 * iterations), last)
    return attacks


def _unfitting(name: str, shape: Shape) -> str:
    fitting = [other for other, suite in SUITES.items() if suite.shape == shape]
    instead = (
        f"use {' or '.join(fitting)}"
        if fitting
        else "say which threats fit yours: --threat Linf:8/255 --threat L2:1 --threat Frame:3"
    )
    sizes = ("x".join(map(str, one)) for one in (SUITES[name].shape, shape))
    return "suite {} is made for images of {}, not of {}; {}".format(name, *sizes, instead)


def _name(attack: Attack, attacks: Sequence[Attack]) -> str:
    """The class of an attack or its own name; numbered if several share it."""
    own = _own_name(attack)
    same = [one for one in attacks if _own_name(one) == own]
    if len(same) == 1:
        return own
    return f"{own} {1 + [one is attack for one in same].index(True)}"


def _own_name(attack: Attack) -> str:
    named = External | Foolbox | AutoAttack | EveryTarget
    name = attack.name if isinstance(attack, named) else ""
    return name or type(attack).__name__
