"""Train a run: from the recipe of a run to its weights, with a checkpoint per epoch.

A run that was interrupted goes on from its last checkpoint to the same weights, bit for bit.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from ccat.attacks.inputs import require_answers
from ccat.data import Images, class_count, conversions_of, names_of_classes, split_of
from ccat.errors import PipelineError
from ccat.memory import keep_freed
from ccat.models import create_model
from ccat.models.registry import arguments_for
from ccat.progress import Progress
from ccat.runs import Run
from ccat.sealed import Tensors
from ccat.training.distributed import ALONE, Ranks
from ccat.training.loop import Epoch, State, epochs
from ccat.training.recipe import Recipe
from ccat.training.tensorboard import Track, events

_log = logging.getLogger(__name__)
FEW = 5  # a class with fewer training images is warned of
SHOWN = 20  # with more classes, their counts are summarised


def begin(path: Path, recipe: Recipe, device: str) -> Run:
    """Open the run of a recipe, or create it.

    Raises:
        PipelineError: Before writing anything, if the recipe does not fit its data.
        ValueError: Likewise, if a factory of the user's own cannot be called, or its model does not
            map such images to a logit for each class.

    """
    training, _ = images_of(recipe)
    arguments = _arguments(recipe, training)
    if ":" in recipe.model:  # a factory that fails should leave no run behind
        model = create_model(recipe.model, Generator().manual_seed(recipe.seed), **arguments)
        _require_logits(recipe.model, model, training[:2].floats(), arguments["classes"])
    return Run.create(path, recipe, device)


def _require_logits(name: str, model: nn.Module, x: Tensor, classes: int) -> None:
    """Raise ValueError unless a user's model gives a logit for each class."""
    try:
        with torch.no_grad():
            logits = model.eval()(x)
    except Exception as wrong:  # a user's code may raise anything
        shape = "x".join(map(str, x.shape[1:]))
        raise ValueError(
            f"{name} cannot take images of {shape}: {type(wrong).__name__}: {wrong}"
        ) from wrong
    require_answers(logits, len(x))
    if logits.shape[1] != classes:
        raise ValueError(
            f"{name} gives {logits.shape[1]} logits per image, but there are {classes} classes: "
            "its factory needs a parameter `classes` or `num_classes`, and must use it"
        )


def train(
    run: Run, device: str, progress: Progress, ranks: Ranks = ALONE, *, tensorboard: bool = False
) -> None:
    """Train a run to the end, from its last checkpoint if it has one; do nothing if it is trained.

    Args:
        run: The run to train and to write to.
        device: Where to compute.
        progress: Called after every step.
        ranks: The processes that train together; this is rank 0, the others call `help_train`.
        tensorboard: Also write the log as event files for TensorBoard.

    """
    keep_freed()
    with ExitStack() as stack:
        try:
            stack.enter_context(run.writing())
            trained = run.training.trained
            track: Track = lambda _: None  # noqa: E731
            if tensorboard and not trained:
                saved = run.training.checkpoint()
                track = stack.enter_context(events(run.training.events, saved[1] if saved else 0))
        except BaseException:
            ranks.broadcast(True)  # the other processes have nothing to do
            raise
        if ranks.broadcast(trained):
            return
        saved = run.training.checkpoint()
        log = [entry for entry in run.training.log() if saved and entry["epoch"] <= saved[1]]
        if saved:
            _log.info("%s: training goes on after epoch %d", run.path, saved[1])
        model, trained_epochs = _epochs(run.recipe, saved, device, progress, ranks)
        for epoch in trained_epochs:
            log.append(epoch.entry)
            run.training.save_log(log)
            track(epoch.entry)
            run.training.save_checkpoint(epoch.state.tensors, epoch.number)
        run.training.save_model(model.cpu())
        ranks.broadcast(True)  # the others leave together with this process


def help_train(recipe: Recipe, device: str, ranks: Ranks) -> None:
    """Train together with rank 0, in a process of another rank, which writes nothing."""
    keep_freed()
    if not ranks.broadcast(False):
        _, trained_epochs = _epochs(recipe, None, device, lambda *_: None, ranks)
        for _ in trained_epochs:
            pass  # only rank 0 is given epochs
        ranks.broadcast(False)


def _epochs(
    recipe: Recipe,
    saved: tuple[Tensors, int] | None,
    device: str,
    progress: Progress,
    ranks: Ranks,
) -> tuple[nn.Module, Iterator[Epoch]]:
    """Return the model of a recipe and the epochs that train it, from the checkpoint of rank 0."""
    saved = ranks.broadcast(saved)
    start = State(epoch=saved[1], tensors=saved[0]) if saved else None
    training, monitor = images_of(recipe)
    generator = Generator().manual_seed(recipe.seed)
    model = create_model(recipe.model, generator, **_arguments(recipe, training)).to(device)
    return model, epochs(
        recipe,
        model,
        training,
        monitor,
        generator,
        start=start,
        ranks=ranks,
        progress=progress,
    )


def composition(recipe: Recipe) -> str:
    """Return what a recipe trains on in words: how many images there are of each class.

    Pictures that are converted are counted on a line of their own, before. Warns of
    classes that training does not see, or hardly.
    """
    training, monitor = images_of(recipe)
    classes = class_count(recipe.dataset)
    counts = torch.bincount(training.y, minlength=classes).tolist()
    names = names_of_classes(recipe.dataset) or tuple(map(str, range(classes)))
    few = [f"{name} ({count})" for name, count in zip(names, counts, strict=True) if count < FEW]
    if few:
        shown = ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
        warnings.warn(f"training sees hardly any images of some classes: {shown}", stacklevel=2)
    each = f"{min(counts)} to {max(counts)} of each of {classes} classes"
    if classes <= SHOWN:
        each = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
    told = f"training on {len(training)} images ({each}); {len(monitor)} others are monitored"
    return "\n".join(part for part in (conversions_of(recipe.dataset), told) if part)


def images_of(recipe: Recipe) -> tuple[Images, Images]:
    """Return the images to train on and those to monitor."""
    images = split_of(recipe.dataset, "train")
    count = len(images) if recipe.images is None else recipe.images
    if count > len(images):
        raise PipelineError(
            f"the recipe asks for {count} training images, {recipe.dataset} has {len(images)}"
        )
    monitored = recipe.monitor if 2 * recipe.monitor <= count else count // 5
    if monitored == 0:
        raise PipelineError(f"{count} training images are too few to train on and to monitor")
    return images[: count - monitored], images[count - monitored : count]


def _arguments(recipe: Recipe, images: Images) -> dict[str, int]:
    """Return the arguments that the recipe's network is built with for these images."""
    _, channels, height, width = images.x.shape
    if recipe.augmentation is not None and recipe.augmentation.padding >= min(height, width):
        raise PipelineError(
            f"--augmentation.padding must be below {min(height, width)} for images of "
            f"{height}x{width}, not {recipe.augmentation.padding}"
        )
    return arguments_for(recipe.model, channels, height, width, class_count(recipe.dataset))
