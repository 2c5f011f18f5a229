"""A frame made of windows: a random search of patches of the border, then gradients, in turn."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.apgd import APGD
from ccat.attacks.found import Found, best
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import Going
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
            going = Going(problem, 1)
            for _ in range(self.search):
                draw, colour = _drawn(problem.x, generator)
                if going.over(found):
                    return found
                rows, x = going.rows, going.part.x
                window = random_window(draw.index_select(0, rows), border, side)
                now, corner = found.delta.index_select(0, rows), colour.index_select(0, rows) - x
                found = going.improve(found, going.part.evaluate(now.lerp(corner, window)))
            found = best(found, APGD(self.iterations).from_start(problem, found.delta, generator))
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        each = Counts(self.search + self.iterations + 1, self.iterations)
        return Counts(1 + self.rounds * each.forwards, self.rounds * each.backwards)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, Frame)


def _drawn(x: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return five numbers of U(0,1) per image (N, 5), and a corner colour (N, C, 1, 1)."""
    count, channels = x.shape[:2]
    shapes = ((count, 5), (count, channels, 1, 1))
    draw, colour = (
        torch.rand(shape, generator=generator, device=generator.device).to(x) for shape in shapes
    )
    return draw, (colour < 0.5).to(x)


def random_window(draw: Tensor, border: Tensor, side: int) -> Tensor:
    """Return a random window (N, 1, H, W) of each border, 1 inside it and 0 elsewhere."""
    height, width = border.shape
    places = border.flatten().nonzero()[:, 0]
    centre = places[(draw[:, 0] * len(places)).long().clamp_max(len(places) - 1)]
    tall, wide = (1 + (draw[:, n] * side).long() for n in (1, 2))
    top = centre // width - (draw[:, 3] * tall).long()
    left = centre % width - (draw[:, 4] * wide).long()
    rows, columns = (torch.arange(n, device=draw.device) for n in (height, width))
    down = (rows >= top[:, None]) & (rows < (top + tall)[:, None])
    along = (columns >= left[:, None]) & (columns < (left + wide)[:, None])
    inside = down.to(draw)[:, None, :, None] * along.to(draw)[:, None, None, :]
    return inside.mul_(border.to(draw))
