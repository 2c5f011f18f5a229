"""One attack goes on from what another found: searches find the right region, gradients the best point in it."""

from dataclasses import dataclass

from torch import Generator

from ccat.attacks.pgd import PGD
from ccat.attacks.problem import Attack, Counts, Found, Problem, best


@dataclass(frozen=True)
class Refined:
    """The best point of the first attack is where PGD starts, whatever start it would have chosen itself."""

    first: Attack
    then: PGD

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        found = self.first(problem, generator)
        return best(found, self.then.from_start(problem, found.delta, generator))

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        first, then = self.first.cost(shape), self.then.cost(shape)
        return Counts(first.forwards + then.forwards, first.backwards + then.backwards)
