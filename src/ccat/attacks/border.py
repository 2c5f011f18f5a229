"""A frame made of windows: a random search of patches of the border, then gradients, in turn."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.apgd import APGD
from ccat.attacks.found import Found, best, improve
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.checks import require_count
from ccat.threats import Frame, Threat

_SIDE = 0.5  # of the largest windows in the first round, as a share of the image's smaller side


@dataclass(frozen=True)
class Border(Attack):
    """Rounds of `search` random windows of the border, each followed by `iterations` of APGD.

    A window holds a random pixel of the border, is cut to it, and takes one corner colour; what is
    better stays. Windows get smaller from round to round. It is made for Frame.
    """

    rounds: int = 4
    search: int = 150
    iterations: int = 50

    def __post_init__(self) -> None:
        require_count("Border: rounds", self.rounds)
        require_count("Border: search", self.search)
        require_count("Border: iterations", self.iterations)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        threat = problem.threat
        if not isinstance(threat, Frame):
            raise ValueError(f"Border is made for Frame, not for {type(threat).__name__}")
        low, high = threat.bounds(problem.x[:1])
        border = (high > low)[0, 0]
        largest = _SIDE * min(border.shape)
        found = problem.evaluate(torch.zeros_like(problem.x))
        for number in range(self.rounds):
            side = max(1, round(largest * (1 - number / self.rounds)))
            search = problem.search()
            search.retire(found.value >= problem.most)
            for _ in range(self.search):
                window, colour = _window(problem.x, border, side, generator)
                delta = torch.where(window, colour - problem.x, found.delta)
                found = improve(found, search.evaluate(delta))
                if search.finished:
                    return found
            found = best(found, APGD(self.iterations).from_start(problem, found.delta, generator))
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        each = Counts(self.search + self.iterations + 1, self.iterations)
        return Counts(1 + self.rounds * each.forwards, self.rounds * each.backwards)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Frame)


def _window(x: Tensor, border: Tensor, side: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return a random window (N, 1, H, W) of each border, and a corner colour (N, C, 1, 1)."""
    count, channels, height, width = x.shape

    def drawn(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=generator.device).to(x)

    places = border.flatten().nonzero()[:, 0]
    draw = drawn(count, 5)
    centre = places[(draw[:, 0] * len(places)).long().clamp_max(len(places) - 1)]
    tall, wide = (1 + (draw[:, n] * side).long() for n in (1, 2))
    top = centre // width - (draw[:, 3] * tall).long()
    left = centre % width - (draw[:, 4] * wide).long()
    rows, columns = (torch.arange(n, device=x.device) for n in (height, width))
    down = (rows >= top[:, None]) & (rows < (top + tall)[:, None])
    along = (columns >= left[:, None]) & (columns < (left + wide)[:, None])
    window = (down[:, :, None] & along[:, None, :] & border)[:, None]
    return window, (drawn(count, channels, 1, 1) < 0.5).to(x)
