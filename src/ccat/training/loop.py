"""The training loop, in memory: steps on shuffled batches, with the state after every epoch.

Training that starts from a stored state ends with the same weights, bit for bit, as training that
was never interrupted (on a CPU with one thread; with several processes, the same number of them).

Shapes: images (N, C, H, W) uint8, labels (N,); batches are divided by 255.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ccat.attacks import Problem
from ccat.codec import seed_from
from ccat.data import Images
from ccat.errors import PipelineError
from ccat.models import attack_copy
from ccat.models.predict import probabilities
from ccat.progress import Progress, inner_of
from ccat.training.distributed import ALONE, Ranks
from ccat.training.methods import Method
from ccat.training.recipe import Probe, Recipe

_PROBED = 100  # monitored images that are attacked at a time


@dataclass(frozen=True, eq=False)
class State:
    """Everything that training goes on from: weights, momentum and random numbers, by name."""

    epoch: int  # the epochs that are over
    tensors: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Epoch:
    """An epoch that is over: its entry of the log, and the state that training can go on from."""

    entry: dict[str, float]
    state: State

    @property
    def number(self) -> int:
        """The number of this epoch, from 1 on."""
        return self.state.epoch


def epochs(
    recipe: Recipe,
    model: nn.Module,
    training: Images,
    monitor: Images,
    generator: Generator,
    *,
    start: State | None = None,
    ranks: Ranks = ALONE,
    progress: Progress = lambda *_: None,
) -> Iterator[Epoch]:
    """Train a model in place, on the device it is on, and yield each epoch that is over.

    With `recipe.average`, the model has the averaged weights once all epochs are over.

    Args:
        recipe: Says how to train; its `dataset`, `model`, `images` and `monitor` are not used here.
        model: Maps images (N, C, H, W) in [0,1] to logits (N, K).
        training: The images to train on; a last batch that is not full is left out.
        monitor: Images that are not trained on but attacked by the recipe's probe.
        generator: The source of every random draw; it made the first weights, too.
        start: Goes on from here instead of from the weights that the model has.
        ranks: The processes that train this model together. Only rank 0 yields epochs.
        progress: Called after every step with the steps done, the steps in all, and a text.

    Raises:
        PipelineError: If the loss is no longer a number, if `start` is of another model, if a
            batch cannot be shared by the processes.
        ValueError: If the method returns anything but a scalar tensor with a gradient.

    """
    if recipe.batch % ranks.count:
        raise PipelineError(
            f"a batch of {recipe.batch} cannot be shared by {ranks.count} processes: set --batch "
            f"to a multiple of {ranks.count}"
        )
    size = min(recipe.batch, len(training) // ranks.count * ranks.count)
    if size == 0:
        raise PipelineError(f"{len(training)} images are too few for {ranks.count} processes")
    model, forward = ranks.wrap(model)
    optimiser = optimiser_of(recipe, model)
    average = average_of(recipe, model)
    if start is not None:
        _restore(start, model, optimiser, average, generator)
    device = next(model.parameters()).device
    x, y = training.x.to(device), training.y.to(device)
    steps = len(x) // size

    for epoch in range(start.epoch if start else 0, recipe.epochs):
        began, total = time.monotonic(), 0.0
        model.train()
        forward.train()
        order = torch.randperm(len(x), generator=generator)[: steps * size]
        for step, batch in enumerate(order.view(steps, size).to(device)):
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate * recipe.schedule(epoch + step / steps, recipe.epochs)
            rows = ranks.share(batch)
            random = ranks.generator(generator, recipe.seed, epoch, step)
            images = x[rows].float() / 255
            if recipe.augmentation is not None:
                images = recipe.augmentation(images, random)

            method = recipe.method.at((epoch + step / steps) / recipe.epochs)
            with _seeded(device, [recipe.seed, epoch, step, ranks.rank]):
                loss = method(model, forward, images, y[rows], random)
            _require_loss(method, loss)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            ranks.average_statistics(model)
            if average is not None:
                average.update_parameters(model)

            total += loss.item()
            if not math.isfinite(total):
                raise PipelineError(
                    f"the loss is no longer a number in epoch {epoch + 1}, batch {step + 1}: "
                    f"lower the rate with --rate"
                )
            _tell(progress, (epoch, recipe.epochs), (step, steps), total / (step + 1))

        mean, number = ranks.mean(total / steps), epoch + 1
        if not ranks.first:
            continue
        entry = {
            "epoch": number,
            "loss": mean,
            "next_rate": recipe.rate * recipe.schedule(number, recipe.epochs),
            "training_seconds": time.monotonic() - began,
        }
        if ranks.count > 1:
            entry["processes"] = ranks.count
        result = model if average is None else average.module
        entry |= probed(recipe.probe, result, monitor, _probe_generator(recipe.seed, number))
        yield Epoch(entry, _state(number, model, optimiser, average, generator))
    if average is not None:
        model.load_state_dict(average.module.state_dict())


def _tell(progress: Progress, epoch: tuple[int, int], step: tuple[int, int], loss: float) -> None:
    """Report a step that is over: which of how many, in which epoch of how many."""
    done, steps = step[0] + 1, step[1]
    text = f"epoch {epoch[0] + 1}/{epoch[1]}, loss {loss:.3f}"
    progress(epoch[0] * steps + done, epoch[1] * steps, text)
    inner_of(progress)(done, steps, f"epoch {epoch[0] + 1}")


def probed(
    probe: Probe, model: nn.Module, images: Images, generator: Generator
) -> dict[str, float]:
    """Return the error and mean confidence on clean and on attacked images, without rejection."""
    model.eval()
    device = next(model.parameters()).device
    x, y = images.floats().to(device), images.y.to(device)
    problem = Problem.of(attack_copy(model, x), x, y, probe.threat, probe.objective, batch=_PROBED)
    attacked = problem.images(probe.attack(problem, generator))
    entry: dict[str, float] = {}
    for name, data in (("clean", x), ("adversarial", attacked)):
        confidence, predicted = probabilities(model, data).max(1)
        entry[f"{name}_error"] = (predicted != images.y).double().mean().item()
        entry[f"{name}_confidence"] = confidence.mean().item()
    return entry


@contextmanager
def _seeded(device: torch.device, place: Sequence[int]) -> Iterator[None]:
    """Seed PyTorch's global generator, which dropout draws from, and restore it afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed_from(place))
        yield


def _probe_generator(seed: int, epoch: int) -> Generator:
    """Random numbers of the probe's own, so that probing changes nothing in training."""
    return Generator().manual_seed(seed_from([seed, epoch]))


def _require_loss(method: Method, loss: object) -> None:
    """Raise unless a method returned what can be descended."""
    must = f"{type(method).__name__} must return the loss of the batch as a scalar tensor"
    if not isinstance(loss, Tensor):
        raise ValueError(f"{must}, not {type(loss).__name__}")
    if loss.ndim:
        raise ValueError(f"{must}, not a tensor of shape {tuple(loss.shape)}: take its mean")
    if not loss.requires_grad:
        raise ValueError(
            f"{must} with a gradient, not without: compute it from forward(images), neither "
            f"detached nor under torch.no_grad()"
        )


def optimiser_of(recipe: Recipe, model: nn.Module) -> Optimizer:
    """Return what turns gradients into steps; the loop sets its rate before every step."""
    rate, decay = recipe.rate, recipe.decay
    if recipe.optimiser == "adam":
        betas = (recipe.momentum, 0.999)
        return Adam(model.parameters(), lr=rate, betas=betas, weight_decay=decay)
    return SGD(model.parameters(), lr=rate, momentum=recipe.momentum, weight_decay=decay)


def average_of(recipe: Recipe, model: nn.Module) -> AveragedModel | None:
    """Return what averages the weights after every step; None if the recipe asks for none."""
    if not recipe.average:
        return None
    function = get_ema_multi_avg_fn(recipe.average)  # type: ignore[no-untyped-call]
    return AveragedModel(model, multi_avg_fn=function, use_buffers=True)


_MOMENTA = {SGD: ("momentum_buffer",), Adam: ("exp_avg", "exp_avg_sq", "step")}


def _state(
    epoch: int,
    model: nn.Module,
    optimiser: Optimizer,
    average: AveragedModel | None,
    generator: Generator,
) -> State:
    """Copy all that the next epoch depends on, because training changes the originals."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    if average is not None:
        tensors |= {f"average.{name}": value for name, value in average.state_dict().items()}
    for name, weight in model.named_parameters():
        for momentum in _MOMENTA[type(optimiser)]:
            none_yet = torch.zeros(() if momentum == "step" else weight.shape)
            tensors[f"{momentum}.{name}"] = optimiser.state[weight].get(momentum, none_yet)
    copies = {name: value.detach().clone() for name, value in tensors.items()}
    return State(epoch, {**copies, "generator": generator.get_state()})


def _restore(
    start: State,
    model: nn.Module,
    optimiser: Optimizer,
    average: AveragedModel | None,
    generator: Generator,
) -> None:
    """Put everything back as it was after the last epoch that is over."""

    def stored(part: str) -> dict[str, Tensor]:
        beginning = f"{part}."
        return {
            name.removeprefix(beginning): value
            for name, value in start.tensors.items()
            if name.startswith(beginning)
        }

    try:
        model.load_state_dict(stored("model"))
        if average is not None:
            average.load_state_dict(stored("average"))
        for name, weight in model.named_parameters():
            for momentum in _MOMENTA[type(optimiser)]:
                known = start.tensors[f"{momentum}.{name}"]
                fits = known.shape == (() if momentum == "step" else weight.shape)
                if not fits or not known.isfinite().all():
                    raise ValueError(f"its {momentum} of {name} does not fit")
                place = "cpu" if momentum == "step" else weight.device
                optimiser.state[weight][momentum] = known.to(place, copy=True)
        generator.set_state(start.tensors["generator"])
    except (RuntimeError, ValueError, TypeError, KeyError) as wrong:
        first = str(wrong).splitlines()[0] if str(wrong) else type(wrong).__name__
        raise PipelineError(
            f"the checkpoint of the run does not fit its model ({first}); delete it to train from "
            f"the beginning"
        ) from wrong
