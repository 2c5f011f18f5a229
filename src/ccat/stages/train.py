"""Training: from a recipe to a model, with a checkpoint after every epoch.

A run that was stopped goes on from its last checkpoint to the same weights, bit for bit, as one that was not (CPU, one thread; with
several processes, the same number of them).
"""

import math
import time
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD

from ccat.attacks import Problem
from ccat.attempts import BLOCK
from ccat.data import Images
from ccat.fields import digest
from ccat.memory import keep_freed
from ccat.models import MODELS, create_model, folded
from ccat.recipes import Probe, Recipe
from ccat.stages.ranks import ALONE, Ranks
from ccat.stages.shared import Progress, StageError, images_of, probabilities_of
from ccat.stages.tracking import Track, events
from ccat.store import Run, Tensors


def begin(path: Path, recipe: Recipe, device: str) -> Run:
    """The run of a recipe, new or there already. What the data cannot give is refused before anything is written."""
    _arguments(recipe, _split(recipe)[0])
    return Run.create(path, recipe, device)


def train(run: Run, device: str, progress: Progress, ranks: Ranks = ALONE, *, tensorboard: bool = False) -> None:
    """Trains what is not trained yet; with others, if there are any. `tensorboard`: event files beside the log."""
    keep_freed()
    with ExitStack() as open_while_training:
        try:
            open_while_training.enter_context(run.writing())
            trained = run.trained
            track: Track = lambda _: None  # noqa: E731
            if tensorboard and not trained:
                saved = run.checkpoint()
                track = open_while_training.enter_context(events(run.events, saved[1] if saved else 0))
        except BaseException:
            ranks.told(True)  # the others have nothing to do
            raise
        if not ranks.told(trained):
            _train(run.recipe, run, device, progress, ranks, track)


def help_train(recipe: Recipe, device: str, ranks: Ranks) -> None:
    """The part of those that are not the first: they compute and write nothing."""
    keep_freed()
    if not ranks.told(False):
        _train(recipe, None, device, lambda *_: None, ranks, lambda _: None)


def _train(recipe: Recipe, run: Run | None, device: str, progress: Progress, ranks: Ranks, track: Track) -> None:
    training, held_out = _split(recipe)
    if recipe.batch % ranks.count:
        raise StageError(
            f"a batch of {recipe.batch} cannot be shared by {ranks.count} processes: set --batch to a multiple of {ranks.count}"
        )
    generator = Generator().manual_seed(recipe.seed)
    model, forward = ranks.together(create_model(recipe.model, generator, **_arguments(recipe, training)).to(device))
    optimiser = SGD(model.parameters(), lr=recipe.rate, momentum=recipe.momentum, weight_decay=recipe.decay)
    epoch = _resume(ranks.told(run.checkpoint() if run else None), model, optimiser, generator)
    log = [entry for entry in run.log() if entry["epoch"] <= epoch] if run else []
    x, y = training.x.to(device), training.y.to(device)
    while epoch < recipe.epochs:
        started = time.monotonic()
        loss = _epoch(recipe, model, forward, optimiser, x, y, generator, epoch, progress, ranks)
        epoch += 1
        if run is None:
            continue
        rate = recipe.rate * recipe.schedule(epoch, recipe.epochs)
        entry = {"epoch": epoch, "loss": loss, "next_rate": rate, "training_seconds": time.monotonic() - started}
        entry |= {"processes": ranks.count} if ranks.count > 1 else {}
        log.append(entry | _probe(recipe.probe, model, held_out, Generator().manual_seed(int(digest([recipe.seed, epoch])[:15], 16))))
        run.rewrite_log(log)
        track(log[-1])
        run.save_checkpoint(_state(model, optimiser, generator), epoch)
    if run is not None:
        run.save_model(model.cpu())


def _epoch(
    recipe: Recipe,
    model: nn.Module,
    forward: nn.Module,
    optimiser: SGD,
    x: Tensor,
    y: Tensor,
    generator: Generator,
    epoch: int,
    progress: Progress,
    ranks: Ranks,
) -> float:
    """One pass over the shuffled training images; a last batch that is not full is left out."""
    model.train()
    forward.train()
    steps = len(x) // recipe.batch
    order = torch.randperm(len(x), generator=generator)[: steps * recipe.batch].view(steps, recipe.batch).to(x.device)
    total = 0.0
    for step, batch in enumerate(order):
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * recipe.schedule(epoch + step / steps, recipe.epochs)
        rows, random = ranks.share(batch), ranks.generator(generator, recipe.seed, epoch, step)
        images = x[rows].float() / 255
        images = images if recipe.augmentation is None else recipe.augmentation(images, random)
        loss = recipe.method(model, forward, images, y[rows], random)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        ranks.average_statistics(model)
        total += loss.item()
        if not math.isfinite(total):
            raise StageError(f"the loss is no longer a number in epoch {epoch + 1}, batch {step + 1}: lower the rate with --rate")
        progress(epoch * steps + step + 1, recipe.epochs * steps, f"epoch {epoch + 1}/{recipe.epochs}, loss {total / (step + 1):.3f}")
    return ranks.mean(total / steps)


def _split(recipe: Recipe) -> tuple[Images, Images]:
    images = images_of(recipe.dataset, "train")
    count = len(images) if recipe.images is None else recipe.images
    if count > len(images):
        raise StageError(f"the recipe asks for {count} training images, {recipe.dataset} has {len(images)}")
    if count < recipe.held_out + recipe.batch:
        raise StageError(f"of {count} training images {recipe.held_out} are held out, which leaves less than a batch of {recipe.batch}")
    return images[: count - recipe.held_out], images[count - recipe.held_out : count]


def _arguments(recipe: Recipe, images: Images) -> dict[str, int]:
    if recipe.model not in MODELS:
        raise StageError(f"{recipe.model} cannot be trained here, only attacked; what can be trained is {', '.join(MODELS)}")
    _, channels, height, width = images.x.shape
    shape = {"channels": channels, "classes": int(images_of(recipe.dataset, "train").y.max()) + 1}
    if recipe.model in ("trades-cnn", "msd-lenet") and (height, width) != (28, 28):
        raise StageError(f"{recipe.model} takes images of 28x28, not {height}x{width}: choose --model lenet or resnet20")
    if recipe.model != "lenet":
        return shape
    if height != width:
        raise StageError(f"lenet takes square images, not {height}x{width}: choose --model resnet20, or crop them")
    return {**shape, "size": height}


def _probe(probe: Probe, model: nn.Module, images: Images, generator: Generator) -> dict[str, float]:
    """Clean and adversarial error and confidence, without rejection."""
    model.eval()
    device = next(model.parameters()).device
    x, y = images.floats().to(device), images.y.to(device)
    problem = Problem.of(folded(model, x), x, y, probe.threat, probe.objective, batch=BLOCK)
    attacked = problem.images(probe.attack(problem, generator))
    entry: dict[str, float] = {}
    for name, data in (("clean", x), ("adversarial", attacked)):
        confidence, predicted = probabilities_of(model, data).max(1)
        entry |= {f"{name}_error": (predicted != images.y).double().mean().item(), f"{name}_confidence": confidence.mean().item()}
    return entry


def _state(model: nn.Module, optimiser: SGD, generator: Generator) -> Tensors:
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for name, weight in model.named_parameters():
        if (momentum := optimiser.state[weight].get("momentum_buffer")) is not None:
            tensors[f"momentum.{name}"] = momentum
    return {**tensors, "generator": generator.get_state()}


def _resume(saved: tuple[Tensors, int] | None, model: nn.Module, optimiser: SGD, generator: Generator) -> int:
    """Puts everything back as it was after the last finished epoch, and gives its number."""
    if saved is None:
        return 0
    tensors, epoch = saved
    try:
        model.load_state_dict({name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")})
    except RuntimeError as wrong:
        raise StageError("the checkpoint of the run does not fit its model; delete it to train from the beginning") from wrong
    for name, weight in model.named_parameters():
        if f"momentum.{name}" in tensors:
            optimiser.state[weight]["momentum_buffer"] = tensors[f"momentum.{name}"].to(weight.device)
    generator.set_state(tensors["generator"])
    return epoch
