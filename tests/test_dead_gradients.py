"""A zero that comes from a dead gradient: noticed, marked, and found by a ball that shrinks."""

import pytest
import torch
from test_random_search import linear_problem
from torch import Tensor, nn
from truth import best_linear, seeded

import ccat
from ccat import APGD, L1, L2, PGD, Condition, Linf, Problem, Shrinking
from ccat.objectives import any_class_confidence


class Island(nn.Module):
    """Sure of class 1 near one image only; elsewhere the logits are constant, with no gradient."""

    centre: Tensor

    def __init__(self, centre: Tensor, radius: float) -> None:
        super().__init__()
        self.register_buffer("centre", centre)
        self.scale, self.radius = nn.Parameter(torch.ones(())), radius

    def forward(self, x: Tensor) -> Tensor:
        distance = (x - self.centre).flatten(1).square().mean(1).sqrt()
        height = self.scale * 20 * (self.radius - distance).relu() / self.radius
        return torch.stack([torch.zeros_like(height), height, torch.zeros_like(height)], 1)


NOISE = torch.rand(12, 1, 8, 8, generator=seeded(2))
CENTRE = torch.full((1, 8, 8), 0.5)
POOL = CENTRE + 0.02 * torch.randn(20, 1, 8, 8, generator=seeded(3))


def problem(threat: ccat.Threat, radius: float) -> Problem:
    labels = torch.zeros(len(NOISE), dtype=torch.int64)
    model = Island(CENTRE, radius)
    return Problem.of(model, NOISE, labels, threat, any_class_confidence, pool=POOL)


def test_a_shrinking_ball_finds_what_has_no_gradient_in_the_ball() -> None:
    """Noise is about 0.29 from grey; the island begins at 0.2, and within ε one can get to 0.09."""
    for attack in (PGD(50, 0.05), PGD(50, 0.05, start="random"), APGD(50), APGD(50, "random")):
        one = problem(Linf(0.2), 0.2)
        assert attack(one, seeded()).value.exp().max() < 0.34, "one third is all there is"
        assert one.passes.without_gradient(12).all()
    one = problem(Linf(0.2), 0.2)
    found = Shrinking(60)(one, seeded())
    assert found.value.exp().min() > 0.9
    assert found.delta.abs().max() <= 0.2 + 1e-6
    assert not one.passes.without_gradient(12).any()


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.5), L1(2.0)])
def test_it_reaches_the_best_point_of_a_linear_model(threat: ccat.Threat) -> None:
    one, weight = linear_problem(threat)
    pool = torch.rand(30, *one.x.shape[1:], generator=seeded(5), dtype=one.x.dtype)
    found = Shrinking(400, begin=3.0)(ccat.Problem(one.x, threat, one.score, pool), seeded())
    optimum = best_linear(type(threat).__name__, threat.epsilon, one.x, weight)
    share = (found.delta * weight).sum((1, 2, 3)) / optimum
    assert share.min() > (0.99 if isinstance(threat, Linf) else 0.9)


def test_what_it_needs_is_said() -> None:
    with pytest.raises(ValueError, match="Shrinking needs a pool of other images"):
        Shrinking(3)(Problem(NOISE, Linf(0.1), lambda x, rows: x.sum((1, 2, 3))), seeded())
    with pytest.raises(ValueError, match="Shrinking is made for Linf, L2 and L1, not for L0"):
        Shrinking(3)(Problem(NOISE, ccat.L0(3), lambda x, rows: x.sum((1, 2, 3)), POOL), seeded())
    for iterations, starts, begin in ((0, 1, 6.0), (3, 0, 6.0), (3, 1, 0.5)):
        with pytest.raises(ValueError, match="Shrinking: "):
            Shrinking(iterations, starts, begin)


def evaluated(*attacks: ccat.Attack) -> ccat.Result:
    model = Island(CENTRE, 0.2)
    return ccat.evaluate(
        model,
        NOISE,
        torch.zeros(12, dtype=torch.int64),
        calibration=(NOISE, torch.zeros(12, dtype=torch.int64)),
        threats=[Condition(Linf(0.2), "noise"), Linf(0.2)],
        suite=None,
        attacks=attacks,
        tpr=0.9,
    )


def test_a_number_that_had_no_gradient_is_marked_beside_it() -> None:
    blind = evaluated(PGD(10, 0.05), APGD(10))
    assert [a.mark for a in blind.evaluation.attacks] == ["‡", "‡"]
    assert [a.no_gradient for a in blind.evaluation.attacks] == [1, 1]
    assert "‡ (" in blind.table()
    assert "there was nothing to climb (docs/DOUBTS.md#dead-gradients)" in blind.table()
    searching = evaluated(PGD(10, 0.05), ccat.Square(10))
    assert [a.mark for a in searching.evaluation.attacks] == ["‡", "‡"], "a search proves no more"


def test_where_there_is_a_gradient_or_a_success_nothing_is_marked() -> None:
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    labels = linear(NOISE).argmax(1)
    found = ccat.evaluate(
        linear,
        NOISE,
        labels,
        calibration=(NOISE, labels),
        threats=Linf(0.1),
        suite=None,
        attacks=[PGD(10, 0.05)],
        tpr=0.9,
    )
    assert [a.no_gradient for a in found.evaluation.attacks] == [0]
    assert "dead-gradients" not in found.table()
    last = nn.Linear(64, 3)
    with torch.no_grad():
        last.weight.mul_(0)
        last.bias.copy_(torch.tensor([0.0, 500.0, 0.0]))
    sure = nn.Sequential(nn.Flatten(), last)
    there = ccat.evaluate(
        sure,
        NOISE,
        torch.ones(12, dtype=torch.int64),
        calibration=(NOISE, torch.ones(12, dtype=torch.int64)),
        threats=Condition(Linf(0.1), "noise"),
        suite=None,
        attacks=[PGD(3, 0.05)],
        tpr=0.9,
    )
    assert there.evaluation.attacks[0].pooled.headline.value == 1
    assert "dead-gradients" not in there.table(), "all noise is accepted: no need"
