"""Exchanging pixels in L0: the gradient says which pixel to change next, and which to give back.

Shapes: x, image, delta, gradient (N, C, H, W); values per pixel (N, H·W); masks (N, 1, H, W).
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, best, improve_rows
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import (
    Going,
    drawn_from_pool,
    freed_for,
    random_luck,
    random_place,
    require_pool,
)
from ccat.checks import require_count
from ccat.threats import L0, Threat

_ELIMINATION = 15  # gradient steps from another image to one with ε changed pixels
_FIRST = 0.25  # the share of the pixels that differ from the image after the first of them
_FALLING = 0.8  # the share of these steps in which their number falls to ε
_MOMENTUM = 0.5
_SMOOTH = 0.3  # of the gradients from every other start
_AT_ONCE = (1, 2, 4)  # pixels exchanged at once
_EXCHANGES = 40  # at most; a climb ends with the first that raises nothing
_RANDOM = 50  # random exchanges that follow a climb


@dataclass(frozen=True)
class Exchange(Attack):
    """Exchanges of pixels, begun at the image and at `starts` random images of the pool.

    From another image, gradient steps go ahead while the changes that matter least are taken back,
    until ε pixels differ; the gradients of every other start are smoothed. Then exchanges of 1, 2
    and 4 pixels are tried, chosen by the gradient, and the best is made as long as it raises the
    score; random exchanges of the best point follow.
    It is made for L0 of pixels.
    """

    starts: int = 20

    def __post_init__(self) -> None:
        require_count("Exchange: starts", self.starts)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        threat = problem.threat
        if not isinstance(threat, L0) or threat.per != "pixel":
            raise ValueError(f"Exchange is made for L0 of pixels, not for {type(threat).__name__}")
        require_pool(problem, "Exchange")
        found = problem.evaluate(torch.zeros_like(problem.x))
        for start in range(self.starts + 1):
            other = drawn_from_pool(problem, generator) if start else problem.x
            rows = problem.unfinished(found)
            if len(rows) == 0:
                break
            part = problem.take(rows)
            smooth = _SMOOTH if start % 2 else 0.0
            first = _eliminated(part, other[rows], threat.epsilon, smooth) if start else other[rows]
            climbed = _exchanged(part, first - part.x, threat.epsilon)
            found = improve_rows(found, rows, climbed)
            found = _polished(problem, found, threat, generator)
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        climb = Counts(_EXCHANGES * (1 + len(_AT_ONCE)), _EXCHANGES)
        each = Counts(2 * climb.forwards + _RANDOM, 2 * climb.backwards)
        return Counts(
            1 + each.forwards + self.starts * (each.forwards + _ELIMINATION),
            each.backwards + self.starts * (each.backwards + _ELIMINATION),
        )

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, L0) and threat.per == "pixel"


def _eliminated(problem: Problem, image: Tensor, epsilon: int, smooth: float) -> Tensor:
    """Climb from other images, and after each step take back the changes that matter least."""
    x, velocity = problem.x, torch.zeros_like(image)
    pixels = x[0, 0].numel()
    first = max(float(epsilon), _FIRST * pixels)
    for step in range(_ELIMINATION):
        share = min(1.0, step / _ELIMINATION / _FALLING)
        count = min(pixels, round(first * (epsilon / first) ** share))
        gradient = problem.probe_grad(image, smooth)
        peak = gradient.abs().amax((1, 2, 3), keepdim=True).clamp_min(1e-30)
        velocity = _MOMENTUM * velocity + (1 - _MOMENTUM) * gradient / peak
        ahead = (image + velocity).clamp(0, 1)
        differs = (ahead != x).any(1).flatten(1)
        worth = _per_pixel(gradient * (ahead - x)).masked_fill(~differs, -math.inf)
        image = torch.where(_mask(worth.topk(count).indices, x), ahead, x)
    return image


def _exchanged(problem: Problem, delta: Tensor, epsilon: int) -> Found:
    """Make the best exchange that the gradient proposes, as long as it raises the score."""
    rows = torch.arange(len(delta), device=delta.device)
    found = Found(torch.zeros_like(delta), delta.new_full((len(delta),), -math.inf))
    for _ in range(_EXCHANGES):
        now, gradient = problem.value_and_grad(delta, rows)
        trials = _swapped(problem.x.index_select(0, rows), now.delta, gradient, epsilon)
        scored = problem.evaluate(torch.cat(trials), rows.repeat(len(trials)))
        ahead = now
        for trial in zip(*(part.chunk(len(trials)) for part in scored), strict=True):
            ahead = best(ahead, Found(*trial))
        found = improve_rows(found, rows, ahead)
        climbing = (ahead.value > now.value) & (ahead.value < problem.most)
        rows, delta = rows[climbing], ahead.delta[climbing]
        if len(rows) == 0:
            break
    return found


def _swapped(x: Tensor, delta: Tensor, gradient: Tensor, epsilon: int) -> list[Tensor]:
    """Move the pixels of the largest gain to their corners, and give back those of least worth.

    Gain and worth are of first order: gradient times change. There is a result for each number of
    pixels exchanged at once.
    """
    image, up = x + delta, (gradient > 0).to(x)
    gain = _per_pixel(gradient.clamp_min(0) * (1 - image) - gradient.clamp_max(0) * image)
    order = gain.topk(min(max(_AT_ONCE), gain.shape[1])).indices
    worth = _per_pixel(gradient * delta)
    found = []
    for count in _AT_ONCE:
        new = _mask(order[:, :count], x)
        moved = torch.where(new, up, image)
        changed = (moved != x).any(1).flatten(1)
        surplus = (changed.sum(1, keepdim=True) - epsilon).clamp_min(0)
        least = worth.masked_fill(~changed | new.flatten(1), math.inf).topk(
            min(int(surplus.max()), worth.shape[1]), largest=False
        )
        taken = torch.arange(least.indices.shape[1], device=x.device) < surplus
        back = torch.zeros_like(changed).scatter(1, least.indices, taken).view_as(new)
        found.append(torch.where(back, x, moved) - x)
    return found


def _polished(problem: Problem, found: Found, threat: L0, generator: Generator) -> Found:
    """Exchange random pixels of the best points, without gradients, then climb where that helped.

    The new pixel goes to the corner further away from it.
    """
    before, found = found.value, Found(found.delta.clone(), found.value.clone())
    going = Going(problem, 1)
    for _ in range(_RANDOM):
        place, luck = random_place(problem, generator), random_luck(problem, generator)
        if going.over(found):
            return found
        rows, x = going.rows, going.part.x.flatten(1)
        place = place.index_select(0, rows)
        now = found.delta.index_select(0, rows)
        freed = freed_for(threat, now, place, luck.index_select(0, rows)).flatten(1)
        old = x.gather(1, place)
        corner = (old + now.flatten(1).gather(1, place) < 0.5).to(x)
        trial = freed.scatter_(1, place, corner - old).view_as(now)
        found = going.improve(found, going.part.evaluate(trial))
    rows = ((found.value > before) & (found.value < problem.most)).nonzero()[:, 0]
    if len(rows) == 0:
        return found
    part = problem.take(rows)
    return improve_rows(found, rows, _exchanged(part, found.delta[rows], threat.epsilon))


def _per_pixel(values: Tensor) -> Tensor:
    """Return the sum over the channels, (N, H·W)."""
    return values.sum(1).flatten(1)


def _mask(chosen: Tensor, like: Tensor) -> Tensor:
    """Return a mask (N, 1, H, W) of chosen pixels (N, k)."""
    count, _, height, width = like.shape
    none = torch.zeros(count, height * width, dtype=torch.bool, device=like.device)
    return none.scatter(1, chosen, True).view(count, 1, height, width)
