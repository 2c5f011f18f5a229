"""Windows: windows alone, climbs alone, classes that a search for any class passes by."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from test_random_search import linear_problem
from torch import Tensor, nn
from truth import seeded

from ccat import APGD, Frame, Linf, Problem, Windows
from ccat.attacks.border import random_window
from ccat.attacks.found import Found
from ccat.attacks.windows import _border, _Others, _Points
from ccat.objectives import other_class_confidence

SIDE = 8


def mask(width: int, size: int = SIDE) -> Tensor:
    border = torch.ones(size, size, dtype=torch.bool)
    border[width:-width, width:-width] = False
    return border


def problem(model: nn.Module, width: int = 1, count: int = 3) -> Problem:
    x, y = torch.full((count, 1, SIDE, SIDE), 0.5), torch.zeros(count, dtype=torch.int64)
    return Problem.of(model, x, y, Frame(width), other_class_confidence)


@pytest.mark.parametrize("attack", [Windows(((1, 600),), 1), Windows(((1, 1),), 60, smooth=0.0)])
def test_windows_or_climbs_alone_reach_the_corners_of_a_linear_model(
    attack: Windows,
) -> None:
    one, weight = linear_problem(Frame(1))
    found = attack(one, seeded())
    wall = torch.where(weight > 0, 1 - one.x, one.x)
    optimum = (weight.abs() * wall * mask(1, 6)).sum((1, 2, 3))
    torch.testing.assert_close((found.delta * weight).sum((1, 2, 3)), optimum)


class Matching(nn.Module):
    """Surer of class 1 with every pixel on the planted side of one half, and without a slope."""

    planted: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("planted", torch.rand(SIDE, SIDE, generator=seeded(4)) < 0.5)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        same = (x[:, 0] > 0.5) == self.planted
        share = (same & mask(1)).sum((1, 2)) / mask(1).sum()
        sure = self.scale * 16 * (share - 0.7) + 0 * x.sum((1, 2, 3))
        return torch.stack([torch.zeros_like(sure), sure], 1)


def test_windows_find_a_planted_frame_without_a_slope() -> None:
    assert APGD(100)(problem(Matching()), seeded()).value.exp().max() < 0.5
    found = Windows(((2, 300), (1, 600)), 5)(problem(Matching()), seeded())
    best = 1 / (1 + math.exp(-16 * 0.3))
    assert found.value.exp().min() > best - 0.01


class Decoy(nn.Module):
    """A dark border makes class 1 likely but never sure; a bright one makes class 2 sure, late."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        bright = self.scale * x[:, 0, mask(1)].mean(1)
        late = 40 * (bright - 0.75).relu()
        return torch.stack([torch.zeros_like(bright), 2 * (1 - bright), late - 2], 1)


def test_a_class_of_its_own_is_aimed_at_past_a_likelier_one() -> None:
    """A search for any class goes dark, to 0.88 at most."""
    for attack in (APGD(200), Windows(((1, 300), (1, 300)))):
        confidence = attack(problem(Decoy()), seeded()).value.exp()
        assert confidence.min() > 0.8
        assert confidence.max() < 0.9
    found = Windows(((2, 150), (1, 100)))(problem(Decoy()), seeded())
    assert found.value.exp().min() > 0.99


def test_points_aim_at_the_classes_in_turn_and_the_best_go_on() -> None:
    one = problem(Decoy(), count=2)
    one.evaluate(torch.zeros_like(one.x))
    points = _Points.at_the_image(one, 5)
    assert points.target is not None
    assert points.target.tolist() == [1, 2, 1, 2, 1] * 2
    value = torch.tensor([3.0, 5.0, 1.0, 5.0, 2.0, 9.0, 0.0, 7.0, 8.0, 1.0])
    delta = value[:, None, None, None].expand_as(points.found.delta)
    two = _Points(points.problem, points.rows, points.target, Found(delta, value)).halved(2)
    assert two.found.value.tolist() == [5, 5, 9, 8]
    assert two.target is not None
    assert two.target.tolist() == [2, 2, 1, 2]
    second = two.of_examples(torch.tensor([False, True]))
    assert second.rows.tolist() == [1]
    assert second.found.delta[:, 0, 0, 0].tolist() == [9, 8]


def test_of_classes_too_many_the_likeliest_are_aimed_at() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 20))
    one = problem(model)
    one.evaluate(torch.zeros_like(one.x))
    target = _Points.at_the_image(one, 4).target
    assert target is not None
    likely = model(one.x)[:, 1:].topk(4).indices + 1
    assert target.view(3, 4).equal(likely.sort(1).values)


def test_a_window_is_a_rectangle_cut_to_the_border() -> None:
    border = _border(problem(Decoy(), width=2))
    assert border.equal(mask(2))
    draws = torch.rand(200, 5, generator=seeded())
    for side in (1, 3, 8):
        windows = random_window(draws, border, side)[:, 0]
        assert windows.any(2).any(1).all(), "each holds a pixel of the border"
        assert (windows[:, ~border] == 0).all()
        for window in windows[:50].bool():
            rows, columns = window.any(1), window.any(0)
            span = [one.nonzero()[-1] - one.nonzero()[0] + 1 for one in (rows, columns)]
            assert max(span) <= side
    reached = random_window(torch.rand(3000, 5, generator=seeded(1)), border, 3).amax((0, 1))
    assert reached.equal(border.to(reached))


def test_windows_copy_what_others_of_the_class_have_found() -> None:
    """Windows of one colour, a few, are mostly wrong; an image with the frame shares it."""
    model = Matching()
    x = torch.full((20, 1, SIDE, SIDE), 0.5)
    x[::2, 0] = model.planted.float()
    y = torch.zeros(20, dtype=torch.int64)
    one = Problem.of(model, x, y, Frame(1), other_class_confidence)
    alone, crossed = (
        Windows(((1, 1), (1, 20)), 1, crossed=share)(one, seeded()).value.exp()[1::2].median()
        for share in (0.0, 1.0)
    )
    assert alone < 0.75
    assert crossed > 0.85


def test_windows_copy_from_their_own_class_alone() -> None:
    one = problem(Decoy(), count=4)
    one.evaluate(torch.zeros_like(one.x))
    points = _Points.at_the_image(one, 2)
    target = points.target
    assert target is not None
    delta = torch.arange(8.0)[:, None, None, None].expand(8, 1, SIDE, SIDE) / 20 - 0.5
    points = replace(points, found=Found(delta, points.found.value))
    luck = torch.rand(500, 2, generator=seeded())
    at = torch.arange(500) % 8
    colour = torch.full((500, 1, 1, 1), 9.0)
    seen = _Others.of(points, 0.5).instead_of(colour, at, luck)[:, 0, 0, 0]
    assert (seen == 9).float().mean().item() == pytest.approx(0.5, abs=0.1)
    donor = (seen * 20).round().long()
    copied = seen != 9
    assert target[donor[copied]].equal(target[at[copied]])
    for number in (1, 2):
        mine = torch.arange(8)[target == number].tolist()
        assert set(donor[copied & (target[at] == number)].tolist()) == set(mine)
    assert _Others.of(points, 0.0).instead_of(colour, at, luck) is colour


def test_enough_ends_a_search_early() -> None:
    counts = []
    for tau in (0.85, 1.0):
        one = problem(Decoy())
        one = Problem(one.x, one.threat, one.score, enough=math.log(tau))
        Windows(((2, 200), (1, 100)), 20)(one, seeded())
        counts.append(one.counts.forwards)
    assert counts[0] < counts[1] / 2


def test_what_it_needs_is_said() -> None:
    def score(images: Tensor, rows: Tensor) -> Tensor:
        return images.sum((1, 2, 3))

    with pytest.raises(ValueError, match="Windows is made for Frame, not for Linf"):
        Windows()(Problem(torch.rand(2, 1, SIDE, SIDE), Linf(0.1), score), seeded())
    wrong: list[Callable[[], Windows]] = [
        lambda: Windows(()),
        lambda: Windows(((0, 3),)),
        lambda: Windows(((3, 0),)),
        lambda: Windows(((2, 3), (3, 3))),
        lambda: Windows(iterations=0),
        lambda: Windows(smooth=-1.0),
        lambda: Windows(crossed=1.5),
        lambda: Windows(climbing=0),
    ]
    for make in wrong:
        with pytest.raises(ValueError, match="Windows: "):
            make()
