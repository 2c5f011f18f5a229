import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_threats import images
from torch import Tensor, nn
from truth import Small, seeded

from ccat import (
    L2,
    PGD,
    Found,
    Frame,
    Linf,
    Problem,
    Threat,
    best,
    cross_entropy,
    other_class_confidence,
)

LINF = Linf(0.3)


def problem(
    model: nn.Module | None = None,
    x: Tensor | None = None,
    y: Tensor | None = None,
    threat: Threat = LINF,
) -> Problem:
    x = images(1) if x is None else x
    return Problem.of(
        model or Small(3, 10), x, torch.arange(4) if y is None else y, threat, cross_entropy
    )


class Returns(nn.Module):
    """Answers whatever the test wants."""

    def __init__(self, answer: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> Tensor:
        return self.answer(x)


def test_candidates_are_scored_by_the_example_they_belong_to() -> None:
    whole = problem()
    rows = torch.tensor([3, 1, 1])
    delta = 0.2 * torch.randn(3, 3, 8, 8, generator=seeded(), dtype=torch.float64)
    found = whole.evaluate(delta, rows)
    for place, row in enumerate(rows.tolist()):
        alone = problem(x=whole.x[row : row + 1], y=torch.tensor([row])).evaluate(
            delta[place : place + 1]
        )
        torch.testing.assert_close(found.value[place : place + 1], alone.value)
        torch.testing.assert_close(found.delta[place : place + 1], alone.delta)
    assert whole.counts.forwards == 3


def test_value_and_grad_is_evaluate_with_the_gradient() -> None:
    one = problem(threat=L2(0.5))
    delta = 0.1 * torch.randn(4, 3, 8, 8, generator=seeded(), dtype=torch.float64)
    valued, (climbed, gradient) = one.evaluate(delta), one.value_and_grad(delta)
    assert climbed.value.equal(valued.value)
    assert climbed.delta.equal(valued.delta)
    assert not climbed.value.requires_grad
    step = 1e-6
    probe = torch.randn(4, 3, 8, 8, generator=seeded(5), dtype=torch.float64)
    image = one.images(climbed)
    rise = (
        one.score(image + step * probe, torch.arange(4))
        - one.score(image - step * probe, torch.arange(4))
    ) / (2 * step)
    torch.testing.assert_close(
        (gradient * probe).sum((1, 2, 3)), rise.detach(), rtol=1e-5, atol=1e-7
    )


def test_best_keeps_the_strictly_better_of_each_example() -> None:
    old = Found(torch.zeros(3, 1, 1, 1), torch.tensor([1.0, 2.0, 3.0]))
    new = Found(torch.ones(3, 1, 1, 1), torch.tensor([1.0, 1.0, 4.0]))
    assert best(old, new).delta.flatten().tolist() == [0, 0, 1]
    assert best(old, new).value.tolist() == [1, 2, 4]


def test_a_model_that_fails_is_left_as_it_was() -> None:
    def fail(x: Tensor) -> Tensor:
        raise RuntimeError("out of luck")

    model = nn.Sequential(nn.BatchNorm2d(3), Returns(fail))
    with pytest.raises(RuntimeError, match="out of luck"):
        problem(model.double()).evaluate(torch.zeros(4, 3, 8, 8, dtype=torch.float64))
    assert all(module.training for module in model.modules())
    assert all(weight.requires_grad for weight in model.parameters())


BAD = images(1).index_put(
    (torch.tensor(2), torch.tensor(0), torch.tensor(0), torch.tensor(0)),
    torch.tensor(1.5, dtype=torch.float64),
)
NAN = images(1).index_put(
    (torch.tensor(3), torch.tensor(0), torch.tensor(0), torch.tensor(0)),
    torch.tensor(math.nan, dtype=torch.float64),
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: problem(x=BAD), r"in \[0,1\].*example 2"),
        (lambda: problem(x=-BAD), "examples 0, 1, 2, 3"),
        (lambda: problem(x=NAN), "NaN: see example 3"),
        (lambda: problem(x=images(1)[0]), r"shape \(N, C, H, W\), not \(3, 8, 8\)"),
        (lambda: problem(x=images(1)[:0], y=torch.arange(0)), "non-empty"),
        (lambda: problem(x=(images(1) * 255).byte()), r"8-bit images are x.float\(\) / 255"),
        (lambda: problem(x=images(1).half()), "float32 or float64"),
        (
            lambda: problem(x=torch.full((4, 3, 8, 8), 1.0000001)),
            r"range over \[1\.0\d+, 1\.0\d+\]",
        ),
        (
            lambda: problem(x=images(1).float()),
            "images are torch.float32 on cpu, the model is torch.float64",
        ),
        (lambda: problem(model=lambda x: x), "nn.Module, not function"),  # type: ignore[arg-type]
        (lambda: Problem([[0.5]], Linf(0.1), lambda image, rows: rows), "not list"),  # type: ignore[arg-type]
        (lambda: problem(y=torch.arange(3)), "4 integers"),
        (lambda: problem(y=torch.rand(4)), "4 integers"),
        (lambda: problem(y=torch.tensor([0, -1, 2, 3])), "0 or more: see example 1"),
        (lambda: problem(threat=Frame(4)), "leaves nothing"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda x: torch.where(torch.arange(4)[:, None] == 2, math.nan, x.flatten(1)[:, :10]),
            "not a number: see example 2",
        ),
        (lambda x: x.flatten(1)[:, :3], "labels must be below 3"),
        (lambda x: x.flatten(1)[:, :1], "K at least 2"),
        (lambda x: x.flatten(1)[:2], "must return logits"),
        (lambda x: x, "must return logits"),
        (
            lambda x: (x - x.detach()).abs().sqrt().flatten(1)[:, :10] + x.flatten(1)[:, :10],
            "gradient is not finite: see examples 0, 1, 2, 3",
        ),
        (lambda x: x.detach().flatten(1)[:, :10], "the score has no gradient"),
    ],
)
def test_a_model_that_misbehaves_is_named(answer: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PGD(3, 0.1)(problem(Returns(answer)), seeded())


def test_probabilities_instead_of_logits_are_noticed() -> None:
    model = nn.Sequential(Small(3, 10), nn.Softmax(1))
    with pytest.warns(UserWarning, match="probabilities"):
        PGD(1, 0.1)(problem(model), seeded())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PGD(1, 0.1)(problem(nn.Sequential(Small(3, 10), nn.LogSoftmax(1))), seeded())


def test_a_score_gives_one_value_per_image() -> None:
    with pytest.raises(ValueError, match="one value per image"):
        Problem(images(1), Linf(0.1), lambda image, rows: image.sum()).evaluate(
            torch.zeros(4, 3, 8, 8)
        )


def test_a_perturbation_that_is_not_finite_is_refused() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="the perturbation is not finite: see example 1;"):
            problem().evaluate(torch.zeros(4, 3, 8, 8).index_fill(0, torch.tensor(1), bad).double())


def test_labels_may_be_any_integers() -> None:
    delta = torch.zeros(4, 3, 8, 8, dtype=torch.float64)
    assert (
        problem(y=torch.arange(4, dtype=torch.int32))
        .evaluate(delta)
        .value.equal(problem().evaluate(delta).value)
    )


def test_weights_are_frozen_and_the_model_in_evaluation_mode_while_attacked() -> None:
    model = Small(3, 10).train()
    seen = []

    def look(module: nn.Module, _: object) -> None:
        seen.append(module.training or any(weight.requires_grad for weight in module.parameters()))

    model.register_forward_pre_hook(look)
    PGD(2, 0.1)(problem(model), seeded())
    assert seen == [False] * 3


def test_float32_images_give_float32_results() -> None:
    one = Problem.of(
        Small(3, 10).float(), images(1).float(), torch.arange(4), L2(1.0), other_class_confidence
    )
    found = PGD(3, 0.1, start="random")(one, seeded())
    assert found.delta.dtype == torch.float32
