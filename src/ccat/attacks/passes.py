"""How images go through a model: in parts that fit into memory, and only those still searched.

Shapes: images (M, C, H, W); rows (M,), the examples that images belong to; values (M,).
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_log = logging.getLogger(__name__)
_RISE = 0.1
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
    mark: Tensor | None = None  # (N,): the value above which an example has risen again
    rose: Tensor | None = None  # (N,): the number of the pass in which it last rose

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

    def side_by_side(self, searches: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
        """Return what searches of different examples find; their passes count as made at once."""
        begin, found, last = self.made, [], self.made
        for search in searches:
            self.made = begin
            found.append(search())
            last = max(last, self.made)
        self.made = last
        return found

    def note_gradient(self, gradient: Tensor, origin: "Origin") -> None:
        """Remember which examples have had a gradient that is not zero.

        Once all of them have, there is nothing more to look at.
        """
        if self.all_have_gradients:
            return
        if self.gradients is None:
            self.gradients = torch.zeros(origin.total, dtype=torch.uint8, device=gradient.device)
        alive = 1 + gradient.flatten(1).any(1).to(torch.uint8)
        self.gradients = self.gradients.scatter_reduce(0, origin.rows, alive, "amax")
        if self.watched(gradient.device):
            self.all_have_gradients = bool((self.gradients == 2).all())

    def note_value(self, value: Tensor, origin: "Origin") -> None:
        """Remember in which pass each example last rose by more than a tenth.

        Values are logarithms of confidences.
        """
        if self.mark is None or self.rose is None:
            self.mark = value.new_full((origin.total,), -math.inf)
            self.rose = torch.zeros(origin.total, dtype=torch.int64, device=value.device)
        mark = self.mark.index_select(0, origin.rows)
        rising = value.to(mark) > mark
        if value.device.type == "cpu" and not rising.any():
            return
        risen = torch.where(rising, value.to(mark) + _RISE, -math.inf)
        new = self.mark.scatter_reduce(0, origin.rows, risen, "amax")
        self.rose = torch.where(new > self.mark, self.made, self.rose)
        self.mark = new

    def still_rising(self, count: int) -> Tensor:
        """Return which of `count` examples rose in the last tenth of the passes, (N,)."""
        if self.rose is None:
            return torch.zeros(count, dtype=torch.bool)
        return (self.rose > 0.9 * self.made).cpu()

    def without_gradient(self, count: int) -> Tensor:
        """Return which of `count` examples had a zero gradient wherever it was asked for, (N,)."""
        none = torch.zeros(count, dtype=torch.bool)
        return none if self.gradients is None else (self.gradients == 1).cpu()

    def watched(self, device: torch.device) -> bool:
        """Return True if the values of this pass are to be checked.

        They always are on a CPU; on a GPU they are in the first pass and in every tenth after it.
        """
        return device.type == "cpu" or self.made % _EVERY == 1


class Origin(NamedTuple):
    """Which of `total` examples of another problem the examples of a problem are, (M,)."""

    rows: Tensor
    total: int

    @classmethod
    def of(cls, before: "Origin | None", rows: Tensor, total: int) -> "Origin":
        """Return where rows come from that were taken from what was taken before."""
        return cls(rows, total) if before is None else cls(before.rows[rows], before.total)


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

    def remaining(self, count: int) -> Tensor | None:
        """Return which of `count` images are still searched, None while all are.

        These are all examples in order, once or several times.
        To save time the rows are brought up to date in the first call and in every tenth after it.
        """
        if self.passes % _EVERY == 0:
            self.rows = (~self.examples).nonzero()[:, 0] if self.examples.any() else None
        self.passes += 1
        if self.rows is None or count == len(self.examples):
            return self.rows
        first = torch.arange(0, count, len(self.examples), device=self.rows.device)
        return (first[:, None] + self.rows).flatten()

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
        _log.info("memory does not hold %d images at once: fewer are tried", len(images))
        return None


def out_of_memory(error: RuntimeError) -> bool:
    """Return True if the error says that the memory of a device, or of the machine, ran out."""
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "out of memory" in str(error)
        or "can't allocate memory" in str(error)
    )
