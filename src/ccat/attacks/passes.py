"""How images go through a model: so many at once that memory suffices, and only those whose search goes on."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_EVERY = 10  # on a GPU to look at a value means to wait for it: only every so many passes


@dataclass
class Passes:
    """`batch` images at once (None: all), halved for good where memory ends. Counts the passes made."""

    batch: int | None = None
    made: int = 0

    def through(self, function: Callable[[Tensor, Tensor], tuple[Tensor, ...]], images: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        """The function of (images (M, C, H, W), rows (M,)), part by part; each of its results has one entry per image."""
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
        return done[0] if len(done) == 1 else tuple(torch.cat(parts) for parts in zip(*done, strict=True))

    def watched(self, device: torch.device) -> bool:
        """Whether values of this pass are looked at: always, but on a GPU in the first one and every tenth."""
        return device.type == "cpu" or self.made % _EVERY == 1


class Rest:
    """Which examples of a search have ended, because they score the `most` there is or because the search says so."""

    def __init__(self, count: int, device: torch.device, most: float) -> None:
        self.ended = torch.zeros(count, dtype=torch.bool, device=device)
        self.most = most
        self.passes = 0
        self.rows: Tensor | None = None

    def see(self, value: Tensor) -> None:
        """What was scored (N,)."""
        self.ended |= value >= self.most

    def end(self, examples: Tensor) -> None:
        """These (N,), too."""
        self.ended |= examples

    def going(self) -> Tensor | None:
        """The examples that go on, None while all do; brought up to date every tenth pass."""
        if self.passes % _EVERY == 0:
            self.rows = (~self.ended).nonzero()[:, 0] if self.ended.any() else None
        self.passes += 1
        return self.rows

    @property
    def all_over(self) -> bool:
        """Whether none goes on, as of when it was last looked at."""
        return self.rows is not None and len(self.rows) == 0


def _tried(function: Callable[[Tensor, Tensor], tuple[Tensor, ...]], images: Tensor, rows: Tensor) -> tuple[Tensor, ...] | None:
    """None where memory does not suffice for several images at once."""
    try:
        return function(images, rows)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        if len(images) == 1:
            raise MemoryError(f"not even one image at a time fits into the memory of {images.device}") from error
        return None


def out_of_memory(error: RuntimeError) -> bool:
    """Of a device, or of the machine where it says so instead of ending the process."""
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error) or "can't allocate memory" in str(error)
