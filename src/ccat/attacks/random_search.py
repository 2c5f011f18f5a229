"""Attacks that only look at scores: random points, random coordinates, other images.

Each keeps what is better, example by example.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, improve
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.checks import require_count
from ccat.threats import L0
from ccat.threats.geometry import uniform

_EVERY = 10  # passes between two looks at which examples go on
AT_ONCE = 100  # images that go through a model in about the time that few of them take


@dataclass(frozen=True)
class Random(Attack):
    """The image itself, and `iterations` points of the distribution of random starts."""

    iterations: int

    def __post_init__(self) -> None:
        require_count("Random: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        return _best_of(
            problem, self.iterations, lambda: problem.threat.sample(problem.x, generator)
        )

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
        found, going = _unmoved(problem), Going(problem, 2)
        for _ in range(self.iterations):
            place = random_place(problem, generator)
            luck = random_luck(problem, generator) if isinstance(problem.threat, L0) else None
            if going.over(found):
                break
            pairs = going.rows.repeat(2)
            now, place = found.delta.index_select(0, pairs), place.index_select(0, pairs)
            if luck is not None:
                assert isinstance(problem.threat, L0)
                now = freed_for(problem.threat, now, place, luck.index_select(0, pairs))
            self._move(going.part, now, place)
            trial = going.part.evaluate(now)
            found = going.improve(found, trial)
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + 2 * self.iterations)

    def _move(self, pairs: Problem, delta: Tensor, place: Tensor) -> None:
        """Move one entry of each δ, up in the first half of (2M, C, H, W) and down in the other.

        In L0 it is the entries of one pixel that move.
        """
        entries = delta.flatten(1)  # a view
        up = torch.zeros_like(entries[:, :1])
        up[: len(delta) // 2] = 1
        if isinstance(pairs.threat, L0):
            entries.scatter_(1, place, up - pairs.x.flatten(1).gather(1, place))
        else:
            entries.scatter_add_(1, place, pairs.threat.epsilon * (2 * up - 1))


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
        return _best_of(
            problem, self.iterations, lambda: drawn_from_pool(problem, generator) - problem.x
        )

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


class Going:
    """The examples that a search still goes on with, each of them several times in one pass.

    They are looked at in the first call of `over` and in every tenth after it. Each is taken
    `copies` times, by default as often as fits into a pass of 100 images, but `least` times.
    """

    def __init__(self, problem: Problem, copies: int | None = None, least: int = 1) -> None:
        self.problem, self.wanted, self.least = problem, copies, least
        self.part, self.copies, self.calls = problem, 0, 0
        self.rows = torch.arange(0, device=problem.x.device)

    def over(self, found: Found) -> bool:
        """Return True if no example goes on.

        Otherwise `rows` (M,) do, and `part` is the problem of all of them, repeated `copies` times.
        """
        if self.calls % _EVERY == 0:
            rows = self.problem.unfinished(found)
            if len(rows) != len(self.rows):  # what is finished stays so
                fitting = max(self.least, AT_ONCE // max(1, len(rows)))
                self.rows, self.copies = rows, self.wanted or fitting
                self.part = self.repeated(self.copies)
        self.calls += 1
        return len(self.rows) == 0

    def repeated(self, copies: int) -> Problem:
        """Return the problem of all rows, repeated so many times."""
        return self.problem.take(self.rows.repeat(copies))

    def improve(self, found: Found, trial: Found) -> Found:
        """Take over what is better of a trial of `part`, in place, the first copies first."""
        count = len(trial.value) // len(self.rows)
        for delta, value in zip(trial.delta.chunk(count), trial.value.chunk(count), strict=True):
            found = improve(found, Found(delta, value), self.rows)
        return found


def _best_of(problem: Problem, count: int, draw: Callable[[], Tensor]) -> Found:
    """Return the best of the image and of `count` perturbations that are drawn for all examples.

    Where few examples go on, several perturbations of each are scored in one pass.
    """
    found, going, done = _unmoved(problem), Going(problem), 0
    while done < count and not going.over(found):
        copies = min(going.copies, count - done)
        drawn = torch.cat([draw().index_select(0, going.rows) for _ in range(copies)])
        part = going.part if copies == going.copies else going.repeated(copies)
        found = going.improve(found, part.evaluate(drawn))
        done += copies
    return found


def _unmoved(problem: Problem) -> Found:
    return problem.evaluate(torch.zeros_like(problem.x))


def random_place(problem: Problem, generator: Generator) -> Tensor:
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


def random_luck(problem: Problem, generator: Generator) -> Tensor:
    """Return a number of U(0,1) per example, (N, 1)."""
    return uniform((len(problem.x), 1), problem.x, generator)


def freed_for(threat: L0, delta: Tensor, place: Tensor, luck: Tensor) -> Tensor:
    """Take one random change back where there are ε of them and `place` is not one of them."""
    changed = delta.any(1).flatten(1) if threat.per == "pixel" else delta.flatten(1).bool()
    others = changed.scatter(1, place[:, :1], False)
    count = others.cumsum(1)
    full = count[:, -1:] >= threat.epsilon
    back = torch.searchsorted(count, (luck * count[:, -1:]).long() + 1).clamp_max(
        count.shape[1] - 1
    )
    if threat.per == "pixel":
        back = back + others.shape[1] * torch.arange(delta.shape[1], device=delta.device)
    entries = delta.flatten(1)
    return entries.scatter(1, back, entries.gather(1, back) * ~full).view_as(delta)
