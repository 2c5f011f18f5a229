"""What goes through a model at once, and which examples no longer go through it at all."""

from typing import Any

import pytest
import torch
from test_problem import LINF, Returns, problem
from test_threats import images
from torch import Tensor, nn
from truth import Small, seeded

from ccat import (
    APGD,
    L0,
    PGD,
    CornerSearch,
    Estimated,
    Geometry,
    Linf,
    Problem,
    Random,
    Refined,
    Simple,
    Square,
    Threat,
    cross_entropy,
    other_class_confidence,
)


class Counting(nn.Module):
    """Logits (0, 100·mean − 20), and how many images came at once.

    It is sure of class 1 in float32 where an image is bright enough.
    """

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
    whole, parts = (
        Problem.of(
            Small(3, 10), x, torch.arange(4), LINF, cross_entropy, batch=batch
        ).value_and_grad(delta)
        for batch in (None, 3)
    )
    torch.testing.assert_close(parts[0].value, whole[0].value)
    torch.testing.assert_close(parts[1], whole[1])


def test_where_memory_ends_the_batch_is_halved_for_good() -> None:
    model = Counting(most=7)
    one = Problem.of(
        model,
        torch.rand(20, 1, 4, 4, generator=seeded()),
        torch.zeros(20, dtype=torch.int64),
        LINF,
        cross_entropy,
    )
    found = PGD(3, 0.1)(one, seeded())
    whole = PGD(3, 0.1)(
        Problem.of(Counting(), one.x, torch.zeros(20, dtype=torch.int64), LINF, cross_entropy),
        seeded(),
    )
    assert found.value.equal(whole.value)
    assert model.sizes[:3] == [20, 10, 5]
    assert set(model.sizes[3:]) == {5}
    assert one.counts.forwards == 20 * 4, "what did not fit is not counted"


def test_where_not_even_one_image_fits_it_says_so() -> None:
    with pytest.raises(
        MemoryError, match="not even one image at a time fits into the memory of cpu"
    ):
        problem(Returns(Counting(most=0))).evaluate(torch.zeros(4, 3, 8, 8, dtype=torch.float64))


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
    """Half of the images reach a confidence of 1, beyond which nothing can be better.

    The others search on as if nobody had stopped.
    """
    x = (
        torch.rand(8, 1, 4, 4, generator=seeded())
        * torch.tensor([0.1, 1, 0.1, 0.7] * 2)[:, None, None, None]
    )
    y = torch.zeros(8, dtype=torch.int64)

    def unending(logits: Tensor, labels: Tensor) -> Tensor:
        return other_class_confidence(logits, labels)  # not known to end at 0

    pool = torch.rand(5, 1, 4, 4, generator=seeded(1))
    resting, going = (
        Problem.of(Counting(), x, y, Linf(0.1), objective, pool)
        for objective in (other_class_confidence, unending)
    )
    one, other = attack(resting, seeded(2)), attack(going, seeded(2))
    assert (one.value[1::2] == 0).any(), "some of the bright ones"
    assert (one.value[::2] < 0).all()
    assert one.value.equal(other.value)
    assert one.delta.equal(other.delta)
    assert resting.counts.forwards < 0.9 * going.counts.forwards


@pytest.mark.parametrize("attack", [*ATTACKS, CornerSearch(30)], ids=str)
def test_where_all_are_sure_already_every_attack_ends(attack: Any) -> None:
    x, y, pool = (
        torch.full((6, 1, 4, 4), 0.9),
        torch.zeros(6, dtype=torch.int64),
        torch.rand(5, 1, 4, 4, generator=seeded(1)),
    )
    threat: Threat = L0(2) if isinstance(attack, CornerSearch) else Linf(0.1)
    one = Problem.of(Counting(), x, y, threat, other_class_confidence, pool)
    assert attack(one, seeded(2)).value.tolist() == [0] * 6
    assert one.counts.forwards <= 6 * 30


def test_scores_may_be_finer_than_images() -> None:
    class Fine(Counting):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).double()

    x = (
        torch.rand(4, 1, 4, 4, generator=seeded())
        * torch.tensor([0.05, 1, 0.05, 1])[:, None, None, None]
    )
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
        """The first rises all the way; every step goes beyond the top of the others."""
        moved = (image - x[rows]).flatten(1)
        return torch.where(rows == 0, moved.sum(1), -(moved - 1e-25).abs().sum(1))

    one = Problem(x, Linf(0.3), score)
    found = PGD(1000, 0.1, momentum=0.0, backtracking=2)(one, seeded())
    torch.testing.assert_close(found.delta[1:], torch.zeros_like(x[1:]))
    torch.testing.assert_close(found.delta[0], (1 - x[0]).clamp(max=0.3))
    assert 1001 + 2 * 50 < one.counts.forwards < 1001 + 2 * 80


def test_all_over_ends_a_search() -> None:
    one = Problem.of(
        Counting(),
        torch.full((3, 1, 4, 4), 0.9),
        torch.zeros(3, dtype=torch.int64),
        LINF,
        other_class_confidence,
    )
    PGD(1000, 0.1)(one, seeded())
    assert one.counts.forwards < 3 * 12
    assert PGD(5, 0.1)(one, seeded()).value.tolist() == [0, 0, 0], "the next search looks anew"
