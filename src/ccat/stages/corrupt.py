"""Corrupting: the test images of a run under every corruption of their benchmark, published or generated, and what the model answers."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ccat.data import Images
from ccat.data.corruptions import CIFAR10_C, MNIST_C, corrupted, published
from ccat.data.sources import user_directories
from ccat.stages.detect import detectors_of, fit_missing
from ccat.stages.shared import Progress, StageError, counted, data_digest, probabilities_of
from ccat.store import Run

SCORE = "score "  # before the name of a corruption: not probabilities, but what a detector says
_BY_SHAPE = {(1, 28, 28): ("mnist-c", MNIST_C), (3, 32, 32): ("cifar10-c", CIFAR10_C)}


def corrupt(run: Run, device: str, progress: Progress, examples: int | None = None, seed: int = 0) -> str:
    """Computes and stores probabilities; gives the name of the set. What is stored for these weights and numbers is not computed again."""
    name, sources = corruptions_of(run.recipe.dataset, examples, seed)
    about = {"examples": examples, "seed": seed}
    with run.writing():
        stored = run.corrupted(name, data_digest(run.recipe.dataset))
        if stored is not None and stored[1] == about and {f"{one} {severity}" for one, severity in sources} <= set(stored[0]):
            return name
        model = run.model().to(device)
        found = {}
        for done, ((corruption, severity), load) in enumerate(sources.items(), start=1):
            images = load()
            found[f"{corruption} {severity}"] = probabilities_of(model, images.x)
            if run.recipe.detector is not None:
                found[f"{SCORE}{corruption} {severity}"] = _scores(run, images, device)
            progress(done, len(sources), f"{corruption} {severity}")
        run.save_corrupted(name, found, data_digest(run.recipe.dataset), about)
    return name


def _scores(run: Run, images: Images, device: str) -> Tensor:
    """Of the detector that was fitted first."""
    fit_missing(run, [], device, lambda *_: None)
    detectors = detectors_of(run.path, run.weights, tuple(run.detectors()), device, tuple(images.x.shape[1:]))
    return detectors[run.first_detector()](images.floats().to(device))


def corruptions_of(dataset: str, examples: int | None, seed: int) -> tuple[str, dict[tuple[str, int], Callable[[], Images]]]:
    """The set for a data set's images and how to make each of its parts. Published files are taken where CCAT_DATA has them."""
    images = counted(dataset)
    shape = tuple(images.x.shape[1:])
    if shape not in _BY_SHAPE:
        raise StageError(f"there are corruptions for images of 1x28x28 and 3x32x32, not of {'x'.join(map(str, shape))}")
    if examples is not None and not 1 <= examples <= len(images):
        raise StageError(f"--examples must be 1 to {len(images)}, not {examples}")
    images = images[:examples]
    name, table = _BY_SHAPE[shape]
    if dataset in ("mnist", "cifar10"):
        for _, folder in user_directories(None):
            if files := published(folder, name):
                return name, {key: partial(_first, load, images, f"{name} {key[0]} {key[1]}") for key, load in files.items()}
    return f"{name}-generated", {
        (corruption, severity): partial(corrupted, images, table, corruption, severity, seed)
        for corruption, levels in table.items()
        for severity in range(1, len(levels) + 1)
    }


def _first(load: Callable[[], Images], images: Images, name: str) -> Images:
    """As many as there are clean ones, whose labels they must have."""
    found = load()[: len(images)]
    if not found.y.equal(images.y):
        raise StageError(f"{name} has other labels than the test images: it is not the published set")
    return found


def contact_sheet(dataset: str, seed: int = 0, columns: int = 8) -> tuple[str, list[tuple[str, NDArray[np.float32]]]]:
    """The first images as they are and under every corruption, at its middle severity: by name, (columns, C, H, W) in [0,1]."""
    name, sources = corruptions_of(dataset, columns, seed)
    rows = [("none", counted(dataset)[:columns].floats().numpy())]
    for corruption in dict.fromkeys(key[0] for key in sources):
        severities = [severity for one, severity in sources if one == corruption]
        middle = severities[len(severities) // 2]
        rows.append((corruption, sources[corruption, middle]().floats().numpy()))
    return name, rows
