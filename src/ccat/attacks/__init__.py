"""Attacks: each a frozen dataclass, called with a problem and a generator, giving the best perturbations it found."""

from ccat.attacks.pgd import PGD
from ccat.attacks.problem import Attack, Found, Problem, best

__all__ = ["PGD", "Attack", "Found", "Problem", "best"]
