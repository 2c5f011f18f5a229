import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from truth import seeded

from ccat import PGD, Adversarial, ConfidenceCalibrated, Images, IntervalBound, Linf, Normal
from ccat.data import Augmentation
from ccat.errors import PipelineError
from ccat.models import create_model
from ccat.training import (
    ALONE,
    Drops,
    Epoch,
    Forward,
    LinearToZero,
    Method,
    Probe,
    Ranks,
    Recipe,
    State,
    epochs,
)

THREAT = Linf(0.1)
RANDOM = PGD(2, 0.05, start="random")
RECIPE = Recipe(
    "tiny",
    ConfidenceCalibrated(THREAT, RANDOM),
    epochs=2,
    schedule=LinearToZero(),
    probe=Probe(THREAT, RANDOM),
    batch=50,
    augmentation=Augmentation(padding=1, flip=True, contrast=0.1),
)
SIZE, CLASSES = 12, 4


def images(count: int) -> Images:
    """Noise whose mean tells the class, so that there is something to learn."""
    y = torch.randint(CLASSES, (count,), generator=seeded(1))
    x = (
        torch.randint(128, (count, 1, SIZE, SIZE), generator=seeded(2))
        + 32 * y[:, None, None, None]
    )
    return Images(x.to(torch.uint8), y)


IMAGES = images(380)


def begun(
    recipe: Recipe, start: State | None = None, ranks: Ranks = ALONE
) -> tuple[nn.Module, Iterator[Epoch]]:
    generator = seeded(recipe.seed)
    model = create_model("lenet", generator, channels=1, classes=CLASSES, size=SIZE)
    training, monitor = IMAGES[:330], IMAGES[330:]
    return model, epochs(recipe, model, training, monitor, generator, start=start, ranks=ranks)


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


@pytest.mark.parametrize(
    "recipe",
    [
        RECIPE,
        replace(RECIPE, method=Adversarial(THREAT, RANDOM), schedule=Drops(), decay=0.01),
        replace(RECIPE, method=Normal(), momentum=0.0, augmentation=None, seed=3),
        replace(RECIPE, method=IntervalBound(0.1), rate=1e-3, optimiser="adam", decay=0.01),
        replace(RECIPE, average=0.9),
    ],
)
def test_training_resumed_after_an_epoch_ends_with_the_same_weights(recipe: Recipe) -> None:
    whole, trained = begun(recipe)
    first, second = list(trained)
    before = copy.deepcopy(first.state.tensors)
    resumed, rest = begun(recipe, first.state)
    (again,) = list(rest)
    assert same(dict(whole.state_dict()), dict(resumed.state_dict()))
    assert not same(first.state.tensors, second.state.tensors)
    assert same(second.state.tensors, again.state.tensors)
    assert same(first.state.tensors, before), "going on from a state does not change it"
    seconds = ("training_seconds",)
    assert {k: v for k, v in second.entry.items() if k not in seconds} == {
        k: v for k, v in again.entry.items() if k not in seconds
    }


def test_averaged_weights_are_the_running_mean_of_those_after_each_step() -> None:
    """With 6 steps an epoch; the literal recursion, on weights that training shows after a step."""
    recipe, decay = replace(RECIPE, average=0.7, epochs=1), 0.7
    shown: list[dict[str, Tensor]] = []

    @dataclass(frozen=True)
    class Watched(Method):
        """Remembers the weights before each step."""

        def __call__(
            self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
        ) -> Tensor:
            shown.append(copy.deepcopy(dict(model.state_dict())))
            return RECIPE.method(model, forward, x, y, generator)

    model, trained = begun(replace(recipe, method=Watched()))
    (epoch,) = trained
    last = {k.removeprefix("model."): v for k, v in epoch.state.tensors.items() if "model." in k}
    steps = [*shown[1:], {k: last[k] for k in shown[0]}]
    mean = steps[0]
    for now in steps[1:]:
        mean = {
            k: decay * mean[k] + (1 - decay) * now[k] if now[k].is_floating_point() else now[k]
            for k in now
        }
    found = dict(model.state_dict())
    for name, value in mean.items():
        if value.is_floating_point():
            torch.testing.assert_close(found[name], value)
    assert not same(found, steps[-1])


def test_averages_are_put_in_place_also_after_the_last_checkpoint() -> None:
    recipe = replace(RECIPE, average=0.9)
    whole, trained = begun(recipe)
    last = list(trained)[-1].state
    model, trained = begun(recipe, last)
    assert list(trained) == []
    assert same(dict(whole.state_dict()), dict(model.state_dict()))


def test_what_the_caller_does_between_epochs_changes_nothing() -> None:
    whole, trained = begun(RECIPE)
    list(trained)
    watched, trained = begun(RECIPE)
    for epoch in trained:
        assert same(
            {f"model.{name}": value for name, value in watched.state_dict().items()},
            {k: v for k, v in epoch.state.tensors.items() if k.startswith("model.")},
        )
        watched.eval()
        torch.rand(3)  # PyTorch's global generator is not the run's
    assert same(dict(whole.state_dict()), dict(watched.state_dict()))


def test_an_epoch_is_logged_with_its_loss_the_next_rate_and_the_probe() -> None:
    recipe = replace(RECIPE, method=Normal(), epochs=4, rate=0.05)
    _, trained = begun(recipe)
    log = [epoch.entry for epoch in trained]
    assert [entry["epoch"] for entry in log] == [1, 2, 3, 4]
    assert [entry["next_rate"] for entry in log] == pytest.approx([0.0375, 0.025, 0.0125, 0])
    assert log[-1]["loss"] < log[0]["loss"]
    assert log[0].keys() == {
        "epoch",
        "loss",
        "next_rate",
        "training_seconds",
        "clean_error",
        "clean_confidence",
        "adversarial_error",
        "adversarial_confidence",
    }
    assert all(entry["clean_error"] <= entry["adversarial_error"] for entry in log)


def test_what_is_trained_to_the_end_is_not_trained_further() -> None:
    _, trained = begun(RECIPE)
    last = list(trained)[-1].state
    model, trained = begun(RECIPE, last)
    assert list(trained) == []
    weights = {f"model.{name}": value for name, value in model.state_dict().items()}
    assert same(weights, {k: v for k, v in last.tensors.items() if k.startswith("model.")})


def test_steps_are_counted_over_all_epochs_and_incomplete_batches_left_out() -> None:
    steps: list[tuple[int, int, str]] = []
    generator = seeded()
    model = create_model("lenet", generator, channels=1, classes=CLASSES, size=SIZE)
    list(
        epochs(
            replace(RECIPE, method=Normal()),
            model,
            IMAGES[:330],
            IMAGES[330:],
            generator,
            progress=lambda *step: steps.append(step),
        )
    )
    assert [step[:2] for step in steps] == [(n, 12) for n in range(1, 13)]
    assert steps[-1][2].startswith("epoch 2/2, loss ")


def test_a_state_of_another_model_is_refused() -> None:
    _, trained = begun(RECIPE)
    state = next(trained).state
    generator = seeded()
    model = create_model("lenet", generator, channels=1, classes=CLASSES + 1, size=SIZE)
    with pytest.raises(PipelineError, match=r"does not fit its model .*; delete it to train from"):
        next(epochs(RECIPE, model, IMAGES[:330], IMAGES[330:], generator, start=state))


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    _, trained = begun(RECIPE, ranks=Ranks(0, 3))
    with pytest.raises(PipelineError, match="a batch of 50 cannot be shared by 3 processes"):
        next(trained)


def test_fewer_images_than_a_batch_are_one_batch() -> None:
    large, exact = (replace(RECIPE, batch=size, epochs=2) for size in (331, 330))
    weights = []
    for recipe in (large, exact):
        model, trained = begun(recipe)
        losses = [epoch.entry["loss"] for epoch in trained]
        weights.append((losses, [weight.detach().clone() for weight in model.parameters()]))
    assert weights[0][0] == weights[1][0]
    assert all(a.equal(b) for a, b in zip(weights[0][1], weights[1][1], strict=True))
    model = create_model("lenet", seeded(), channels=1, classes=CLASSES, size=SIZE)
    alone = epochs(RECIPE, model, IMAGES[:1], IMAGES[330:], seeded(), ranks=Ranks(0, 2))
    with pytest.raises(PipelineError, match="1 images are too few for 2 processes"):
        next(alone)


def test_a_loss_that_is_no_number_ends_training() -> None:
    _, trained = begun(replace(RECIPE, method=Returns("nan")))
    with pytest.raises(PipelineError, match="no longer a number in epoch 1, batch 1: lower"):
        next(trained)


@dataclass(frozen=True)
class Returns(Method):
    """A method that goes wrong in a way to be named."""

    what: str

    def __call__(
        self, model: nn.Module, forward: Forward, x: Tensor, y: Tensor, generator: Generator
    ) -> Tensor:
        loss = functional.cross_entropy(forward(x), y, reduction="none")
        wrong: dict[str, object] = {
            "nan": loss.mean() * torch.nan,
            "none": None,
            "float": loss.mean().item(),
            "vector": loss,
            "detached": loss.mean().detach(),
        }
        return wrong[self.what]  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("none", "scalar tensor, not NoneType"),
        ("float", "scalar tensor, not float"),
        ("vector", r"scalar tensor, not a tensor of shape \(50,\): take its mean"),
        ("detached", "scalar tensor with a gradient, not without"),
    ],
)
def test_what_a_method_returns_is_checked(what: str, message: str) -> None:
    model, trained = begun(replace(RECIPE, method=Returns(what)))
    before = [weight.detach().clone() for weight in model.parameters()]
    with pytest.raises(
        ValueError, match=f"Returns must return the loss of the batch as a {message}"
    ):
        next(trained)
    assert all(map(torch.equal, before, model.parameters())), "no step was taken"
