"""The problem an attack solves: the allowed perturbation that scores highest for each example.

`Problem.evaluate` and `Problem.value_and_grad` are the only places where a perturbation becomes a
result, so that a result is always allowed and always scored.

Shapes: x, delta, gradient (N, C, H, W); values (N,); rows (M,), the examples of M images.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn

from ccat.attacks.found import Found
from ccat.attacks.inputs import (
    require_batch,
    require_finite,
    require_gradient,
    require_images,
    require_model,
    require_numbers,
    require_values,
)
from ccat.attacks.passes import Counts, Origin, Passes, Retired
from ccat.attacks.scores import BoundedScore, ModelScore, Score, ScoreOfRows, TargetedScore
from ccat.attacks.smooth import smoothed
from ccat.objectives import Objective
from ccat.threats import Box, Threat


@dataclass(frozen=True)
class Problem:
    """Maximise a score around each image over the perturbations that a threat allows.

    Attributes:
        x: The images (N, C, H, W) in [0,1].
        threat: The perturbations that are allowed.
        score: What is maximised: images (M, C, H, W) and rows (M,) to values (M,). A score may
            declare the largest value that it can take, as `most`.
        pool: Other images that an attack may draw on.
        pool_labels: Their labels, where they are known and mean the same as `labels`.
        enough: The score at which an example is attacked no more.
        tau: The threshold on the confidence, for attacks that ask what is accepted.
        counts: How many images went through the score so far.
        passes: How many images go through the score at once.
        retired: The examples that need no further passes, in a search that has begun.
        origin: The examples that these are of the problem they were taken from.
        labels, model: What is behind the score, for attacks of other libraries.
    """

    x: Tensor
    threat: Threat
    score: Score
    pool: Tensor | None = None
    pool_labels: Tensor | None = None
    enough: float = math.inf
    tau: float | None = None
    counts: Counts = field(default_factory=Counts, compare=False)
    passes: Passes = field(default_factory=Passes, compare=False)
    retired: Retired | None = field(default=None, compare=False)
    origin: Origin | None = field(default=None, compare=False)
    labels: Tensor | None = None
    model: nn.Module | None = None

    def __post_init__(self) -> None:
        if self.retired is None and self.origin is None:
            require_images(self.x)
            # A threat that does not fit the images says so now.
            self.threat.project(self.x[:1], torch.zeros_like(self.x[:1]))

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
        pool_labels: Tensor | None = None,
    ) -> Self:
        """Return the usual problem: maximise an objective of a model's logits and the labels.

        Args:
            model: Maps images (N, C, H, W) in [0,1] to logits (N, K).
            x: The images (N, C, H, W), float32 or float64 in [0,1].
            y: The labels (N,).
            threat: The perturbations that are allowed.
            objective: What is maximised.
            pool: Other images that an attack may draw on.
            batch: How many images go through the model at once; None for all.
            pool_labels: The labels of the pool.
        """
        y = require_batch(x, y)
        require_model(model, x)
        about = (threat, ModelScore(model, y, objective), pool, pool_labels)
        return cls(x, *about, passes=Passes(batch), labels=y, model=model)

    def search(self) -> Self:
        """Return this problem for one search, in which examples can be retired.

        An example is retired once it scores enough, or by `retire`, and then costs no more passes.
        From then on it scores −∞ with a gradient of zero: a search must keep the best it has seen.
        """
        return replace(self, retired=Retired(len(self.x), self.x.device, self.most))

    def take(self, rows: Tensor) -> Self:
        """Return the problem of the examples `rows` (M,), each as often as it is named."""
        return replace(
            self,
            x=self.x.index_select(0, rows),
            score=ScoreOfRows(self.score, rows),
            labels=None if self.labels is None else self.labels[rows],
            enough=self.most,
            retired=None,
            origin=Origin.of(self.origin, rows, len(self.x)),
        )

    @cached_property
    def most(self) -> float:
        """The score at which an example needs no more passes: enough, or the most there is."""
        bound = self.score.most if isinstance(self.score, BoundedScore) else math.inf
        return min(bound, self.enough)

    def towards(self, target: Tensor) -> Self:
        """Return the problem of a target class (N,); its values are no results of this one."""
        assert isinstance(self.score, TargetedScore)
        return replace(self, score=self.score.towards(target))

    def targets(self, count: int | None = None) -> Tensor | None:
        """Return which classes (N, K) count as an error; None if the score knows no classes.

        With `count` only so many, the likeliest at the image, which takes a forward if there are
        more. The score must have been called once.
        """
        score = self.score
        allowed = score.targets(self._all) if isinstance(score, TargetedScore) else None
        if allowed is None or count is None or allowed.sum(1).max() <= count:
            return allowed
        assert isinstance(score, TargetedScore)
        (likely,) = self.passes.run(lambda x, _: (score.logits(x),), self.x, self._all)
        self.counts.forwards += len(self.x)
        first = likely.masked_fill(~allowed, -math.inf).topk(count).indices
        return torch.zeros_like(allowed).scatter(1, first, True)

    def unfinished(self, found: Found) -> Tensor:
        """Return the examples (M,) that score less than `most`."""
        return (found.value < self.most).nonzero()[:, 0]

    def evaluate(self, delta: Tensor, rows: Tensor | None = None) -> Found:
        """Project perturbations and score them, in one forward.

        Args:
            delta: The perturbations, (N, C, H, W) or (M, C, H, W).
            rows: The examples (M,) that they belong to; None for all in order.
        """
        with torch.no_grad():
            delta, image, places = self._place(delta, rows)
            (value,) = self._pass(image, places, whole=rows is None)
            self._note(places, value)
            return Found(delta, value)

    def value_and_grad(self, delta: Tensor, rows: Tensor | None = None) -> tuple[Found, Tensor]:
        """Do as `evaluate`, and return the gradient of the score at the perturbed images too.

        This takes one forward and one backward.
        """
        with torch.no_grad():
            delta, image, places = self._place(delta, rows)
            value, gradient = self._pass(image, places, whole=rows is None, gradient=True)
            self._note(places, value, gradient)
            return Found(delta, value), gradient

    def project(self, delta: Tensor) -> Tensor:
        """Return allowed perturbations (N, C, H, W), without a pass; they are no results."""
        return delta.clamp(*self._bounds) if self._bounds else self.threat.project(self.x, delta)

    def probe(self, images: Tensor) -> Tensor:
        """Return the score at any images of all examples, once or repeated; never a result."""
        with torch.no_grad():
            rows = self._all.repeat(len(images) // len(self.x))
            return self._pass(images.clamp(0, 1), rows, whole=True, result=False)[0]

    def probe_grad(self, images: Tensor, smooth: float = 0.0) -> Tensor:
        """Return the gradient of the score at any images, allowed or not; never a result.

        `smooth` is the width of what `ccat.attacks.smooth` makes of rectifiers and limits.
        """
        images = images.clamp(0, 1)  # itself not smoothed
        with torch.no_grad(), smoothed(smooth):
            return self._pass(images, self._all, whole=True, gradient=True, result=False)[1]

    def images(self, found: Found) -> Tensor:
        """Return the perturbed images, in [0,1]."""
        return (self.x + found.delta).clamp_(0, 1)

    @property
    def finished(self) -> bool:
        """True if every example of the search is retired."""
        return self.retired is not None and self.retired.complete

    def retire(self, examples: Tensor) -> None:
        """Spend no more passes of this search on the examples where the mask (N,) is true."""
        assert self.retired is not None
        self.retired.add(examples)

    @cached_property
    def _all(self) -> Tensor:
        return torch.arange(len(self.x), device=self.x.device)

    @cached_property
    def _bounds(self) -> tuple[Tensor, Tensor] | None:
        """The bounds of a threat that is a box, to which clamping costs less than projecting."""
        if not isinstance(self.threat, Box):
            return None
        low, high = self.threat.bounds(self.x)
        return low.maximum(-self.x), high.minimum(1 - self.x)

    def _place(self, delta: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return allowed perturbations, their images, and the examples they belong to."""
        x, bounds, places = self.x, self._bounds, self._all
        if rows is not None:
            x, places = x.index_select(0, rows), rows
            bounds = bounds and (bounds[0].index_select(0, rows), bounds[1].index_select(0, rows))
        if self.passes.watched(x.device):
            require_finite(delta, places, "perturbation is not finite")
        if bounds:  # they lie within the box of images, rounding included
            delta = delta.clamp(*bounds)
            return delta, x + delta, places
        delta = self.threat.project(x, delta)
        return delta, (x + delta).clamp_(0, 1), places

    def _note(self, places: Tensor, value: Tensor, gradient: Tensor | None = None) -> None:
        """Remember of each example what the self-checks ask for."""
        origin = Origin.of(self.origin, places, len(self.x))
        self.passes.note_value(value, origin)
        if gradient is not None:
            self.passes.note_gradient(gradient, origin)

    def _pass(
        self,
        image: Tensor,
        rows: Tensor,
        *,
        whole: bool,
        gradient: bool = False,
        result: bool = True,
    ) -> tuple[Tensor, ...]:
        """Return values, and gradients if asked for, of the examples that are not retired.

        Args:
            image: The images (M, C, H, W).
            rows: The examples (M,) that they belong to.
            whole: True if these are all examples in order, once or several times.
            gradient: True if gradients are wanted.
            result: True if examples that score the most there is are retired.
        """
        function = self._with_gradient if gradient else self._without_gradient
        remaining = self.retired.remaining(len(image)) if whole and self.retired else None
        if remaining is None:
            found = self.passes.run(function, image, rows)
        else:
            nothing = image.new_full((len(image),), -math.inf)
            found = (nothing, torch.zeros_like(image)) if gradient else (nothing,)
            if len(remaining):
                some = self.passes.run(function, image.index_select(0, remaining), rows[remaining])
                found = tuple(
                    part.to(one.dtype).index_copy_(0, remaining, one)
                    for part, one in zip(found, some, strict=True)
                )
        if self.retired is not None and whole and result:
            self.retired.add_best(found[0])
        return found

    def _without_gradient(self, image: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        return (self._scored(image, rows),)

    def _with_gradient(self, image: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            image = image.detach().requires_grad_()
            value = self._scored(image, rows)
            require_gradient(value)
            # Models may keep channels last.
            gradient = torch.autograd.grad(value.sum(), image)[0].contiguous()
        self.counts.backwards += len(image)
        if self.passes.watched(image.device):
            require_finite(gradient, rows, "gradient is not finite")
        return value.detach(), gradient

    def _scored(self, image: Tensor, rows: Tensor) -> Tensor:
        value = self.score(image, rows)
        self.counts.forwards += len(image)
        require_values(value, rows)
        if self.passes.watched(image.device):
            require_numbers(value.detach().isnan(), rows, "score is not a number")
        return value
