"""One attack goes on from what another found: searches find the right region, gradients the best point in it."""

from dataclasses import dataclass

from torch import Generator

from ccat.attacks.apgd import APGD
from ccat.attacks.pgd import PGD
from ccat.attacks.problem import Attack, Counts, Found, Problem, best


@dataclass(frozen=True)
class Refined:
    """The best point of the first attack is where the second starts, whatever start it would have chosen itself."""

    first: Attack
    then: PGD | APGD

    def __post_init__(self) -> None:
        if not self.threats:
            raise ValueError(f"Refined: no threat is one that both {type(self.first).__name__} and {type(self.then).__name__} are made for")

    @property
    def threats(self) -> tuple[type, ...]:
        """Those that both attacks are made for."""
        kinds = [kinds for attack in (self.first, self.then) if (kinds := getattr(attack, "threats", None)) is not None]
        return tuple(kind for kind in kinds[0] if all(kind in others for others in kinds)) if kinds else (object,)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        found = self.first(problem, generator)
        return best(found, self.then.from_start(problem, found.delta, generator))

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        first, then = self.first.cost(shape), self.then.cost(shape)
        return Counts(first.forwards + then.forwards, first.backwards + then.backwards)
