"""Corner Search (Croce & Hein 2019), for L0: single pixels set to corners of the colour cube are ranked, then the best are combined."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ccat.attacks.problem import Counts, Found, Problem, improve
from ccat.checks import require_count
from ccat.threats import L0, Threat


@dataclass(frozen=True)
class CornerSearch:
    """Tries every pixel at every corner, then `iterations` combinations of ε of the `candidates` best pixels, the better the likelier."""

    iterations: int
    candidates: int = 100
    threats: ClassVar[tuple[type[Threat], ...]] = (L0,)

    def __post_init__(self) -> None:
        require_count("CornerSearch: iterations", self.iterations)
        require_count("CornerSearch: candidates", self.candidates)

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        if not isinstance(problem.threat, L0) or problem.threat.per != "pixel":
            raise ValueError("CornerSearch is made for L0 that counts pixels")
        epsilon = problem.threat.epsilon
        problem = problem.begun()
        found, values, corners = self._rank(problem)
        pixels = values.shape[1]
        candidates = min(self.candidates, pixels)
        ranked = values.argsort(dim=1, descending=True, stable=True)[:, :candidates]
        weights = torch.arange(2 * candidates - 1, 0, -2, dtype=torch.float64, device=generator.device).expand(len(values), candidates)
        for _ in range(self.iterations):
            chosen = torch.multinomial(weights, min(epsilon, candidates), generator=generator).to(values.device)
            mask = torch.zeros_like(values, dtype=torch.bool).scatter(1, ranked.gather(1, chosen), True)
            found = improve(found, problem.at(torch.where(mask.view_as(problem.x[:, :1]), corners - problem.x, 0)))
            if problem.over:
                break
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        channels, height, width = shape
        return Counts(1 + height * width * 2**channels + self.iterations)

    def _rank(self, problem: Problem) -> tuple[Found, Tensor, Tensor]:
        """The best single pixel; for every pixel its best value (N, pixels) and the corner that gives it (N, C, H, W)."""
        x = problem.x
        channels, pixels = x.shape[1], x[0, 0].numel()
        found = problem.at(torch.zeros_like(x))
        values = torch.full((pixels, len(x)), -torch.inf, dtype=x.dtype, device=x.device)
        corners = x.flatten(2).clone()
        delta = torch.zeros_like(x)
        one = delta.flatten(2)  # a view: where a pixel is set, and set back
        for pixel, colour in itertools.product(range(pixels), itertools.product((0.0, 1.0), repeat=channels)):
            corner = torch.tensor(colour, dtype=x.dtype, device=x.device)
            one[:, :, pixel] = corner - x.flatten(2)[:, :, pixel]
            trial = problem.at(delta)
            one[:, :, pixel] = 0
            better = trial.value > values[pixel]
            values[pixel] = torch.where(better, trial.value, values[pixel])
            corners[:, :, pixel] = torch.where(better[:, None], corner, corners[:, :, pixel])
            found = improve(found, trial)
            if problem.over:
                break
        return found, values.T, corners.view_as(x)
