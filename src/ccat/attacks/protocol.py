"""What an attack is."""

from typing import Protocol, runtime_checkable

from torch import Generator

from ccat.attacks.found import Found
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.threats import Threat


@runtime_checkable
class Attack(Protocol):
    """A search for the perturbations that score highest, usually a frozen dataclass.

    To write one, inherit from Attack and give it `__call__` and `cost`, and `supports` if it is
    made for some threats only.
    """

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        """Return the best perturbations found; everything random comes from the generator."""

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        """Return the forwards and backwards per image of shape (C, H, W), at most.

        A search costs less where examples can no longer change.
        """

    def supports(self, threat: Threat) -> bool:
        """Return True if the attack is made for this threat; by default it is for every one."""
        return True
