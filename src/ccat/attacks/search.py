"""Attacks that only look at scores: random points, random coordinates, other images. Each keeps what is better, example by example."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.problem import Counts, Found, Problem, best
from ccat.checks import require_count
from ccat.threats import L0


@dataclass(frozen=True)
class Random:
    """`iterations` points of the distribution that random starts are drawn from; the image itself is the first point."""

    iterations: int

    def __post_init__(self) -> None:
        require_count("Random: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        found = _unmoved(problem)
        for _ in range(self.iterations):
            found = best(found, problem.at(problem.threat.sample(problem.x, generator)))
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + self.iterations)


@dataclass(frozen=True)
class Simple:
    """Narodytska & Kasiviswanathan 2017: a random coordinate moves by ±ε, in L0 a random pixel becomes 0 or 1; what is better stays.

    In L0, where ε pixels are changed already, the new one takes the place of a random one of them: the projection would drop whichever
    is changed least, mostly the new one.
    """

    iterations: int

    def __post_init__(self) -> None:
        require_count("Simple: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        found = _unmoved(problem)
        for _ in range(self.iterations):
            one = _one_entry(problem, generator)
            now = _freed(problem.threat, found.delta, one, generator) if isinstance(problem.threat, L0) else found.delta
            for up in (True, False):
                found = best(found, problem.at(torch.where(one, self._moved(problem, now, up), now)))
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + 2 * self.iterations)

    def _moved(self, problem: Problem, delta: Tensor, up: bool) -> Tensor:
        """What every entry would become; only one of them does."""
        if isinstance(problem.threat, L0):
            return float(up) - problem.x
        return delta + problem.threat.epsilon * (1 if up else -1)


@dataclass(frozen=True)
class Geometry:
    """Khoury & Hadfield-Menell 2018: towards `iterations` random images of the problem's pool, as far as the threat allows."""

    iterations: int

    def __post_init__(self) -> None:
        require_count("Geometry: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if problem.pool is None or len(problem.pool) == 0 or problem.pool.shape[1:] != problem.x.shape[1:]:
            shape = None if problem.pool is None else tuple(problem.pool.shape)
            raise ValueError(f"Geometry needs a pool of other images of shape {tuple(problem.x.shape[1:])} in the problem, not {shape}")
        found = _unmoved(problem)
        for _ in range(self.iterations):
            rows = torch.randint(len(problem.pool), (len(problem.x),), generator=generator, device=generator.device)
            found = best(found, problem.at(problem.pool[rows.to(problem.pool.device)].to(problem.x) - problem.x))
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + self.iterations)


def _unmoved(problem: Problem) -> Found:
    return problem.at(torch.zeros_like(problem.x))


def _one_entry(problem: Problem, generator: Generator) -> Tensor:
    """A mask with one random entry per example; in L0 by pixels, all channels of one."""
    pixels = isinstance(problem.threat, L0) and problem.threat.per == "pixel"
    x = problem.x[:, :1] if pixels else problem.x
    place = torch.randint(x[0].numel(), (len(x), 1), generator=generator, device=generator.device).to(x.device)
    mask = torch.zeros_like(x, dtype=torch.bool).flatten(1).scatter(1, place, True).view_as(x)
    return mask.expand_as(problem.x)


def _freed(threat: L0, delta: Tensor, one: Tensor, generator: Generator) -> Tensor:
    """With one random change taken back where there are ε of them and another place is to be changed too."""
    places = (delta != 0).any(1, keepdim=True) if threat.per == "pixel" else delta != 0
    new = one[:, :1] if threat.per == "pixel" else one
    full = ((places & ~new).flatten(1).sum(1) >= threat.epsilon)[:, None]
    luck = torch.rand(places.flatten(1).shape, generator=generator, device=generator.device).to(delta.device)
    chosen = (luck + 1) * (places & ~new).flatten(1)
    back = torch.zeros_like(chosen, dtype=torch.bool).scatter(1, chosen.argmax(1, keepdim=True), True) & full
    return torch.where(back.view_as(places), 0, delta)
