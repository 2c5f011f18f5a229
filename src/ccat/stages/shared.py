"""What stages share: the data of a run, its clean probabilities, and how they tell of their progress."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

import torch
from torch import Tensor, nn

from ccat.data import UNVERIFIED, Images, load_dataset
from ccat.data.own import own_path
from ccat.store import Run

Progress = Callable[[int, int, str], None]  # done, of how many, what

HELD_OUT = 1000  # so many test images, the last ones, choose the threshold and are not counted; of small sets half of them


class StageError(Exception):
    """A stage cannot do what was asked. The message says why and what to do."""


def images_of(dataset: str, split: str) -> Images:
    """A split of a data set; loaded once per process, one's own again if they changed."""
    return _loaded(dataset, split, _version(dataset))


@lru_cache(maxsize=4)
def _loaded(dataset: str, split: str, version: tuple[str, int]) -> Images:
    return load_dataset(dataset, split)


def _version(dataset: str) -> tuple[str, int]:
    """Of one's own images: where they lie, whatever the working directory, and when they were last changed."""
    path, _ = own_path(dataset.removeprefix(UNVERIFIED))
    mine = dataset.startswith(UNVERIFIED) and path.exists()
    return (str(path.resolve()), path.stat().st_mtime_ns) if mine else ("", 0)


def held_out(dataset: str) -> int:
    """How many of the last test images choose the threshold."""
    return min(HELD_OUT, len(images_of(dataset, "test")) // 2)


def counted(dataset: str) -> Images:
    """The test images that are attacked and counted."""
    return images_of(dataset, "test")[: -held_out(dataset)]


def data_digest(dataset: str) -> str:
    """A SHA of the test split."""
    return _digest(dataset, _version(dataset))


@lru_cache(maxsize=4)
def _digest(dataset: str, version: tuple[str, int]) -> str:
    images = images_of(dataset, "test")
    return hashlib.sha256(images.x.numpy().tobytes() + images.y.numpy().tobytes()).hexdigest()


def probabilities_of(model: nn.Module, x: Tensor, batch: int = 250) -> Tensor:
    """Predicted probabilities of byte or float images, on the CPU."""
    device = next((weight.device for weight in model.parameters()), x.device)
    parts = []
    with torch.no_grad():
        for begin in range(0, len(x), batch):
            part = x[begin : begin + batch].to(device)
            parts.append(model(part.float() / 255 if part.dtype == torch.uint8 else part).softmax(1).cpu())
    return torch.cat(parts)


def clean_probabilities(run: Run, device: str = "cpu") -> Tensor:
    """Of the test split, computed once for these weights."""
    data = data_digest(run.recipe.dataset)
    stored = run.clean(data)
    if stored is None:
        stored = probabilities_of(run.model().to(device), images_of(run.recipe.dataset, "test").x)
        with suppress(OSError):  # a full disk costs only the next computation
            run.save_clean(stored, data)
    return stored


def require_data(run: Run) -> None:
    """Numbers on other images than these are no part of a worst case."""
    if run.attacked_data() - {data_digest(run.recipe.dataset)}:
        raise StageError(
            f"{run.path}: {run.recipe.dataset} is not the data that was attacked; get that back, or use another --run directory"
        )
