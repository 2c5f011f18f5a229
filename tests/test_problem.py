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
    APGD,
    L0,
    L2,
    PGD,
    CornerSearch,
    Estimated,
    Found,
    Frame,
    Geometry,
    Linf,
    Problem,
    Random,
    Refined,
    Simple,
    Square,
    Threat,
    best,
    cross_entropy,
    other_class_confidence,
)

LINF = Linf(0.3)


def problem(model: nn.Module | None = None, x: Tensor | None = None, y: Tensor | None = None, threat: Threat = LINF) -> Problem:
    x = images(1) if x is None else x
    return Problem.of(model or Small(3, 10), x, torch.arange(4) if y is None else y, threat, cross_entropy)


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
    found = whole.at(delta, rows)
    for place, row in enumerate(rows.tolist()):
        alone = problem(x=whole.x[row : row + 1], y=torch.tensor([row])).at(delta[place : place + 1])
        torch.testing.assert_close(found.value[place : place + 1], alone.value)
        torch.testing.assert_close(found.delta[place : place + 1], alone.delta)
    assert whole.counts.forwards == 3


def test_climb_is_at_with_the_gradient() -> None:
    one = problem(threat=L2(0.5))
    delta = 0.1 * torch.randn(4, 3, 8, 8, generator=seeded(), dtype=torch.float64)
    valued, (climbed, gradient) = one.at(delta), one.climb(delta)
    assert climbed.value.equal(valued.value)
    assert climbed.delta.equal(valued.delta)
    assert not climbed.value.requires_grad
    step = 1e-6
    probe = torch.randn(4, 3, 8, 8, generator=seeded(5), dtype=torch.float64)
    image = one.images(climbed)
    rise = (one.score(image + step * probe, torch.arange(4)) - one.score(image - step * probe, torch.arange(4))) / (2 * step)
    torch.testing.assert_close((gradient * probe).sum((1, 2, 3)), rise.detach(), rtol=1e-5, atol=1e-7)


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
        problem(model.double()).at(torch.zeros(4, 3, 8, 8, dtype=torch.float64))
    assert all(module.training for module in model.modules())
    assert all(weight.requires_grad for weight in model.parameters())


BAD = images(1).index_put((torch.tensor(2), torch.tensor(0), torch.tensor(0), torch.tensor(0)), torch.tensor(1.5, dtype=torch.float64))
NAN = images(1).index_put((torch.tensor(3), torch.tensor(0), torch.tensor(0), torch.tensor(0)), torch.tensor(math.nan, dtype=torch.float64))


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
        (lambda: problem(x=torch.full((4, 3, 8, 8), 1.0000001)), r"range over \[1\.0\d+, 1\.0\d+\]"),
        (lambda: problem(x=images(1).float()), "images are torch.float32 on cpu, the model is torch.float64"),
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
        (lambda x: torch.where(torch.arange(4)[:, None] == 2, math.nan, x.flatten(1)[:, :10]), "not a number: see example 2"),
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
        Problem(images(1), Linf(0.1), lambda image, rows: image.sum()).at(torch.zeros(4, 3, 8, 8))


def test_a_perturbation_that_is_not_finite_is_refused() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="the perturbation is not finite: see example 1;"):
            problem().at(torch.zeros(4, 3, 8, 8).index_fill(0, torch.tensor(1), bad).double())


def test_labels_may_be_any_integers() -> None:
    delta = torch.zeros(4, 3, 8, 8, dtype=torch.float64)
    assert problem(y=torch.arange(4, dtype=torch.int32)).at(delta).value.equal(problem().at(delta).value)


def test_weights_are_frozen_and_the_model_in_evaluation_mode_while_attacked() -> None:
    model = Small(3, 10).train()
    seen = []

    def look(module: nn.Module, _: object) -> None:
        seen.append(module.training or any(weight.requires_grad for weight in module.parameters()))

    model.register_forward_pre_hook(look)
    PGD(2, 0.1)(problem(model), seeded())
    assert seen == [False] * 3


def test_float32_images_give_float32_results() -> None:
    one = Problem.of(Small(3, 10).float(), images(1).float(), torch.arange(4), L2(1.0), other_class_confidence)
    found = PGD(3, 0.1, start="random")(one, seeded())
    assert found.delta.dtype == torch.float32


class Counting(nn.Module):
    """Logits (0, 100·mean − 20) and how many images came at once: sure of class 1 in float32 where an image is bright enough."""

    def __init__(self, most: int = 100) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.most = most

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        if len(x) > self.most:
            raise torch.OutOfMemoryError("as a GPU says it")
        margin = 100 * x.flatten(1).mean(1) - 20
        return torch.stack([torch.zeros_like(margin), margin], 1)


def test_images_go_through_in_parts_that_give_the_same() -> None:
    x, delta = images(1), 0.2 * torch.randn(4, 3, 8, 8, generator=seeded(), dtype=torch.float64)
    whole, parts = (Problem.of(Small(3, 10), x, torch.arange(4), LINF, cross_entropy, batch=batch).climb(delta) for batch in (None, 3))
    torch.testing.assert_close(parts[0].value, whole[0].value)
    torch.testing.assert_close(parts[1], whole[1])


def test_where_memory_ends_the_batch_is_halved_for_good() -> None:
    model = Counting(most=7)
    one = Problem.of(model, torch.rand(20, 1, 4, 4, generator=seeded()), torch.zeros(20, dtype=torch.int64), LINF, cross_entropy)
    found = PGD(3, 0.1)(one, seeded())
    whole = PGD(3, 0.1)(Problem.of(Counting(), one.x, torch.zeros(20, dtype=torch.int64), LINF, cross_entropy), seeded())
    assert found.value.equal(whole.value)
    assert model.sizes[:3] == [20, 10, 5]
    assert set(model.sizes[3:]) == {5}
    assert one.counts.forwards == 20 * 4, "what did not fit is not counted"


def test_where_not_even_one_image_fits_it_says_so() -> None:
    with pytest.raises(MemoryError, match="not even one image at a time fits into the memory of cpu"):
        problem(Returns(Counting(most=0))).at(torch.zeros(4, 3, 8, 8, dtype=torch.float64))


ATTACKS: list[Any] = [
    PGD(60, 0.02),
    PGD(20, 0.1, gradient=Estimated(4)),
    APGD(60),
    Square(60),
    Random(60),
    Simple(60),
    Geometry(60),
    Refined(Random(20), PGD(40, 0.02)),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_what_is_sure_already_costs_nothing_and_changes_nothing(attack: Any) -> None:
    """Half of the images reach a confidence of 1, beyond which nothing can be better; the others search on as if alone with them."""
    x = torch.rand(8, 1, 4, 4, generator=seeded()) * torch.tensor([0.1, 1, 0.1, 0.7] * 2)[:, None, None, None]
    y = torch.zeros(8, dtype=torch.int64)

    def unending(logits: Tensor, labels: Tensor) -> Tensor:
        return other_class_confidence(logits, labels)  # not known to end at 0

    pool = torch.rand(5, 1, 4, 4, generator=seeded(1))
    resting, going = (Problem.of(Counting(), x, y, Linf(0.1), objective, pool) for objective in (other_class_confidence, unending))
    one, other = attack(resting, seeded(2)), attack(going, seeded(2))
    assert (one.value[1::2] == 0).any(), "some of the bright ones"
    assert (one.value[::2] < 0).all()
    assert one.value.equal(other.value)
    assert one.delta.equal(other.delta)
    assert resting.counts.forwards < 0.9 * going.counts.forwards


@pytest.mark.parametrize("attack", [*ATTACKS, CornerSearch(30)], ids=str)
def test_where_all_are_sure_already_every_attack_ends(attack: Any) -> None:
    x, y, pool = torch.full((6, 1, 4, 4), 0.9), torch.zeros(6, dtype=torch.int64), torch.rand(5, 1, 4, 4, generator=seeded(1))
    threat: Threat = L0(2) if isinstance(attack, CornerSearch) else Linf(0.1)
    one = Problem.of(Counting(), x, y, threat, other_class_confidence, pool)
    assert attack(one, seeded(2)).value.tolist() == [0] * 6
    assert one.counts.forwards <= 6 * 30


def test_scores_may_be_finer_than_images() -> None:
    class Fine(Counting):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).double()

    x = torch.rand(4, 1, 4, 4, generator=seeded()) * torch.tensor([0.05, 1, 0.05, 1])[:, None, None, None]
    logits = Fine()
    found = PGD(30, 0.02)(Problem(x, Linf(0.1), Score(logits)), seeded())
    assert found.value.dtype == torch.float64
    assert (found.value[1::2] == 5).all(), "the most there is"
    assert (found.value[::2] < 5).all()


class Score:
    """Of someone's own, with the most it can be."""

    most = 5.0

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return logits[:, 1].clamp(max=self.most)


def test_what_steps_can_no_longer_change_costs_nothing() -> None:
    """Where every step is rejected the rate falls below what an image can tell."""
    x = torch.rand(3, 1, 4, 4, generator=seeded(), dtype=torch.float64)

    def score(image: Tensor, rows: Tensor) -> Tensor:
        """The first rises all the way, the others have their top so near that every step goes beyond it."""
        moved = (image - x[rows]).flatten(1)
        return torch.where(rows == 0, moved.sum(1), -(moved - 1e-25).abs().sum(1))

    one = Problem(x, Linf(0.3), score)
    found = PGD(1000, 0.1, momentum=0.0, backtracking=2)(one, seeded())
    torch.testing.assert_close(found.delta[1:], torch.zeros_like(x[1:]))
    torch.testing.assert_close(found.delta[0], (1 - x[0]).clamp(max=0.3))
    assert 1001 + 2 * 50 < one.counts.forwards < 1001 + 2 * 80


def test_all_over_ends_a_search() -> None:
    one = Problem.of(Counting(), torch.full((3, 1, 4, 4), 0.9), torch.zeros(3, dtype=torch.int64), LINF, other_class_confidence)
    PGD(1000, 0.1)(one, seeded())
    assert one.counts.forwards < 3 * 12
    assert PGD(5, 0.1)(one, seeded()).value.tolist() == [0, 0, 0], "the next search looks anew"
