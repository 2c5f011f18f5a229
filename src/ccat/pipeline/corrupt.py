"""Measure a run on corrupted test images: MNIST-C or CIFAR-10-C, published or generated."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ccat.data import Images, counted, data_digest
from ccat.data.corruptions import CIFAR10_C, MNIST_C, corrupted, published, require_libraries
from ccat.data.sources import user_directories
from ccat.errors import PipelineError
from ccat.models.predict import probabilities
from ccat.pipeline.answers import judges_of
from ccat.pipeline.detect import fit_missing
from ccat.progress import Progress
from ccat.runs import Run
from ccat.runs.answers import CorruptedAnswers, CorruptedKey

_BY_SHAPE = {(1, 28, 28): ("mnist-c", MNIST_C), (3, 32, 32): ("cifar10-c", CIFAR10_C)}
Sources = dict[CorruptedKey, Callable[[], Images]]


def corrupt(
    run: Run, device: str, progress: Progress, examples: int | None = None, seed: int = 0
) -> str:
    """Store what a run answers to every corruption of its images.

    Args:
        run: A trained run.
        device: Where to compute.
        progress: Called after each corruption.
        examples: The first test images; by default all that are counted.
        seed: Of generated corruptions.

    Returns:
        The name of the set. What is stored for these weights and numbers is not computed again.
    """
    name, sources = corruptions_of(run.recipe.dataset, examples, seed)
    made = {"examples": examples, "seed": seed}
    data = data_digest(run.recipe.dataset)
    with run.writing():
        stored = run.answers.corrupted(name, data)
        if stored is not None and stored[1] == made and sources.keys() <= stored[0].keys():
            return name
        fit_missing(run, [], device, progress)
        model = run.training.model().to(device)
        judges = judges_of(run, device)
        judge = judges[run.rejection.judges(list(judges))[0]]
        found = {}
        for done, (key, load) in enumerate(sources.items(), start=1):
            images = load()
            given = probabilities(model, images.x)
            score = judge(images.floats().to(device), given)
            found[key] = CorruptedAnswers(given, score)
            progress(done, len(sources), f"{key.corruption} {key.severity}")
        run.answers.save_corrupted(name, found, data, made)
    return name


def corruptions_of(dataset: str, examples: int | None, seed: int) -> tuple[str, Sources]:
    """Return the set of corruptions for a data set's images, and how to make each of them.

    Published files are taken if CCAT_DATA has them.

    Raises:
        PipelineError: If there are no corruptions of such images, or not so many examples.
    """
    images = counted(dataset)
    shape = tuple(images.x.shape[1:])
    if shape not in _BY_SHAPE:
        size = "x".join(map(str, shape))
        raise PipelineError(f"there are corruptions of 1x28x28 and 3x32x32 images, not of {size}")
    if examples is not None and not 1 <= examples <= len(images):
        raise PipelineError(f"--examples must be 1 to {len(images)}, not {examples}")
    images = images[:examples]
    name, table = _BY_SHAPE[shape]
    if dataset in ("mnist", "cifar10"):
        for _, folder in user_directories(None):
            if files := published(folder, name):
                return name, {
                    CorruptedKey(*key): partial(_first, load, images, f"{name} {key[0]} {key[1]}")
                    for key, load in files.items()
                }
    require_libraries(table)
    return f"{name}-generated", {
        CorruptedKey(corruption, severity): partial(
            corrupted, images, table, corruption, severity, seed
        )
        for corruption, levels in table.items()
        for severity in range(1, len(levels) + 1)
    }


def contact_sheet(
    dataset: str, seed: int = 0, columns: int = 8
) -> tuple[str, list[tuple[str, NDArray[np.float32]]]]:
    """Return the first images under every corruption, at its middle severity.

    Returns:
        The name of the set, and rows of a name and images (columns, C, H, W) in [0,1].
    """
    name, sources = corruptions_of(dataset, columns, seed)
    rows = [("none", counted(dataset)[:columns].floats().numpy())]
    for corruption in dict.fromkeys(key.corruption for key in sources):
        keys = [key for key in sources if key.corruption == corruption]
        rows.append((corruption, sources[keys[len(keys) // 2]]().floats().numpy()))
    return name, rows


def _first(load: Callable[[], Images], images: Images, name: str) -> Images:
    """The corrupted versions of these images, whose labels they must have."""
    found = load()[: len(images)]
    if not found.y.equal(images.y):
        raise PipelineError(
            f"{name} has other labels than the test images: it is not the published set"
        )
    return found
