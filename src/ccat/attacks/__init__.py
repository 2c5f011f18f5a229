"""Attacks: searches for the perturbation of each image that scores highest within a threat.

A `Problem` says what is attacked; an attack is a frozen dataclass of its settings, called with a
problem and a generator. It returns the best perturbations it found and what they score:

    problem = Problem.of(model, x, y, Linf(8 / 255), other_class_confidence)
    found = PGD(40, rate=0.01)(problem, torch.Generator().manual_seed(0))
    x_adv = problem.images(found)

`ATTACKS` lists ccat's attacks by name; `External`, `Foolbox` and `AutoAttack` are those of others.
To write one of your own, inherit from `Attack`.
"""

from ccat.attacks.accepted import EveryTarget, accepted_as
from ccat.attacks.apgd import APGD
from ccat.attacks.beam import Beam
from ccat.attacks.border import Border
from ccat.attacks.corner_search import CornerSearch
from ccat.attacks.exchange import Exchange
from ccat.attacks.external import AutoAttack, External, Foolbox, Given, checked_delta
from ccat.attacks.found import Found, best
from ccat.attacks.multi_steepest import multi_steepest
from ccat.attacks.passes import Counts
from ccat.attacks.pgd import PGD, Estimated
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import Geometry, Random, Simple
from ccat.attacks.refined import Refined
from ccat.attacks.registry import ATTACKS
from ccat.attacks.scores import frozen
from ccat.attacks.shrinking import Shrinking
from ccat.attacks.square import Square
from ccat.attacks.windows import Windows

__all__ = [
    "APGD",
    "ATTACKS",
    "PGD",
    "Attack",
    "AutoAttack",
    "Beam",
    "Border",
    "CornerSearch",
    "Counts",
    "Estimated",
    "EveryTarget",
    "Exchange",
    "External",
    "Foolbox",
    "Found",
    "Geometry",
    "Given",
    "Problem",
    "Random",
    "Refined",
    "Shrinking",
    "Simple",
    "Square",
    "Windows",
    "accepted_as",
    "best",
    "checked_delta",
    "frozen",
    "multi_steepest",
]
