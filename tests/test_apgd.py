"""APGD against closed forms, and against PGD where a fixed step fails."""

import pytest
import torch
from test_pgd import grey_images, margin
from torch import Tensor
from truth import Linear, best_linear, seeded

from ccat import (
    APGD,
    L0,
    L1,
    L2,
    PGD,
    CornerSearch,
    Frame,
    Linf,
    Problem,
    Refined,
    Simple,
    Square,
    Threat,
)
from ccat.attacks.apgd import _checkpoints, _largest


@pytest.mark.parametrize("kind", ["corners", "grey", "mixed"])
@pytest.mark.parametrize("threat", [Linf(0.3), L2(2.0), L1(10.0)], ids=["Linf", "L2", "L1"])
def test_it_finds_the_worst_perturbation_of_a_linear_model(threat: Threat, kind: str) -> None:
    generator = seeded(31)
    weight = torch.randn(1, 28, 28, generator=generator, dtype=torch.float64)
    x = grey_images(kind, generator)
    found = APGD(100)(
        Problem.of(Linear(weight), x, torch.zeros(len(x), dtype=torch.int64), threat, margin),
        seeded(),
    )
    reached = (found.delta * weight).sum((1, 2, 3))
    optimum = best_linear(type(threat).__name__, threat.epsilon, x, weight)
    assert (reached <= optimum * (1 + 1e-9)).all()
    torch.testing.assert_close(
        reached, optimum, rtol=5e-3 if isinstance(threat, L1) else 1e-6, atol=0
    )


@pytest.mark.parametrize("threat", [Linf(0.3), L2(3.0)], ids=["Linf", "L2"])
def test_its_step_shrinks_where_a_large_one_overshoots(threat: Threat) -> None:
    """A narrow peak inside the ball: steps of fixed size jump over it, shrinking ones reach it."""
    x = torch.full((3, 1, 8, 8), 0.5, dtype=torch.float64)
    peak = (
        threat.project(x, 0.3 * torch.randn(1, 1, 8, 8, generator=seeded(5), dtype=torch.float64))
        / 2
    )

    def score(images: Tensor, rows: Tensor) -> Tensor:
        return -(images - 0.5 - peak).square().sum((1, 2, 3)).sqrt()

    first = score(x, torch.arange(3))
    reached = APGD(400)(Problem(x, threat, score), seeded()).value
    assert (reached > first / 25).all()  # 25 times nearer to the peak than the image is
    fixed = PGD(400, 2 * threat.epsilon, momentum=0, backtracking=None)(
        Problem(x, threat, score), seeded()
    ).value
    assert (reached > fixed / 4).all()


def test_in_l1_it_finds_the_few_entries_that_matter_and_their_values() -> None:
    x = torch.full((2, 1, 8, 8), 0.5, dtype=torch.float64)
    peak = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    peak[0, 0, 1, 2], peak[0, 0, 5, 5], peak[0, 0, 7, 0] = 0.4, -0.3, 0.2

    def score(images: Tensor, rows: Tensor) -> Tensor:
        return -(images - 0.5 - peak).abs().sum((1, 2, 3))

    found = APGD(400)(Problem(x, L1(2.0), score), seeded())
    assert (found.value > -0.1).all()  # of 0.9 at the image
    assert ((found.delta.abs() > 0.01) == (peak != 0)).all()


def test_it_looks_back_where_the_paper_does() -> None:
    assert sorted(_checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert _checkpoints(1) == {1}


def test_an_l1_step_moves_the_entries_of_the_largest_gradient_that_can_move() -> None:
    gradient = torch.tensor([5.0, -4.0, 3.0, 2.0, -1.0, 0.0]).view(1, 1, 2, 3)
    image = torch.tensor([1.0, 0.0, 0.5, 0.0, 0.5, 0.5]).view(
        1, 1, 2, 3
    )  # the first two are at their walls
    assert _largest(gradient, image, torch.tensor([2.9])).flatten().tolist() == [
        0,
        0,
        0.5,
        0.5,
        0,
        0,
    ]
    assert _largest(gradient, image, torch.tensor([6.0])).flatten().tolist() == pytest.approx(
        [0, 0, 1 / 3, 1 / 3, -1 / 3, 0]
    )
    assert not _largest(torch.zeros_like(gradient), image, torch.tensor([2.0])).any()


def test_in_a_frame_it_finds_the_best_border_of_a_linear_model() -> None:
    weight = torch.randn(1, 8, 8, generator=seeded(2), dtype=torch.float64)
    x = torch.rand(3, 1, 8, 8, generator=seeded(1), dtype=torch.float64)
    found = APGD(30)(
        Problem(x, Frame(2), lambda images, rows: (images * weight).sum((1, 2, 3))), seeded()
    )
    expected = (weight > 0).to(x).expand_as(x).clone()
    expected[:, :, 2:-2, 2:-2] = x[:, :, 2:-2, 2:-2]
    torch.testing.assert_close(x + found.delta, expected)


@pytest.mark.parametrize("threat", [L0(3)])
def test_it_names_the_threats_it_is_made_for(threat: Threat) -> None:
    x = torch.rand(2, 1, 8, 8, generator=seeded(1))
    with pytest.raises(ValueError, match="APGD is made for Linf, L2, L1 and Frame, not for"):
        APGD(3)(Problem(x, threat, lambda images, rows: images.sum((1, 2, 3))), seeded())


def test_bad_parameters() -> None:
    with pytest.raises(ValueError, match="APGD: iterations"):
        APGD(0)
    with pytest.raises(ValueError, match="APGD: start must be 'zero' or 'random', not 'either'"):
        APGD(3, start="either")  # type: ignore[arg-type]


def test_a_refined_attack_is_made_for_what_both_its_attacks_are_made_for() -> None:
    kinds: list[Threat] = [Linf(0.1), L2(1.0), L1(1.0), L0(2), L0(2, per="entry"), Frame(1)]

    def supported(attack: Refined) -> list[Threat]:
        return [threat for threat in kinds if attack.supports(threat)]

    assert supported(Refined(Simple(1), PGD(1, 0.1))) == kinds
    assert supported(Refined(Simple(1), APGD(1))) == [Linf(0.1), L2(1.0), L1(1.0), Frame(1)]
    assert supported(Refined(Square(1), APGD(1))) == [Linf(0.1), L2(1.0)]
    assert supported(Refined(CornerSearch(1), PGD(1, 0.1))) == [L0(2)]
    with pytest.raises(ValueError, match="both CornerSearch and APGD"):
        Refined(CornerSearch(1), APGD(1))


def test_a_refined_attack_refuses_a_threat_before_its_first_attack_runs() -> None:
    x = torch.rand(2, 1, 8, 8, generator=seeded(1))
    problem = Problem(x, L0(3), lambda images, rows: images.sum((1, 2, 3)))
    with pytest.raises(ValueError, match="Refined: APGD is not made for L0:3"):
        Refined(Simple(3), APGD(3))(problem, seeded())
    assert problem.counts.forwards == 0
