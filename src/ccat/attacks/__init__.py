"""Attacks: each a frozen dataclass, called with a problem and a generator, giving the best perturbations it found."""

from ccat.attacks.apgd import APGD
from ccat.attacks.corner import CornerSearch
from ccat.attacks.pgd import PGD, Estimated
from ccat.attacks.problem import Attack, Counts, Found, Problem, best
from ccat.attacks.refined import Refined
from ccat.attacks.search import Geometry, Random, Simple
from ccat.attacks.square import Square
from ccat.attacks.steepest import multi_steepest

__all__ = [
    "APGD",
    "PGD",
    "Attack",
    "CornerSearch",
    "Counts",
    "Estimated",
    "Found",
    "Geometry",
    "Problem",
    "Random",
    "Refined",
    "Simple",
    "Square",
    "best",
    "multi_steepest",
]
