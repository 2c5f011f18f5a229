"""What a problem maximises: a score of images, in most cases an objective of a model's logits.

Shapes: images (M, C, H, W); rows (M,), the examples that images belong to; values (M,).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ccat.attacks.inputs import require_answers, require_classes
from ccat.objectives import Objective, any_class_confidence, goal_of, most, target_confidence


class Score(Protocol):
    """A function of images and of the examples they belong to, which a problem maximises."""

    def __call__(self, images: Tensor, rows: Tensor, /) -> Tensor:
        """Return the values (M,) of images (M, C, H, W) that belong to the examples rows (M,)."""


@runtime_checkable
class BoundedScore(Protocol):
    """A score that declares the largest value it can take.

    An example that has reached this value needs no further passes.
    """

    most: float


@runtime_checkable
class TargetedScore(Protocol):
    """A score that knows classes, so that each can be made a target."""

    def targets(self, rows: Tensor) -> Tensor | None:
        """Return which classes (M, K) count as an error of examples (M,)."""

    def towards(self, target: Tensor) -> Score:
        """Return the score that makes the model sure of a class (M,) for each of M examples."""

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits (M, K) of images, without a gradient."""


class ModelScore:
    """The objective of a model's logits, with the model in evaluation mode.

    After every call the model's mode, weights and `.grad` are as they were before.
    """

    def __init__(self, model: nn.Module, labels: Tensor, objective: Objective) -> None:
        self.model, self.labels, self.objective = model, labels, objective
        self.most = most(objective)
        # Looking for these takes as long as a small layer, so it is done once.
        self.modules, self.weights = list(model.modules()), list(model.parameters())
        self.classes = 0  # not known before the first pass

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        with _as_frozen(self.modules, self.weights):
            logits = self.model(images)
        require_answers(logits, len(images))
        if self.classes == 0:
            require_classes(logits, self.labels)
            self.classes = logits.shape[1]
        return self.objective(logits.to(images.dtype), self.labels[rows])

    def targets(self, rows: Tensor) -> Tensor | None:
        """Return which classes (M, K) count as an error; None if no class is what is looked for."""
        if goal_of(self.objective) == "rejection":
            return None
        allowed = torch.ones(len(rows), self.classes, dtype=torch.bool, device=rows.device)
        if self.objective is any_class_confidence:
            return allowed
        return allowed.scatter(1, self.labels[rows, None], False)

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits of images, without a gradient."""
        with torch.no_grad(), _as_frozen(self.modules, self.weights):
            found: Tensor = self.model(images)
        return found

    def towards(self, target: Tensor) -> "ModelScore":
        """Return the score that makes the model sure of a class (M,) for each of M examples."""
        return ModelScore(self.model, target, target_confidence)


class ScoreOfRows:
    """A score for some of the examples that another score is about."""

    def __init__(self, score: Score, rows: Tensor) -> None:
        self.score, self.rows = score, rows

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        return self.score(images, self.rows[rows])

    def targets(self, rows: Tensor) -> Tensor | None:
        """Return which classes (M, K) count as an error; None if the score knows no classes."""
        known = isinstance(self.score, TargetedScore)
        return self.score.targets(self.rows[rows]) if known else None  # type: ignore[attr-defined]

    def towards(self, target: Tensor) -> Score:
        """Return the score that makes the model sure of a class (M,) for each of M examples."""
        assert isinstance(self.score, TargetedScore)
        return self.score.towards(target)

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits of images, without a gradient."""
        assert isinstance(self.score, TargetedScore)
        return self.score.logits(images)


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode with weights that ask for no gradient, for a `with` block.

    Afterwards each module and each weight is put back as it was.
    """
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
