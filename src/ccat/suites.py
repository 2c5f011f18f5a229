"""Suites: named tables of attacks."""

from collections.abc import Sequence
from typing import Literal

from ccat.attacks import PGD, CornerSearch, Estimated, Geometry, Random, Refined, Simple, Square
from ccat.objectives import any_class_confidence, cross_entropy, other_class_confidence
from ccat.recipes import Case
from ccat.threats import L0, L1, L2, Frame, Linf, Threat

_STARTS: tuple[tuple[Literal["zero", "random"], int], ...] = (("zero", 1), ("random", 10))  # with how many restarts, in the paper


def _pgd_cases(threat: Threat, rates: Sequence[float], iterations: int, source: Literal["test", "noise"] = "test") -> list[Case]:
    """PGD-Conf from zero and random starts at several rates, and PGD-CE: no single one is strong against every model."""
    confidence = other_class_confidence if source == "test" else any_class_confidence
    cases = [
        Case(f"PGD-Conf {start} {rate:g}", "PGD-Conf", threat, PGD(iterations, rate, start=start), confidence, source=source)
        for rate in rates
        for start in ("zero", "random")
    ]
    if source == "test":
        attack = PGD(iterations, max(rates), backtracking=1.25, start="random")
        cases.append(Case(f"PGD-CE random {max(rates):g}", "PGD-CE", threat, attack, cross_entropy))
    return cases


def _search_cases(threat: Threat, simple: int, rate: float) -> list[Case]:
    """Attacks that do not begin with gradients. Where these mislead, they find what PGD does not (docs/ATTACKS.md)."""
    refined = Refined(Geometry(1000), PGD(100, rate))
    cases = [
        Case("Geometry, then PGD-Conf", "Geometry + PGD-Conf", threat, refined, other_class_confidence),
        Case("Simple", "Simple", threat, Simple(simple), other_class_confidence),
    ]
    if isinstance(threat, L0):
        cases.append(Case("Corner Search", "Corner Search", threat, CornerSearch(200), other_class_confidence))
    return cases


def _paper_rate(threat: Threat, divisor: float) -> float:
    """Scaled with ε, so that a zero start reaches the boundary well within T; a step in L0 crosses the box."""
    if isinstance(threat, L0):
        return 2500.0
    return 0.1 if isinstance(threat, Frame) else threat.epsilon / divisor


def _paper_white_box(threat: Threat) -> list[Case]:
    rate = _paper_rate(threat, 30)
    conf = [
        Case(f"PGD-Conf {start}", "PGD-Conf", threat, PGD(1000, rate, start=start), other_class_confidence, restarts)
        for start, restarts in _STARTS
    ]
    attack = PGD(200, _paper_rate(threat, 6), backtracking=1.25, start="random")
    return [*conf, Case("PGD-CE random", "PGD-CE", threat, attack, cross_entropy, restarts=50)]


def _paper_black_box(threat: Threat) -> list[Case]:
    rate = _paper_rate(threat, 30)
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
        Case(f"PGD-Conf {start}", "PGD-Conf", seen, PGD(1000, _paper_rate(seen, 30), start=start), any_class_confidence, restarts, "noise")
        for start, restarts in _STARTS
    ]
    balls = (seen, larger, *others)
    return (*(case for ball in balls for case in _paper_white_box(ball) + _paper_black_box(ball)), *_paper_white_box(frame), *distal)


def image_shape(suite: str) -> tuple[int, int, int]:
    """Of the images that a suite is made for."""
    return (3, 32, 32) if suite in ("paper-svhn", "paper-cifar10") else (1, 28, 28)


SUITES: dict[str, tuple[Case, ...]] = {
    "paper-mnist": _paper(Linf(0.3), Linf(0.4), L2(3.0), L1(18.0), L0(15), frame=Frame(2)),
    "paper-svhn": _paper(Linf(0.03), Linf(0.06), L2(2.0), L1(24.0), L0(10), frame=Frame(3)),
    "paper-cifar10": _paper(Linf(0.03), Linf(0.06), L2(2.0), L1(24.0), L0(10), frame=Frame(3)),
    "demo": (
        *_pgd_cases(Linf(0.3), (0.01, 0.05), 100),
        *_search_cases(Linf(0.3), 500, 0.01),
        *_pgd_cases(Linf(0.4), (0.01, 0.05), 100),
        *_search_cases(Linf(0.4), 500, 0.01),
        *_pgd_cases(L2(3.0), (0.2, 0.8), 100),
        *_search_cases(L2(3.0), 500, 0.2),
        *_pgd_cases(Frame(2), (0.1, 0.5), 100),
        *_pgd_cases(Linf(0.3), (0.01, 0.05), 100, source="noise"),
    ),
    "quick": (
        *_pgd_cases(Linf(0.3), (0.01, 0.05), 200),
        *_search_cases(Linf(0.3), 1000, 0.01),
        *_pgd_cases(Linf(0.4), (0.01, 0.05), 200),
        *_search_cases(Linf(0.4), 1000, 0.01),
        *_pgd_cases(L2(3.0), (0.2, 0.8), 200),
        *_search_cases(L2(3.0), 1000, 0.2),
        *_pgd_cases(L1(18.0), (1.0, 8.0), 200),
        *_search_cases(L1(18.0), 1000, 2.0),
        *_pgd_cases(L0(15), (250.0, 2500.0), 200),
        *_search_cases(L0(15), 1000, 2500.0),
        *_pgd_cases(Frame(2), (0.1, 0.5), 200),
        *_pgd_cases(Linf(0.3), (0.01, 0.05), 200, source="noise"),
    ),
}
