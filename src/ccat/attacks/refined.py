"""One attack that goes on from what another found.

Searches find the right region, gradients the best point in it.
"""

from dataclasses import dataclass

from torch import Generator

from ccat import codec
from ccat.attacks.apgd import APGD
from ccat.attacks.found import Found, best
from ccat.attacks.passes import Counts
from ccat.attacks.pgd import PGD
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.threats import L0, L1, L2, Frame, Linf, Threat, label

_EXAMPLES: tuple[Threat, ...] = (Linf(0.1), L2(1.0), L1(1.0), L0(1), L0(1, per="entry"), Frame(1))


@dataclass(frozen=True)
class Refined(Attack):
    """Two attacks in a row: the second starts from the best point of the first.

    This replaces the start that the second one would have chosen itself. It is made for the threats
    that both attacks are made for.
    """

    first: Attack
    then: PGD | APGD

    def __post_init__(self) -> None:
        if not codec.is_resolved(self):
            return
        known = [
            [one for one in _EXAMPLES if attack.supports(one)] for attack in (self.first, self.then)
        ]
        if all(known) and not any(one in known[1] for one in known[0]):
            raise ValueError(
                f"Refined: there is no threat that both {type(self.first).__name__} and "
                f"{type(self.then).__name__} are made for"
            )

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not self.then.supports(problem.threat):  # before the first one has run in vain
            raise ValueError(
                f"Refined: {type(self.then).__name__} is not made for {label(problem.threat)}"
            )
        found = self.first(problem, generator)
        return best(found, self.then.from_start(problem, found.delta, generator))

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        first, then = self.first.cost(shape), self.then.cost(shape)
        return Counts(first.forwards + then.forwards, first.backwards + then.backwards)

    def supports(self, threat: Threat) -> bool:
        return self.first.supports(threat) and self.then.supports(threat)
