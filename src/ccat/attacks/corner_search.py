"""Corner Search (Croce & Hein 2019), for L0.

Single pixels set to corners of the colour cube are ranked, then the best ones are combined.
"""

import itertools
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ccat.attacks.found import Found, improve
from ccat.attacks.passes import Counts
from ccat.attacks.problem import Problem
from ccat.attacks.protocol import Attack
from ccat.attacks.random_search import Going
from ccat.checks import require_count
from ccat.threats import L0, Threat


@dataclass(frozen=True)
class CornerSearch(Attack):
    """A search of every pixel at every corner of the colour cube, then of combinations.

    Each of `iterations` combinations has ε of the `candidates` best pixels; better pixels are drawn
    with a higher probability. It is made for L0 that counts pixels.
    """

    iterations: int
    candidates: int = 100

    def __post_init__(self) -> None:
        require_count("CornerSearch: iterations", self.iterations)
        require_count("CornerSearch: candidates", self.candidates)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not isinstance(problem.threat, L0) or problem.threat.per != "pixel":
            raise ValueError("CornerSearch is made for L0 that counts pixels")
        epsilon = problem.threat.epsilon
        found, values, corners = self._rank(problem)
        problem = problem.search()
        problem.retire(found.value >= problem.most)
        pixels = values.shape[1]
        candidates = min(self.candidates, pixels)
        ranked = values.argsort(dim=1, descending=True, stable=True)[:, :candidates]
        weights = torch.arange(
            2 * candidates - 1, 0, -2, dtype=torch.float64, device=generator.device
        ).expand(len(values), candidates)
        for _ in range(self.iterations):
            chosen = torch.multinomial(weights, min(epsilon, candidates), generator=generator).to(
                values.device
            )
            mask = torch.zeros_like(values, dtype=torch.bool).scatter(
                1, ranked.gather(1, chosen), True
            )
            found = improve(
                found,
                problem.evaluate(
                    torch.where(mask.view_as(problem.x[:, :1]), corners - problem.x, 0)
                ),
            )
            if problem.finished:
                break
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        channels, height, width = shape
        return Counts(1 + height * width * 2**channels + self.iterations)

    def supports(self, threat: Threat) -> bool:
        return isinstance(threat, L0) and threat.per == "pixel"

    def _rank(self, problem: Problem) -> tuple[Found, Tensor, Tensor]:
        """Try every single pixel at every corner, several of them in one pass.

        Returns:
            The best single pixel; for every pixel its best value (N, pixels); and the corner
            (N, C, H, W) that gives this value.
        """
        x = problem.x
        channels, pixels = x.shape[1], x[0, 0].numel()
        colours = torch.tensor(list(itertools.product((0.0, 1.0), repeat=channels))).to(x)
        values = x.new_full((pixels * len(colours), len(x)), -torch.inf)
        found = problem.evaluate(torch.zeros_like(x))
        going, done = Going(problem, least=2), 0
        while done < len(values) and not going.over(found):
            trials = torch.arange(done, min(done + going.copies, len(values)), device=x.device)
            part = going.part if len(trials) == going.copies else going.repeated(len(trials))
            each = trials.repeat_interleave(len(going.rows))
            pixel = (each // len(colours))[:, None, None].expand(-1, channels, 1)
            corner = colours[each % len(colours)][:, :, None]
            delta = torch.zeros_like(part.x)
            delta.flatten(2).scatter_(2, pixel, corner - part.x.flatten(2).gather(2, pixel))
            trial = part.evaluate(delta)
            values[trials[:, None], going.rows] = trial.value.view(len(trials), -1)
            found = going.improve(found, trial)
            done += len(trials)
        values = values.view(pixels, len(colours), len(x))
        corners = colours[values.argmax(1)]  # (pixels, N, C)
        return found, values.amax(1).T, corners.permute(1, 2, 0).reshape(x.shape)
