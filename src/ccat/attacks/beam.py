"""A beam of starts: many are scored, the better ones climb, and ever fewer climb ever longer.

Successive halving spends passes where they pay. The first climb has smoothed gradients, which do
not die where the model is unsure. Nothing is random.

Shapes: candidates M = N × count, ordered by example; owner (M,), the example of each.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, best, improve_rows
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import AT_ONCE, Going, require_pool
from ccat.checks import require_count, require_number
from ccat.threats import L1, L2, Frame, Linf, Threat

Rounds = tuple[tuple[int, int], ...]
_MOMENTUM = 0.75
_SMOOTH_STEP, _FIRST_STEP, _LAST_STEP = 0.15, 0.3, 0.015  # as shares of ε, in a frame of 1
_SMOOTH = 0.7  # the share of a climb in which gradients are smoothed, ever less, to a hundredth
_EVERY = 10  # steps between two looks at which examples need no more


@dataclass(frozen=True)
class Beam(Attack):
    """Gradient ascent from several starts at once, of which the best go on.

    Starts are the points of the ball nearest to `nearest` images of the pool, those nearest to the
    image that have another label, or the image itself with every class as a target. Each of
    `rounds` is how many starts of each example go on, and for how many iterations; the gradients of
    the first round are smoothed by `smooth`. It is made for Linf, L2, L1 and Frame.
    """

    starts: Literal["near", "classes"] = "near"
    rounds: Rounds = ((8, 40), (2, 60), (1, 150))
    nearest: int = 300
    smooth: float = 0.1

    def __post_init__(self) -> None:
        if self.starts not in ("near", "classes"):
            raise ValueError(f"Beam: starts must be 'near' or 'classes', not {self.starts!r}")
        object.__setattr__(self, "rounds", tuple((int(n), int(t)) for n, t in self.rounds))
        for count, iterations in self.rounds:
            require_count("Beam: starts that go on", count)
            require_count("Beam: iterations", iterations)
        if not self.rounds:
            raise ValueError("Beam: rounds must have at least one round")
        require_count("Beam: nearest", self.nearest)
        require_number("Beam: smooth", self.smooth, 0, low_too=True)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not self.supports(problem.threat):
            kind = type(problem.threat).__name__
            raise ValueError(f"Beam is made for Linf, L2, L1 and Frame, not for {kind}")
        if self.starts == "near":
            require_pool(problem, "Beam")
        found = problem.evaluate(torch.zeros_like(problem.x))
        rows = problem.unfinished(found)
        if len(rows) == 0:
            return found
        climb = self._from_near if self.starts == "near" else self._from_classes
        climbed = climb(problem.take(rows), Found(found.delta[rows], found.value[rows]))
        return improve_rows(found, rows, climbed)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        climbs = sum(count * iterations for count, iterations in self.rounds)
        again = sum(2 * count for count, _ in self.rounds)  # its last point, and its best
        first = self.nearest if self.starts == "near" else 0
        return Counts(1 + first + climbs + again, climbs)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Linf | L2 | L1 | Frame)

    def _from_near(self, problem: Problem, found: Found) -> Found:
        """Climb from the projections of the nearest images of the pool."""
        assert problem.pool is not None
        order = _nearest(problem, min(self.nearest, len(problem.pool)))
        going, first = Going(problem), 0
        values = found.value.new_full(order.shape, -math.inf)
        while first < order.shape[1] and not going.over(found):
            columns = slice(first, first + going.copies)
            near = order.index_select(0, going.rows)[:, columns].T
            part = going.part if len(near) == going.copies else going.repeated(len(near))
            trial = part.evaluate(problem.pool[near.flatten()].to(part.x) - part.x)
            found = going.improve(found, trial)
            values[going.rows, columns] = trial.value.view(near.shape).T
            first = columns.stop
        count = min(self.rounds[0][0], order.shape[1])
        images = problem.pool[order.gather(1, values.topk(count).indices).flatten()].to(problem.x)
        owner = _owners(problem, count)
        return self._halving(problem, found, images - problem.x[owner], owner, None)

    def _from_classes(self, problem: Problem, found: Found) -> Found:
        """Climb from the image towards every class that counts as an error.

        A score that knows no classes is climbed as it is.
        """
        allowed = problem.targets(self.rounds[0][0])
        if allowed is None:
            owner, target = _owners(problem, 1), None
        else:
            owner, target = allowed.nonzero().unbind(1)
        return self._halving(problem, found, torch.zeros_like(problem.x[owner]), owner, target)

    def _halving(
        self, problem: Problem, found: Found, delta: Tensor, owner: Tensor, target: Tensor | None
    ) -> Found:
        """Return the best that candidates reach when ever fewer of them climb ever longer."""
        value = torch.zeros_like(delta[:, 0, 0, 0])
        for number, (count, iterations) in enumerate(self.rounds):
            going = (found.value < problem.most)[owner]
            if number:
                going &= _best_of_each(value, owner, count)
            delta, owner = delta[going], owner[going]
            target = None if target is None else target[going]
            if len(owner) == 0:
                break
            part = problem.take(owner)
            aim = part if target is None else part.towards(target)
            smooth = 0.0 if number else self.smooth
            climbs = [
                partial(climbed_from, aim.take(some), delta[some], owner[some], iterations, smooth)
                for some in in_groups(owner)
            ]
            delta = torch.cat(problem.passes.side_by_side(climbs))
            candidates = part.evaluate(delta)
            value = candidates.value
            winner = _best_of_each(value, owner, 1)
            mine = Found(candidates.delta[winner], value[winner])
            found = improve_rows(found, owner[winner], mine)
        return found


def climbed_from(
    problem: Problem, delta: Tensor, owner: Tensor, iterations: int, smooth: float
) -> Tensor:
    """Return the best point that each candidate reaches.

    As soon as one candidate of an example scores enough, the others of that example rest.
    """
    threat, search = problem.threat, problem.search()
    radius = 1.0 if isinstance(threat, Frame) else threat.epsilon
    velocity, found = torch.zeros_like(delta), None
    first = _SMOOTH_STEP if smooth else _FIRST_STEP
    for iteration in range(iterations):
        done = iteration / iterations
        width = smooth * 0.01 ** (done / _SMOOTH) if done < _SMOOTH else 0.0
        if width:
            delta = search.project(delta)
            image = problem.x + delta
            gradient = search.probe_grad(image, width)
        else:
            now, gradient = search.value_and_grad(delta)
            delta, image = now.delta, search.images(now)
            found = now if found is None else best(found, now)
        velocity.mul_(_MOMENTUM).add_(threat.ascent(gradient, image), alpha=1 - _MOMENTUM)
        step = (first + (_LAST_STEP - first) * done) * radius
        delta = torch.add(delta, velocity, alpha=step)
        if found is not None and iteration % _EVERY == 0:
            enough = owner[found.value >= problem.most]
            search.retire(torch.isin(owner, enough))
            if search.finished:
                return found.delta
    last = search.evaluate(delta)
    return (last if found is None else best(found, last)).delta


def in_groups(owner: Tensor) -> list[Tensor]:
    """Return the candidates (M,) in groups of about a pass, those of an example in one group.

    All that a climb computes then stays in the processor's cache.
    """
    groups, size = [0], 0
    for count in owner.bincount().tolist():
        if size and size + count > AT_ONCE:
            groups.append(0)
            size = 0
        groups[-1] += count
        size += count
    return list(torch.split(torch.arange(len(owner), device=owner.device), groups))


def _nearest(problem: Problem, count: int) -> Tensor:
    """Return the nearest images of the pool (N, count), of other labels as far as these are known.

    Distances are in L2, the nearest first.
    """
    assert problem.pool is not None
    distance = torch.cdist(problem.x.flatten(1), problem.pool.to(problem.x).flatten(1))
    allowed = problem.targets()
    if allowed is not None and problem.pool_labels is not None:
        labels = problem.pool_labels.to(allowed.device)
        other = allowed.gather(1, labels.clamp_max(allowed.shape[1] - 1).expand(len(allowed), -1))
        distance = torch.where(other, distance, torch.inf)
    return distance.topk(count, largest=False).indices


def _owners(problem: Problem, count: int) -> Tensor:
    """Return the example of each of `count` candidates for every example."""
    return torch.arange(len(problem.x), device=problem.x.device).repeat_interleave(count)


def _best_of_each(value: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return a mask (M,) of the `count` best candidates of each example, the first of equals."""
    order = value.argsort(descending=True, stable=True)
    order = order[owner[order].argsort(stable=True)]
    ordered = owner[order]
    place = torch.arange(len(owner), device=owner.device)
    begins = torch.cat([ordered.new_ones(1), ordered.diff()]).ne(0)
    rank = place - torch.where(begins, place, 0).cummax(0).values
    return torch.zeros_like(begins).index_fill(0, order[rank < count], True)
