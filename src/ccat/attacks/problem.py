"""The problem an attack solves: the perturbation, among those the threat allows, that scores highest for each example.

`Problem.at` and `Problem.climb` are the only places where a perturbation becomes a result, so a result is always allowed and always
scored. `best` is the only way in which results are combined.

Shapes: x, delta, gradient (N, C, H, W); values (N,); rows (M,), the examples that M images belong to.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import torch
from torch import Generator, Tensor, nn

from ccat.attacks.inputs import require_answers, require_batch, require_classes, require_images, require_model, require_numbers
from ccat.attacks.passes import Passes, Rest
from ccat.objectives import Objective, most
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
        """Forwards and backwards per image (C, H, W), at most: what can no longer change costs nothing."""


@dataclass(frozen=True)
class Problem:
    """Maximise `score` around each image of x over what the threat allows. `pool`: other images an attack may draw on.

    `passes` says how many images go through the model at once. A score may tell the `most` it can be (0, a confidence of 1).
    """

    x: Tensor
    threat: Threat
    score: Score
    pool: Tensor | None = None
    counts: Counts = field(default_factory=Counts, compare=False)
    passes: Passes = field(default_factory=Passes, compare=False)
    rest: Rest | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.rest is None:
            require_images(self.x)
            self.threat.project(self.x[:1], torch.zeros_like(self.x[:1]))  # a threat that does not fit the images says so now

    @classmethod
    def of(
        cls,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        threat: Threat,
        objective: Objective,
        pool: Tensor | None = None,
        batch: int | None = None,
    ) -> Self:
        """The usual problem: the objective of a model's logits and the labels, `batch` images at once (None: all)."""
        y = require_batch(x, y)
        require_model(model, x)
        return cls(x, threat, ModelScore(model, y, objective), pool, passes=Passes(batch))

    def begun(self) -> Self:
        """For one search: an example that scores the most there is, or that the search ends, costs no more passes.

        It scores −∞ from then on, with a gradient of zero, so a search must keep the best it has seen.
        """
        return replace(self, rest=Rest(len(self.x), self.x.device, getattr(self.score, "most", math.inf)))

    def at(self, delta: Tensor, rows: Tensor | None = None) -> Found:
        """Projected and scored, one forward. `rows` says which examples the perturbations belong to, all in order by default."""
        with torch.no_grad():
            delta, image, places = self._place(delta, rows)
            (value,) = self._pass(image, places, whole=rows is None)
            return Found(delta, value)

    def climb(self, delta: Tensor, rows: Tensor | None = None) -> tuple[Found, Tensor]:
        """As `at`, with the gradient of the score at the image: one forward and one backward."""
        with torch.no_grad():
            delta, image, places = self._place(delta, rows)
            value, gradient = self._pass(image, places, whole=rows is None, gradient=True)
            return Found(delta, value), gradient

    def probe(self, images: Tensor) -> Tensor:
        """The score at any images in [0,1], one per example, allowed or not: for estimates, never a result."""
        with torch.no_grad():
            (value,) = self._pass(images.clamp(0, 1), self._all, whole=True, result=False)
            return value

    def images(self, found: Found) -> Tensor:
        """The perturbed images, in [0,1]."""
        return (self.x + found.delta).clamp_(0, 1)

    @property
    def over(self) -> bool:
        """Whether the search has ended for all examples."""
        return self.rest is not None and self.rest.all_over

    def end(self, examples: Tensor) -> None:
        """No more passes for these (N,), in the search that has begun."""
        assert self.rest is not None
        self.rest.end(examples)

    @cached_property
    def _all(self) -> Tensor:
        return torch.arange(len(self.x), device=self.x.device)

    @cached_property
    def _bounds(self) -> tuple[Tensor, Tensor] | None:
        """Where all that a threat allows is a box: what projects onto it at less cost."""
        bounds = getattr(self.threat, "bounds", None)
        return None if bounds is None else bounds(self.x)

    def _place(self, delta: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Perturbations that are allowed, their images, and the examples they belong to."""
        x = self.x if rows is None else self.x[rows]
        places = self._all if rows is None else rows
        if self.passes.watched(x.device):
            _require_finite(delta, places, "perturbation is not finite")
        delta = delta.clamp(*self._bounds) if self._bounds and rows is None else self.threat.project(x, delta)
        return delta, (x + delta).clamp_(0, 1), places

    def _pass(self, image: Tensor, rows: Tensor, *, whole: bool, gradient: bool = False, result: bool = True) -> tuple[Tensor, ...]:
        """Values, and gradients if asked for, of those whose search goes on, in parts. `result`: what scores the most ends its search."""
        function = self._climbed if gradient else self._valued
        going = self.rest.going() if self.rest is not None and whole else None
        if going is None:
            found = self.passes.through(function, image, rows)
        else:
            found = (image.new_full((len(image),), -math.inf), torch.zeros_like(image))[: 1 + gradient]
            if len(going):
                some = self.passes.through(function, image[going], going)
                found = tuple(part.to(one.dtype).index_copy_(0, going, one) for part, one in zip(found, some, strict=True))
        if self.rest is not None and whole and result:
            self.rest.see(found[0])
        return found

    def _valued(self, image: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        return (self._scored(image, rows),)

    def _climbed(self, image: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            image = image.detach().requires_grad_()
            value = self._scored(image, rows)
            if not value.requires_grad:
                raise ValueError("the score has no gradient: does the model run under no_grad, or not depend on the images?")
            gradient = torch.autograd.grad(value.sum(), image)[0].contiguous()  # models may keep channels last
        self.counts.backwards += len(image)
        if self.passes.watched(image.device):
            _require_finite(gradient, rows, "gradient is not finite")
        return value.detach(), gradient

    def _scored(self, image: Tensor, rows: Tensor) -> Tensor:
        value = self.score(image, rows)
        self.counts.forwards += len(image)
        if value.shape != rows.shape:
            raise ValueError(f"the score must give one value per image, {tuple(rows.shape)}, but gave {tuple(value.shape)}")
        if self.passes.watched(image.device):
            require_numbers(value.detach().isnan(), rows, "score is not a number")
        return value


def _require_finite(values: Tensor, rows: Tensor, what: str) -> None:
    """A sum that is a number is enough, and costs a tenth of looking at every value."""
    if not values.sum().isfinite():
        require_numbers(~values.flatten(1).isfinite().all(1), rows, what)


def best(old: Found, new: Found) -> Found:
    """Example by example the one that scores strictly higher: best iterate, starts, restarts and random search are all this."""
    return choose(new.value > old.value, new, old)


def improve(found: Found, trial: Found) -> Found:
    """As `best`, in the place of `found`: for searches that look at nothing but the best so far."""
    if found.delta.device.type != "cpu":
        return best(found, trial)
    rows = (trial.value > found.value).nonzero()[:, 0]
    if len(rows):
        found.delta[rows], found.value[rows] = trial.delta[rows], trial.value[rows]
    return found


def choose(condition: Tensor, yes: Found, no: Found) -> Found:
    """`yes` where the condition (N,) holds, `no` elsewhere."""
    return Found(pick(condition, yes.delta, no.delta), torch.where(condition, yes.value, no.value))


def pick(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Rows of `yes` where the condition (N,) holds, of `no` elsewhere."""
    if condition.device.type != "cpu":
        return torch.where(condition.view(-1, *[1] * (yes.ndim - 1)), yes, no)
    rows = condition.nonzero()[:, 0]  # several times as fast here; elsewhere it would wait for the device
    if len(rows) in (0, len(no)):
        return yes if len(rows) else no
    return no.index_copy(0, rows, yes[rows])


class ModelScore:
    """The objective of a model in evaluation mode. The model's mode, weights and `.grad` are as before after every call."""

    def __init__(self, model: nn.Module, labels: Tensor, objective: Objective) -> None:
        self.model, self.labels, self.objective = model, labels, objective
        self.most = most(objective)
        self.modules, self.weights = list(model.modules()), list(model.parameters())  # looking for them takes as long as a small layer
        self.met = False

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        with _as_frozen(self.modules, self.weights):
            logits = self.model(images)
        require_answers(logits, len(images))
        if not self.met:
            require_classes(logits, self.labels)
            self.met = True
        return self.objective(logits, self.labels[rows])


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and weights that ask for no gradient; each module and weight is put back as it was."""
    with _as_frozen(list(model.modules()), list(model.parameters())):
        yield


@contextmanager
def _as_frozen(modules: Sequence[nn.Module], weights: Sequence[Tensor]) -> Iterator[None]:
    training = [module for module in modules if module.training]
    learning = [weight for weight in weights if weight.requires_grad]
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
