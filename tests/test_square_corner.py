import itertools

import pytest
import torch
from test_random_search import linear_problem, margin
from test_threats import images
from torch import Tensor
from truth import Small, best_linear, seeded

from ccat import (
    L0,
    L1,
    L2,
    Case,
    CornerSearch,
    Linf,
    Problem,
    Random,
    Square,
    Threat,
    other_class_confidence,
)
from ccat.attacks.square import _Draws, _moves, _pyramid, _pyramids, _squares, _tiles

# ---- Square


def test_windows_shrink_on_the_published_schedule_rescaled() -> None:
    x = torch.zeros(1, 1, 28, 28)
    sides = [Square(1000)._side(t, x) for t in range(1000)]
    assert sides == sorted(sides, reverse=True)
    assert sides[0] == 6  # √(0.05·784)
    assert sides[-1] == 1
    assert [t for t in range(1, 1000) if sides[t] != sides[t - 1]][:3] == [
        2,
        6,
        21,
    ]  # after 10, 50, 200 of 10,000
    assert Square(10_000)._side(11, x) == round((0.025 * 784) ** 0.5)
    assert Square(5, share=1.0)._side(0, x) == 27


@pytest.mark.parametrize("threat", [Linf(0.2), L2(1.0)])
def test_square_never_gets_worse_and_beats_random_points(threat: Threat) -> None:
    x, y, model = images(7), torch.arange(4), Small(3, 10)
    values = [
        Square(n)(Problem.of(model, x, y, threat, other_class_confidence), seeded()).value
        for n in (50, 50, 400)
    ]
    assert values[0].equal(values[1])
    longer = [
        Square(400)(Problem.of(model, x, y, threat, other_class_confidence), seeded(s)).value
        for s in range(3)
    ]
    random = Random(400)(Problem.of(model, x, y, threat, other_class_confidence), seeded()).value
    assert (torch.stack(longer).mean(0) > random).all()


def test_square_gets_near_the_optimum_of_a_linear_model() -> None:
    for threat, least in ((Linf(0.2), 0.95), (L2(1.0), 0.7)):
        problem, weight = linear_problem(threat, size=10)
        found = Square(3000)(problem, seeded())
        share = (found.delta * weight).sum((1, 2, 3)) / best_linear(
            type(threat).__name__, threat.epsilon, problem.x, weight
        )
        assert share.min() > least, type(threat)


def test_windows_are_drawn_per_example_and_reach_every_place() -> None:
    """Past defect of others: one window for the whole batch."""
    draw = _Draws(torch.zeros(1000, 2, 6, 5), seeded())
    delta = torch.zeros_like(draw.x)
    tried = [propose(delta) for propose in _squares(draw, 0.5, 2, 2)]
    assert not tried[0].equal(tried[1]), "one for each iteration"
    windows = torch.cat(tried)
    assert (windows.abs().sum((2, 3)) == 0.5 * 4).all()
    assert windows[:, 0].abs().equal(windows[:, 1].abs()), "the same place in all channels"
    assert len({tuple(window.sign().sum((1, 2)).tolist()) for window in windows}) == 4, "signs"
    assert len({tuple(window.flatten().tolist()) for window in windows[:, 0].abs()}) == 5 * 4
    assert not delta.any(), "it is a copy that is changed"


def test_pyramids_are_two_of_opposite_sign_and_norm_one() -> None:
    pyramid = _pyramid(3, 3, torch.zeros(1, dtype=torch.float64))
    assert pyramid.argmax() == 4
    assert pyramid[0, 0].item() == pytest.approx(1 / 4)
    assert pyramid[1, 1].item() == pytest.approx(1 / 4 + 1)
    for side in (1, 2, 3, 6):
        draw = _Draws(torch.zeros(50, 1, 8, 8, dtype=torch.float64), seeded())
        (pair,) = _pyramids(draw, side, 1)
        torch.testing.assert_close(pair.flatten(1).norm(dim=1), torch.ones(50, dtype=torch.float64))
        if side > 1:
            assert len({tuple(one.flatten().tolist()) for one in pair}) == 4, "turned, signed"
            assert pair.amin() < 0 < pair.amax()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_l2_square_moves_mass_within_the_ball(dtype: torch.dtype) -> None:
    """What a window loses another gets, and rounding leaves nothing to project."""
    draw = _Draws(torch.full((40, 3, 12, 12), 0.5, dtype=dtype), seeded())
    delta = best = 0.5 * _tiles(draw)
    for propose in _moves(draw, 0.5, 4, 30):
        delta = propose(best := delta)
        size = L2(0.5).size(delta)
        assert (size <= 0.5 * (1 + 2 * torch.finfo(dtype).eps)).all()
        torch.testing.assert_close(size, torch.full_like(size, 0.5))
        changed = (delta != best).any(1).flatten(1).sum(1)
        assert (changed >= 4 * 4).all()
        assert (changed <= 2 * 4 * 4).all()


def test_the_l2_square_uses_the_whole_ball() -> None:
    x = torch.full((4, 3, 12, 12), 0.5, dtype=torch.float64)
    weight = torch.randn(3, 12, 12, generator=seeded(), dtype=torch.float64)
    found = Square(50)(
        Problem(x, L2(1.0), lambda image, rows: (image * weight).sum((1, 2, 3))), seeded()
    )
    torch.testing.assert_close(
        L2(1.0).size(found.delta), torch.ones(4, dtype=torch.float64), rtol=0.02, atol=0
    )


# ---- Corner Search


def exhaustive(problem: Problem, pixels: int) -> Tensor:
    """The best value over all combinations of so many pixels at black or white."""
    best = problem.evaluate(torch.zeros_like(problem.x)).value
    places = range(problem.x[0].numel())
    for chosen in itertools.combinations(places, pixels):
        for colours in itertools.product((0.0, 1.0), repeat=pixels):
            delta = torch.zeros_like(problem.x).flatten(1)
            for place, colour in zip(chosen, colours, strict=True):
                delta[:, place] = colour - problem.x.flatten(1)[:, place]
            best = torch.maximum(best, problem.evaluate(delta.view_as(problem.x)).value)
    return best


def grey_problem(epsilon: int, side: int = 8) -> Problem:
    x = torch.rand(6, 1, side, side, generator=seeded(5), dtype=torch.float64)
    weights = torch.randn(2, side * side, 3, generator=seeded(6), dtype=torch.float64)

    def score(image: Tensor, rows: Tensor) -> Tensor:  # not linear, so that pixels interact
        hidden = (image.flatten(1) @ weights[0]).sin()
        return (hidden * (image.flatten(1) @ weights[1]).cos()).sum(1)

    return Problem(x, L0(epsilon), score)


def test_corner_search_finds_the_best_single_pixel() -> None:
    found = CornerSearch(1)(grey_problem(1), seeded())
    assert found.value.equal(exhaustive(grey_problem(1), 1))


def test_corner_search_finds_most_of_the_best_pairs() -> None:
    """At least four fifths of what any two pixels can gain, on average, in 200 iterations."""
    start = grey_problem(2, 5).evaluate(torch.zeros(6, 1, 5, 5, dtype=torch.float64)).value
    optimum = exhaustive(grey_problem(2, 5), 2) - start
    found = CornerSearch(200)(grey_problem(2, 5), seeded()).value - start
    assert (found / optimum).mean() > 0.8
    assert (found <= optimum + 1e-12).all()


def test_corner_search_tries_all_corners_of_the_colour_cube() -> None:
    x = torch.full((2, 3, 2, 2), 0.5, dtype=torch.float64)
    target = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)[:, None]
    problem = Problem(x, L0(1), lambda image, rows: -(image[:, :, 1, 0] - target.T).square().sum(1))
    found = CornerSearch(1)(problem, seeded())
    assert problem.images(found)[:, :, 1, 0].tolist() == [[1, 0, 1]] * 2
    assert problem.counts.forwards == 2 * (1 + 4 * 8 + 1)


def test_corner_search_reaches_the_optimum_of_a_linear_model() -> None:
    problem, weight = linear_problem(L0(3), size=4)
    found = CornerSearch(500, candidates=6)(problem, seeded())
    torch.testing.assert_close(
        (found.delta * weight).sum((1, 2, 3)), best_linear("L0", 3, problem.x, weight)
    )


# ---- both


def test_an_attack_outside_its_threat_is_refused_before_anything_runs() -> None:
    problem, _ = linear_problem(L1(1.0))
    with pytest.raises(ValueError, match="Square is made for Linf and L2, not for L1"):
        Square(3)(problem, seeded())
    with pytest.raises(ValueError, match="made for L0 that counts pixels"):
        CornerSearch(3)(problem, seeded())
    with pytest.raises(ValueError, match="made for L0 that counts pixels"):
        CornerSearch(3)(Problem(problem.x, L0(3, per="entry"), problem.score), seeded())
    with pytest.raises(ValueError, match="case 'a': Square does not support the threat L1:1"):
        Case("a", L1(1.0), Square(3), margin)
    for wrong in (
        lambda: Square(0),
        lambda: Square(3, 0.0),
        lambda: CornerSearch(0),
        lambda: CornerSearch(3, candidates=0),
    ):
        with pytest.raises(ValueError, match="must be"):
            wrong()
