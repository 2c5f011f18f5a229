"""How images go through a model: in parts that fit into memory, and only those still searched.

Shapes: images (M, C, H, W); rows (M,), the examples that images belong to; values (M,).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ccat.attacks.inputs import require_answers, require_classes
from ccat.objectives import Objective, any_class_confidence, most, target_confidence

_EVERY = 10  # reading a value from a GPU waits for it, so it is done once in so many passes


@dataclass
class Counts:
    """The number of images that went forward and backward through a model."""

    forwards: int = 0
    backwards: int = 0


@dataclass
class Passes:
    """Runs images through a model in parts of `batch` (None: all at once) and counts the passes.

    Where memory runs out, `batch` is halved, for good.
    """

    batch: int | None = None
    made: int = 0
    gradients: Tensor | None = None  # (N,): 0 not asked for, 1 zero wherever it was, 2 not zero
    all_have_gradients: bool = False

    def run(
        self, function: Callable[[Tensor, Tensor], tuple[Tensor, ...]], images: Tensor, rows: Tensor
    ) -> tuple[Tensor, ...]:
        """Return `function(images, rows)`, computed part by part.

        Args:
            function: Takes images (M, C, H, W) and rows (M,); each tensor that it returns has one
                entry per image.
            images: The images (M, C, H, W).
            rows: The examples (M,) that the images belong to.

        Raises:
            MemoryError: If not even one image at a time fits into memory.
        """
        self.made += 1
        done: list[tuple[Tensor, ...]] = []
        first = 0
        while first < len(images):
            part = slice(first, first + (self.batch or len(images)))
            found = _tried(function, images[part], rows[part])
            if found is None:
                self.batch = max(1, len(images[part]) // 2)
                if images.is_cuda:
                    torch.cuda.empty_cache()
                continue
            done.append(found)
            first = part.stop
        return (
            done[0]
            if len(done) == 1
            else tuple(torch.cat(parts) for parts in zip(*done, strict=True))
        )

    def note_gradient(self, gradient: Tensor, rows: Tensor, count: int) -> None:
        """Remember which of `count` examples have had a gradient that is not zero.

        Once all of them have, there is nothing more to look at.
        """
        if self.all_have_gradients:
            return
        if self.gradients is None:
            self.gradients = torch.zeros(count, dtype=torch.uint8, device=gradient.device)
        alive = 1 + gradient.flatten(1).any(1).to(torch.uint8)
        self.gradients = self.gradients.scatter_reduce(0, rows, alive, "amax")
        if self.watched(gradient.device):
            self.all_have_gradients = bool((self.gradients == 2).all())

    def without_gradient(self, count: int) -> Tensor:
        """Return which of `count` examples had a zero gradient wherever it was asked for, (N,)."""
        none = torch.zeros(count, dtype=torch.bool)
        return none if self.gradients is None else (self.gradients == 1).cpu()

    def watched(self, device: torch.device) -> bool:
        """Return True if the values of this pass are to be checked.

        They always are on a CPU; on a GPU they are in the first pass and in every tenth after it.
        """
        return device.type == "cpu" or self.made % _EVERY == 1


class Retired:
    """The examples of a search that need no further passes.

    An example is retired because it has scored the `most` there is, or because the search says so.
    """

    def __init__(self, count: int, device: torch.device, most: float) -> None:
        self.examples = torch.zeros(count, dtype=torch.bool, device=device)
        self.most = most
        self.passes = 0
        self.rows: Tensor | None = None

    def add_best(self, value: Tensor) -> None:
        """Retire the examples whose value (N,) is the largest there is."""
        self.examples |= value >= self.most

    def add(self, examples: Tensor) -> None:
        """Retire the examples for which the mask (N,) is true as well."""
        self.examples |= examples

    def remaining(self) -> Tensor | None:
        """Return the rows that are still searched, None while all are.

        To save time the rows are brought up to date in the first call and in every tenth after it.
        """
        if self.passes % _EVERY == 0:
            self.rows = (~self.examples).nonzero()[:, 0] if self.examples.any() else None
        self.passes += 1
        return self.rows

    @property
    def complete(self) -> bool:
        """True if every example was retired when `remaining` last looked."""
        return self.rows is not None and len(self.rows) == 0


def _tried(
    function: Callable[[Tensor, Tensor], tuple[Tensor, ...]], images: Tensor, rows: Tensor
) -> tuple[Tensor, ...] | None:
    """Return the function's result, or None if memory does not suffice for these many images."""
    try:
        return function(images, rows)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        if len(images) == 1:
            raise MemoryError(
                f"not even one image at a time fits into the memory of {images.device}"
            ) from error
        return None


def out_of_memory(error: RuntimeError) -> bool:
    """Return True if the error says that the memory of a device, or of the machine, ran out."""
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "out of memory" in str(error)
        or "can't allocate memory" in str(error)
    )


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
        """Return which classes (M, K) count as an error of examples (M,)."""
        allowed = torch.ones(len(rows), self.classes, dtype=torch.bool, device=rows.device)
        if self.objective is any_class_confidence:
            return allowed
        return allowed.scatter(1, self.labels[rows, None], False)

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


class Origin(NamedTuple):
    """Which of `total` examples of another problem the examples of a problem are, (M,)."""

    rows: Tensor
    total: int

    @classmethod
    def of(cls, before: "Origin | None", rows: Tensor, total: int) -> "Origin":
        """Return where rows come from that were taken from what was taken before."""
        return cls(rows, total) if before is None else cls(before.rows[rows], before.total)


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
