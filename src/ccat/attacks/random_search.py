"""Attacks that only look at scores: random points, random coordinates, other images.

Each keeps what is better, example by example.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, improve
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.checks import require_count
from ccat.threats import L0


@dataclass(frozen=True)
class Random(Attack):
    """The image itself, and `iterations` points of the distribution of random starts."""

    iterations: int

    def __post_init__(self) -> None:
        require_count("Random: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        problem = problem.search()
        found = _unmoved(problem)
        for _ in range(self.iterations):
            found = improve(found, problem.evaluate(problem.threat.sample(problem.x, generator)))
            if problem.finished:
                break
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + self.iterations)


@dataclass(frozen=True)
class Simple(Attack):
    """Random coordinates one at a time (Narodytska & Kasiviswanathan 2017).

    In each of `iterations` a random coordinate moves by ±ε, in L0 a random pixel becomes 0 or 1;
    what is better stays. In L0, where ε pixels are changed already, the new one takes the place of
    a random one of them: the projection would drop whichever is changed least, mostly the new one.
    """

    iterations: int

    def __post_init__(self) -> None:
        require_count("Simple: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        problem = problem.search()
        found = _unmoved(problem)
        for _ in range(self.iterations):
            place = _place(problem, generator)
            now = (
                _freed(problem.threat, found.delta, place, generator)
                if isinstance(problem.threat, L0)
                else found.delta
            )
            for moved in [self._moved(problem, now, place, up) for up in (True, False)]:
                found = improve(found, problem.evaluate(moved))
            if problem.finished:
                break
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + 2 * self.iterations)

    def _moved(self, problem: Problem, delta: Tensor, place: Tensor, up: bool) -> Tensor:
        """Return δ with one entry moved, in L0 the entries of one pixel."""
        if isinstance(problem.threat, L0):
            return _with_entries(delta, place, float(up) - _entries(problem.x, place))
        return _with_entries(
            delta, place, _entries(delta, place) + problem.threat.epsilon * (1 if up else -1)
        )


@dataclass(frozen=True)
class Geometry(Attack):
    """Steps towards random images of the problem's pool (Khoury & Hadfield-Menell 2018).

    Each of `iterations` steps begins at the image and goes as far as the threat allows.
    """

    iterations: int

    def __post_init__(self) -> None:
        require_count("Geometry: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        require_pool(problem, "Geometry")
        problem = problem.search()
        found = _unmoved(problem)
        for _ in range(self.iterations):
            towards = drawn_from_pool(problem, generator)
            found = improve(found, problem.evaluate(towards - problem.x))
            if problem.finished:
                break
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + self.iterations)


def require_pool(problem: Problem, name: str) -> None:
    """Raise ValueError, which begins with `name`, unless the problem has a pool of such images."""
    pool = problem.pool
    if pool is None or len(pool) == 0 or pool.shape[1:] != problem.x.shape[1:]:
        shape = None if pool is None else tuple(pool.shape)
        raise ValueError(
            f"{name} needs a pool of other images of shape {tuple(problem.x.shape[1:])} in the "
            f"problem, not {shape}"
        )


def drawn_from_pool(problem: Problem, generator: Generator) -> Tensor:
    """Return a random image of the pool for each example, (N, C, H, W)."""
    assert problem.pool is not None
    count = (len(problem.x),)
    rows = torch.randint(len(problem.pool), count, generator=generator, device=generator.device).to(
        problem.pool.device
    )
    return problem.pool[rows].to(problem.x)


def _unmoved(problem: Problem) -> Found:
    return problem.evaluate(torch.zeros_like(problem.x))


def _place(problem: Problem, generator: Generator) -> Tensor:
    """Return a random place in each image, as indices into its entries.

    It is one entry (N, 1), or all channels of a pixel (N, C) where the threat counts pixels.
    """
    x = problem.x
    pixels = isinstance(problem.threat, L0) and problem.threat.per == "pixel"
    count = x[0, 0].numel() if pixels else x[0].numel()
    place = torch.randint(count, (len(x), 1), generator=generator, device=generator.device).to(
        x.device
    )
    return place + count * torch.arange(x.shape[1], device=x.device) if pixels else place


def _entries(images: Tensor, place: Tensor) -> Tensor:
    return images.flatten(1).gather(1, place)


def _with_entries(images: Tensor, place: Tensor, values: Tensor) -> Tensor:
    return images.flatten(1).scatter(1, place, values).view_as(images)


def _freed(threat: L0, delta: Tensor, place: Tensor, generator: Generator) -> Tensor:
    """Take one random change back where there are ε of them and `place` is not one of them."""
    changed = delta.any(1).flatten(1) if threat.per == "pixel" else delta.flatten(1).bool()
    others = changed.scatter(1, place[:, :1], False)
    full = others.sum(1, keepdim=True) >= threat.epsilon
    luck = torch.rand(others.shape, generator=generator, device=generator.device).to(delta.device)
    back = (luck + 1).mul_(others).argmax(1, keepdim=True)
    if threat.per == "pixel":
        back = back + others.shape[1] * torch.arange(delta.shape[1], device=delta.device)
    return _with_entries(delta, back, _entries(delta, back).where(~full, 0))
