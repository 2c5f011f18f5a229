import itertools
import math
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from test_threats import images
from torch import Tensor
from truth import Linear, Small, best_linear, seeded

from ccat import (
    L0,
    L1,
    L2,
    PGD,
    Attack,
    Case,
    Estimated,
    Geometry,
    Linf,
    Problem,
    Random,
    Refined,
    Simple,
    Threat,
    other_class_confidence,
)
from ccat.codec import decode, encode


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    return logits[:, 1] - logits[:, 0]


def linear_problem(threat: Threat, size: int = 6) -> tuple[Problem, Tensor]:
    generator = seeded(3)
    weight = torch.randn(1, size, size, generator=generator, dtype=torch.float64)
    x = torch.rand(4, 1, size, size, generator=generator, dtype=torch.float64)
    return Problem.of(Linear(weight), x, torch.zeros(4, dtype=torch.int64), threat, margin), weight


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("pairs", [5, 25, 100])
def test_an_estimate_points_as_theory_says_whatever_the_batch(pairs: int, batch: int) -> None:
    """Past defect of others: noise times the batch's summed loss.

    The cosine with the gradient is about √(m/(m+d+1)).
    """
    dimensions = 10 * 10
    weight = torch.randn(1, 10, 10, generator=seeded(1), dtype=torch.float64)
    x = torch.full((batch, 1, 10, 10), 0.5, dtype=torch.float64)
    scale = torch.logspace(-2, 2, batch, dtype=torch.float64)  # neighbours of other scales
    problem = Problem(
        x,
        Linf(0.3),
        lambda image, rows: (1 + 1e-6 * scale[rows] * (image * weight).sum((1, 2, 3))).log(),
    )
    cosines = []
    for seed in range(200 // batch + 1):
        estimate = Estimated(2 * pairs, 0.01)(problem, x, seeded(seed)).flatten(1)
        cosines.append(torch.cosine_similarity(estimate, weight.flatten()[None]))
    assert torch.cat(cosines).mean().item() == pytest.approx(
        math.sqrt(pairs / (pairs + dimensions + 1)), rel=0.1
    )


def test_an_estimate_of_many_samples_is_the_gradient() -> None:
    """In size, too: of the confidence, not of its logarithm."""
    x = 0.1 + 0.8 * images(2)  # so that no sample is clipped
    problem = Problem.of(Small(3, 10), x, torch.arange(4), L2(1.0), other_class_confidence)
    found, gradient = problem.value_and_grad(torch.zeros_like(x))
    expected = gradient * found.value.exp()[:, None, None, None]
    estimate = Estimated(20_000, 1e-3)(problem, x, seeded())
    cosine = torch.cosine_similarity(estimate.flatten(1), expected.flatten(1))
    assert cosine.min() > 0.98
    ratio = estimate.flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
    torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=0.05, atol=0)


def test_ql_counts_its_queries_and_climbs() -> None:
    problem, weight = linear_problem(L2(1.0))
    found = PGD(30, 0.3, gradient=Estimated(50, 0.1))(problem, seeded())
    assert problem.counts.forwards == 4 * (1 + 30 * (50 + 1))
    assert problem.counts.backwards == 0
    share = (found.delta * weight).sum((1, 2, 3)) / best_linear("L2", 1.0, problem.x, weight)
    assert share.min() > 0.95


@pytest.mark.parametrize("threat", [Linf(0.3), L0(4)])
def test_simple_finds_the_optimum_of_a_linear_model_one_coordinate_at_a_time(
    threat: Threat,
) -> None:
    problem, weight = linear_problem(threat, size=4)
    found = Simple(400)(problem, seeded())
    reached = (found.delta * weight).sum((1, 2, 3))
    optimum = best_linear(type(threat).__name__, threat.epsilon, problem.x, weight)
    if isinstance(threat, Linf):
        torch.testing.assert_close(reached, optimum)
    else:  # a pixel leaves only for one that is further away, not for one that pays more
        assert (reached / optimum).min() > 0.5
    assert problem.counts.forwards == 4 * (1 + 2 * 400)


@pytest.mark.parametrize("threat", [L2(1.0), L1(3.0)])
def test_simple_never_gets_worse_and_moves_one_entry_at_a_time(threat: Threat) -> None:
    problem, _ = linear_problem(threat)
    values = [Simple(n)(problem, seeded()).value for n in (1, 5, 25, 100)]
    for before, after in itertools.pairwise(values):
        assert (after >= before).all()
    assert (values[-1] > values[0]).all()
    assert (Simple(1)(problem, seeded()).delta != 0).flatten(1).sum(1).max() <= 1


def test_simple_sets_all_channels_of_a_pixel_in_l0() -> None:
    x = images(5)
    problem = Problem(x, L0(1), lambda image, rows: (image - x[rows]).abs().sum((1, 2, 3)))
    found = Simple(1)(problem, seeded())
    changed = problem.images(found)[(found.delta != 0).any(1, keepdim=True).expand_as(x)]
    assert set(changed.tolist()) <= {0.0, 1.0}
    assert (L0(1).size(found.delta) == 1).all()


@pytest.mark.parametrize("per", ["pixel", "entry"])
def test_simple_exchanges_pixels_once_all_are_used(per: Literal["pixel", "entry"]) -> None:
    """A pixel that moves far is worth little here, one that moves a little is worth much.

    Projecting alone would keep the former.
    """
    worth = torch.full((1, 1, 6, 6), 0.1, dtype=torch.float64)
    worth[..., 3:, :] = 5.0
    x = torch.zeros(4, 1, 6, 6, dtype=torch.float64)
    x[..., 3:, :] = 0.6
    found = Simple(600)(
        Problem(x, L0(5, per=per), lambda images, rows: (images * worth).sum((1, 2, 3))), seeded(4)
    )
    assert (L0(5).size(found.delta) == 5).all()
    assert (found.delta[..., :3, :] == 0).all()
    assert L0(5).size(found.delta[..., 3:, :]).eq(5).all()


def test_geometry_goes_straight_towards_an_image_of_the_pool() -> None:
    x = torch.full((2, 1, 4, 4), 0.5, dtype=torch.float64)
    pool = torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)]).double()
    problem = Problem(
        x, L2(1.0), lambda image, rows: torch.where(rows == 0, 1, -1) * image.sum((1, 2, 3)), pool
    )
    found = Geometry(20)(problem, seeded())
    torch.testing.assert_close(found.delta[0], torch.full((1, 4, 4), 0.25, dtype=torch.float64))
    torch.testing.assert_close(found.delta[1], torch.full((1, 4, 4), -0.25, dtype=torch.float64))


def test_refined_goes_on_from_the_best_point_of_the_first() -> None:
    """The score is flat at the image: a search finds the slope, and gradients climb it."""
    x = torch.full((2, 1, 4, 4), 0.5, dtype=torch.float64)
    pool = torch.full((1, 1, 4, 4), 0.8, dtype=torch.float64)

    def score(image: Tensor, rows: Tensor) -> Tensor:
        return (image - 0.6).clamp(min=0).sum((1, 2, 3)) + 0 * image.sum((1, 2, 3))

    def reached(attack: Attack) -> float:
        return attack(Problem(x, Linf(0.4), score, pool), seeded()).value.min().item()

    assert reached(PGD(50, 0.05)) == 0
    assert reached(Geometry(5)) == pytest.approx(16 * 0.2)
    assert reached(Refined(Geometry(5), PGD(50, 0.05))) == pytest.approx(16 * 0.3)


def test_random_tries_as_many_points_as_it_says() -> None:
    problem, _ = linear_problem(Linf(0.3))
    few, many = Random(3)(problem, seeded()), Random(200)(problem, seeded())
    assert problem.counts.forwards == 4 * (1 + 3 + 1 + 200)
    assert (many.value >= few.value).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Random(0), "Random: iterations"),
        (lambda: Simple(0), "Simple: iterations"),
        (lambda: Geometry(0), "Geometry: iterations"),
        (lambda: Estimated(0), "samples must be a whole number"),
        (lambda: Estimated(7), "must be even, not 7"),
        (lambda: Estimated(8, 0.0), "sigma"),
        (
            lambda: Geometry(3)(linear_problem(Linf(0.3))[0], seeded()),
            r"pool of other images of shape \(1, 6, 6\) .* not None",
        ),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_they_can_be_stored() -> None:
    for attack in (
        Random(3),
        Simple(3),
        Refined(Geometry(3), PGD(3, 0.1)),
        PGD(3, 0.1, gradient=Estimated()),
    ):
        case = Case("a", Linf(0.3), attack)
        assert decode(encode(case), Case) == case
    exact = Case("a", Linf(0.3), PGD(3, 0.1))
    assert not {"gradient", "smooth"} & exact.identity()["attack"].keys(), (
        "a new field, None by default, leaves stored results valid"
    )
