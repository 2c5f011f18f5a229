"""The problem an attack solves: the perturbation, among those the threat allows, that scores highest for each example.

`Problem.at` and `Problem.climb` are the only places where a perturbation becomes a result, so a result is always allowed and always
scored. `best` is the only way in which results are combined.

Shapes: x, delta, gradient (N, C, H, W); values (N,); rows (M,), the examples that M images belong to.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

import torch
from torch import Generator, Tensor, nn

from ccat.attacks.inputs import require_batch, require_images, require_logits, require_model, require_numbers
from ccat.objectives import Objective
from ccat.threats import Threat

Score = Callable[[Tensor, Tensor], Tensor]  # (images (M, C, H, W), rows (M,)) -> values (M,)


class Found(NamedTuple):
    """Perturbations and what they score. Only a Problem makes one; `best` combines two."""

    delta: Tensor
    value: Tensor


@dataclass
class Counts:
    """Images that went forward and backward through the model."""

    forwards: int = 0
    backwards: int = 0


class Attack(Protocol):
    """Searches a problem. Everything random comes from the generator."""

    def __call__(self, problem: "Problem", generator: Generator) -> Found: ...

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        """Forwards and backwards per image (C, H, W)."""


@dataclass(frozen=True)
class Problem:
    """Maximise `score` around each image of x over what the threat allows. `pool`: other images an attack may draw on."""

    x: Tensor
    threat: Threat
    score: Score
    pool: Tensor | None = None
    counts: Counts = field(default_factory=Counts, compare=False)

    def __post_init__(self) -> None:
        require_images(self.x)
        self.threat.project(self.x[:1], torch.zeros_like(self.x[:1]))  # a threat that does not fit the images says so now

    @classmethod
    def of(cls, model: nn.Module, x: Tensor, y: Tensor, threat: Threat, objective: Objective, pool: Tensor | None = None) -> Self:
        """The usual problem: the objective of a model's logits and the labels."""
        y = require_batch(x, y)
        require_model(model, x)
        return cls(x, threat, ModelScore(model, y, objective), pool)

    def at(self, delta: Tensor, rows: Tensor | None = None) -> Found:
        """Projected and scored, one forward. `rows` says which examples the perturbations belong to, all in order by default."""
        with torch.no_grad():
            delta, image, rows = self._place(delta, rows)
            return Found(delta, self._scored(image, rows))

    def climb(self, delta: Tensor, rows: Tensor | None = None) -> tuple[Found, Tensor]:
        """As `at`, with the gradient of the score at the image: one forward and one backward."""
        with torch.no_grad():
            delta, image, rows = self._place(delta, rows)
        with torch.enable_grad():
            value = self._scored(image.requires_grad_(), rows)
            if not value.requires_grad:
                raise ValueError("the score has no gradient: does the model run under no_grad, or not depend on the images?")
            (gradient,) = torch.autograd.grad(value.sum(), image)
        self.counts.backwards += len(image)
        _require_finite(gradient, rows, "gradient is not finite")
        return Found(delta, value.detach()), gradient

    def probe(self, images: Tensor) -> Tensor:
        """The score at any images in [0,1], one per example, allowed or not: for estimates, never a result."""
        with torch.no_grad():
            return self._scored(images.clamp(0, 1), torch.arange(len(self.x), device=self.x.device))

    def images(self, found: Found) -> Tensor:
        """The perturbed images, in [0,1]."""
        return (self.x + found.delta).clamp(0, 1)

    def _place(self, delta: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        x = self.x if rows is None else self.x[rows]
        rows = torch.arange(len(x), device=x.device) if rows is None else rows
        _require_finite(delta, rows, "perturbation is not finite")
        delta = self.threat.project(x, delta)
        return delta, (x + delta).clamp(0, 1), rows

    def _scored(self, image: Tensor, rows: Tensor) -> Tensor:
        value = self.score(image, rows)
        self.counts.forwards += len(image)
        if value.shape != rows.shape:
            raise ValueError(f"the score must give one value per image, {tuple(rows.shape)}, but gave {tuple(value.shape)}")
        require_numbers(value.isnan(), rows, "score is not a number")
        return value


def _require_finite(values: Tensor, rows: Tensor, what: str) -> None:
    """A sum that is a number is enough, and costs a tenth of looking at every value."""
    if not values.sum().isfinite():
        require_numbers(~values.flatten(1).isfinite().all(1), rows, what)


def best(old: Found, new: Found) -> Found:
    """Example by example the one that scores strictly higher: best iterate, starts, restarts and random search are all this."""
    return choose(new.value > old.value, new, old)


def choose(condition: Tensor, yes: Found, no: Found) -> Found:
    """`yes` where the condition (N,) holds, `no` elsewhere."""
    return Found(torch.where(condition[:, None, None, None], yes.delta, no.delta), torch.where(condition, yes.value, no.value))


@dataclass(frozen=True)
class ModelScore:
    """The objective of a model in evaluation mode. The model's mode, weights and `.grad` are as before after every call."""

    model: nn.Module
    labels: Tensor
    objective: Objective

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        with frozen(self.model):
            logits = self.model(images)
        labels = self.labels[rows]
        require_logits(logits, labels)
        return self.objective(logits, labels)


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and weights that ask for no gradient; each module and weight is put back as it was."""
    training = [module for module in model.modules() if module.training]
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    try:
        for module in training:
            module.training = False
        for weight in learning:
            weight.requires_grad_(False)
        yield
    finally:
        for module in training:
            module.training = True
        for weight in learning:
            weight.requires_grad_(True)
