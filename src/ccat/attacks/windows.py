"""Frames for every class: random windows towards each, of which ever fewer go on, and climb.

What makes one image a 3 often makes others a 3: windows copy from frames of other images, too.

Shapes: n examples with K points each; delta (n·K, C, H, W), value and target (n·K,), ordered by
example; owner, the example of each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Self

import torch
from torch import Generator, Tensor

from ccat.attacks.beam import Rounds, climbed_from, in_groups
from ccat.attacks.border import random_window
from ccat.attacks.found import Found, best, improve, improve_rows
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.checks import require_count, require_number
from ccat.threats import Frame, Threat

_SIDE = 0.6  # of the first windows at most, as a share of the image's smaller side; the last are 1
_EVERY = 10  # windows between two looks at which examples need no more


@dataclass(frozen=True)
class Windows(Attack):
    """The windows of `Border` towards several classes at once, of which the best go on.

    Each of `rounds` is how many points of every example go on, and how many windows each of them
    tries, ever smaller ones. The points of the first round begin at the image and aim at the
    likeliest classes in turn. From the second round on the share `crossed` of the windows is copied
    from points that aim at the same class, of any example, as they were before the round; others
    have one colour. At most `climbing` points climb for `iterations` after a round, at first with
    gradients smoothed by `smooth`. It is made for Frame.
    """

    rounds: Rounds = ((18, 60), (18, 80), (9, 200), (5, 300), (3, 500), (1, 600))
    iterations: int = 50
    smooth: float = 0.1
    crossed: float = 0.8
    climbing: int = 9

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", tuple((int(n), int(t)) for n, t in self.rounds))
        for count, search in self.rounds:
            require_count("Windows: points that go on", count)
            require_count("Windows: windows", search)
        counts = [count for count, _ in self.rounds]
        if not counts or any(after > count for count, after in pairwise(counts)):
            raise ValueError(f"Windows: rounds must be one or more, of ever fewer points: {counts}")
        require_count("Windows: iterations", self.iterations)
        require_number("Windows: smooth", self.smooth, 0, low_too=True)
        require_number("Windows: crossed", self.crossed, 0, 1, low_too=True, high_too=True)
        require_count("Windows: points that climb", self.climbing)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not self.supports(problem.threat):
            raise ValueError(f"Windows is made for Frame, not for {type(problem.threat).__name__}")
        found = problem.evaluate(torch.zeros_like(problem.x))
        if len(problem.unfinished(found)) == 0:
            return found
        points = _Points.at_the_image(problem, self.rounds[0][0])
        border, windows = _border(problem), sum(search for _, search in self.rounds)
        largest = _SIDE * min(border.shape)
        sides = [max(1, round(largest * (1 - n / windows))) for n in range(windows)]
        crossed = 0.0  # there is nothing to copy in the first round
        for (count, search), after in zip(self.rounds, self._after(), strict=True):
            drawn = _drawn(problem.x, search, count, generator)
            points = points.of_examples(found.value[points.rows] < problem.most)
            if len(points.rows) == 0:
                break
            drawn = drawn.index_select(1, points.rows).flatten(1, 2)
            here, sides = sides[:search], sides[search:]
            others = _Others.of(points, crossed)
            points = points.moved(partial(_searched, border, here, drawn, others)).halved(after)
            if after <= self.climbing:
                points = points.moved(partial(_climbed, self.iterations, self.smooth))
            crossed = self.crossed
            found = improve_rows(found, points.rows, points.halved(1).scored())
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        searches = sum(count * (search + 1) for count, search in self.rounds)
        climbing = sum(count for count in self._after() if count <= self.climbing)
        again = 2 * climbing + len(self.rounds)  # their last points, and their best
        backwards = climbing * self.iterations
        first = 2 + self.rounds[0][0]  # the image, what is likely at it, and for every class
        return Counts(first + searches + backwards + again, backwards)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Frame)

    def _after(self) -> list[int]:
        """Return how many points go on after each round; after the last all do."""
        return [count for count, _ in (*self.rounds[1:], self.rounds[-1])]


Move = Callable[[Problem, Found, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class _Points:
    """As many points of each of the examples `rows` (n,) of a problem, and what they score.

    `target` (n·K,) are the classes they aim at; None if the score knows no classes.
    """

    problem: Problem
    rows: Tensor
    target: Tensor | None
    found: Found

    @classmethod
    def at_the_image(cls, problem: Problem, count: int) -> Self:
        """Return `count` points of every example, which aim at its likeliest classes in turn."""
        rows = torch.arange(len(problem.x), device=problem.x.device)
        allowed, target = problem.targets(count), None
        if allowed is not None:
            classes = allowed.int().sort(dim=1, descending=True, stable=True).indices
            turn = torch.arange(count, device=rows.device) % allowed.sum(1, keepdim=True)
            target = classes.gather(1, turn).flatten()
        delta = torch.zeros_like(problem.x).repeat_interleave(count, 0)
        points = cls(problem, rows, target, Found(delta, delta[:, 0, 0, 0]))
        return replace(points, found=points.aim.evaluate(delta))

    @property
    def count(self) -> int:
        """How many points each example has."""
        return len(self.found.value) // max(1, len(self.rows))

    @cached_property
    def aim(self) -> Problem:
        """The problem of every point, with its class as the target."""
        part = self.problem.take(self.rows.repeat_interleave(self.count))
        return part if self.target is None else part.towards(self.target)

    def of_examples(self, going: Tensor) -> Self:
        """Return the points of the examples for which the mask (n,) is true."""
        chosen = going.repeat_interleave(self.count).nonzero()[:, 0]
        return replace(self._chosen(chosen), rows=self.rows[going])

    def halved(self, count: int) -> Self:
        """Return the `count` best points of each example, the best first."""
        value = self.found.value.view(-1, self.count)
        order = value.sort(dim=1, descending=True, stable=True).indices[:, :count]
        first = torch.arange(0, value.numel(), self.count, device=order.device)
        return self._chosen((first[:, None] + order).flatten())

    def moved(self, move: Move) -> Self:
        """Move the points, those of an example in one group, and take over what is better."""
        owner = torch.arange(len(self.rows), device=self.rows.device)
        owner = owner.repeat_interleave(self.count)
        moves = [
            partial(move, self.aim.take(some), _of(self.found, some), owner[some], some)
            for some in in_groups(owner)
        ]
        delta = torch.cat(self.problem.passes.side_by_side(moves))
        return replace(self, found=best(self.found, self.aim.evaluate(delta)))

    def scored(self) -> Found:
        """Return the results of the problem itself, of one point for each example."""
        return self.problem.take(self.rows).evaluate(self.found.delta)

    def _chosen(self, points: Tensor) -> Self:
        target = None if self.target is None else self.target[points]
        return replace(self, target=target, found=_of(self.found, points))


@dataclass(frozen=True)
class _Others:
    """The images of points, from which windows are copied: those of one class follow each other.

    Of point i they are `first`[i] to `first`[i] + `count`[i] − 1; `share` of the windows copy.
    """

    images: Tensor
    first: Tensor
    count: Tensor
    share: float

    @classmethod
    def of(cls, points: _Points, share: float) -> Self:
        """Return the points as they are now."""
        images = points.aim.images(points.found)
        target = points.target
        if target is None:  # all are of one kind
            target = torch.zeros_like(points.found.value, dtype=torch.long)
        sizes = target.bincount()
        first = sizes.cumsum(0) - sizes
        images = images.index_select(0, target.argsort(stable=True))
        return cls(images, first[target], sizes[target], share)

    def instead_of(self, colour: Tensor, points: Tensor, luck: Tensor) -> Tensor:
        """Return for some points (M,) an image of their class, or else the colour (M, C, 1, 1).

        `luck` (M, 2) decides which.
        """
        if self.share == 0:
            return colour
        place = (luck[:, 1] * self.count[points]).long().minimum(self.count[points] - 1)
        image = self.images.index_select(0, self.first[points] + place)
        return colour.lerp(image, (luck[:, :1, None, None] < self.share).to(colour))


def _of(found: Found, rows: Tensor) -> Found:
    return Found(found.delta.index_select(0, rows), found.value.index_select(0, rows))


def _climbed(
    iterations: int, smooth: float, problem: Problem, found: Found, owner: Tensor, _: Tensor
) -> Tensor:
    """Return the best points that gradient ascent reaches."""
    return climbed_from(problem, found.delta, owner, iterations, smooth)


def _searched(
    border: Tensor,
    sides: Sequence[int],
    drawn: Tensor,
    others: _Others,
    problem: Problem,
    found: Found,
    owner: Tensor,
    points: Tensor,
) -> Tensor:
    """Return the best points that windows reach, one window of each of `sides` after the other.

    As soon as one point of an example scores enough, the others of that example rest.
    """
    drawn = drawn.index_select(1, points)
    for number, side in enumerate(sides):
        if number % _EVERY == 0:
            enough = owner[found.value >= problem.most]
            rows = (~torch.isin(owner, enough)).nonzero()[:, 0]
            if len(rows) == 0:
                break
            part = problem.take(rows)
        luck = drawn[number].index_select(0, rows)
        window = random_window(luck[:, :5], border, side)
        colour = (luck[:, 7:, None, None] < 0.5).to(part.x)
        image = others.instead_of(colour, points[rows], luck[:, 5:7])
        now = found.delta.index_select(0, rows)
        found = improve(found, part.evaluate(now.lerp(image - part.x, window)), rows)
    return found.delta


def _drawn(x: Tensor, search: int, count: int, generator: Generator) -> Tensor:
    """Return U(0,1) for windows of `count` points: seven and a colour (search, N, K, 7 + C)."""
    shape = (search, len(x), count, 7 + x.shape[1])
    return torch.rand(shape, generator=generator, device=generator.device).to(x)


def _border(problem: Problem) -> Tensor:
    """Return the mask (H, W) of the pixels that may change."""
    assert isinstance(problem.threat, Frame)
    low, high = problem.threat.bounds(problem.x[:1])
    return (high > low)[0, 0]
