"""Beam, Exchange and Border against known optima, and gradients that are alive where others die."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from test_dead_gradients import CENTRE, NOISE, POOL, Island
from test_random_search import linear_problem
from torch import Tensor, nn
from torch.nn import functional
from truth import Linear, best_linear, seeded

from ccat import L0, L1, L2, PGD, Beam, Border, Estimated, Exchange, Frame, Linf, Problem, Threat
from ccat.attacks.beam import _best_of_each, _nearest
from ccat.attacks.smooth import smoothed
from ccat.objectives import other_class_confidence, target_confidence


@pytest.mark.parametrize("starts", ["near", "classes"])
@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.5), L1(2.0)])
def test_a_beam_reaches_the_best_point_of_a_linear_model(threat: Threat, starts: str) -> None:
    one, weight = linear_problem(threat)
    pool = torch.rand(30, *one.x.shape[1:], generator=seeded(5), dtype=one.x.dtype)
    attack = Beam(starts, ((3, 100), (1, 300)), nearest=10)  # type: ignore[arg-type]
    found = attack(replace(one, pool=pool), seeded())
    optimum = best_linear(type(threat).__name__, threat.epsilon, one.x, weight)
    share = (found.delta * weight).sum((1, 2, 3)) / optimum
    assert share.min() > (0.99 if isinstance(threat, Linf) else 0.9)


def test_exchanging_pixels_reaches_the_best_point_of_a_linear_model() -> None:
    for epsilon in (1, 3, 8):
        one, weight = linear_problem(L0(epsilon))
        pool = torch.rand(30, *one.x.shape[1:], generator=seeded(5), dtype=one.x.dtype)
        found = Exchange(1)(replace(one, pool=pool), seeded())
        optimum = best_linear("L0", epsilon, one.x, weight)
        torch.testing.assert_close((found.delta * weight).sum((1, 2, 3)), optimum)


def test_a_border_reaches_the_corners_of_a_linear_model() -> None:
    one, weight = linear_problem(Frame(1))
    found = Border(4, 20, 20)(one, seeded())
    border = torch.ones(6, 6, dtype=torch.bool)
    border[1:-1, 1:-1] = False
    wall = torch.where(weight > 0, 1 - one.x, one.x)
    optimum = (weight.abs() * wall * border).sum((1, 2, 3))
    torch.testing.assert_close((found.delta * weight).sum((1, 2, 3)), optimum)


class Rectified(nn.Module):
    """Sure of class 1 where all entries are large; all rectifiers are off far below, in three ways.

    There the logits are constant, and the gradient is exactly zero.
    """

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.scale = how, nn.Parameter(torch.ones(()))
        self.rectifier = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        z = self.scale * (x.flatten(1) - 0.6)
        if self.how == "module":
            z = self.rectifier(z)
        elif self.how == "function":
            z = functional.relu(z)
        else:
            z = z.relu()
        return torch.stack([torch.full_like(z[:, 0], 2.0), 4 * z.sum(1)], 1)


@pytest.mark.parametrize("how", ["module", "function", "method"])
def test_smoothed_rectifiers_lead_out_of_a_dead_region(how: str) -> None:
    """Entries of 0.2 may rise to 0.7; below 0.6 the gradient is zero."""
    x, y = torch.full((3, 1, 4, 4), 0.2), torch.zeros(3, dtype=torch.int64)
    problem = Problem.of(Rectified(how), x, y, Linf(0.5), other_class_confidence, x)
    assert PGD(50, 0.05)(problem, seeded()).delta.count_nonzero() == 0
    dead = problem.probe_grad(x)
    assert dead.count_nonzero() == 0
    assert (problem.probe_grad(x, smooth=1.0) > 0).all()
    found = Beam("classes", ((2, 60), (1, 30)), smooth=1.0)(problem, seeded())
    assert (found.delta - 0.5).abs().max() < 1e-3
    exact = Beam("classes", ((2, 60), (1, 30)), smooth=0.0)(problem, seeded())
    assert exact.delta.count_nonzero() == 0


ROUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "round": torch.round,
    "method": lambda z: z.round(),
    "by name": lambda z: torch.round(input=z),
    "in place": lambda z: z.clone().round_(),
    "decimals": lambda z: torch.round(z / 8, decimals=0) * 8,
    "floor": torch.floor,
    "ceil": lambda z: z.ceil(),
    "trunc": torch.trunc,
    "sign": lambda z: torch.sign(z - 5.5),
}


class Rounded(nn.Module):
    """The second logit is the mean of entries in eighths."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        z = ROUNDED[self.how](8 * x.flatten(1)).mean(1)
        return torch.stack([torch.full_like(z, 4.0), z], 1)


@pytest.mark.parametrize("how", ROUNDED)
def test_rounding_has_no_gradient_but_its_direction_is_found(how: str) -> None:
    model = Rounded(how)
    x, y = torch.full((2, 1, 4, 4), 0.2), torch.zeros(2, dtype=torch.int64)
    problem = Problem.of(model, x, y, Linf(0.6), other_class_confidence, x)
    assert problem.probe_grad(x).count_nonzero() == 0
    assert (problem.probe_grad(x, smooth=1.0) > 0).all()
    found = Beam("classes", ((2, 60), (1, 30)), smooth=1.0)(problem, seeded())
    reached = model(x + found.delta)[:, 1]
    torch.testing.assert_close(reached, model(torch.full_like(x, 0.8))[:, 1])


def test_rounding_is_computed_as_it_is() -> None:
    z = 4 * torch.randn(5, 7, generator=seeded())
    for name, rounded in ROUNDED.items():
        with smoothed(0.5):
            inside = rounded(z)
        assert inside.equal(rounded(z)), name


def test_smoothing_tends_to_the_rectifier_and_ends_with_its_context() -> None:
    z = torch.randn(4, 50, generator=seeded())
    for width in (1e-1, 1e-3):
        with smoothed(width):
            soft = torch.relu(z)
        most = width * z.square().mean(1).sqrt().max() * math.log(2)
        assert (soft - z.clamp_min(0)).abs().max() <= most + 1e-6
        assert (soft > 0).all() or width < 1e-2
    assert torch.relu(z).equal(z.clamp_min(0))
    inputs = z.double().requires_grad_()
    scale = 0.5 * z.double().square().mean(1, keepdim=True).sqrt()
    with smoothed(0.5):
        soft = torch.relu(inputs)
    expected = scale * functional.softplus(inputs / scale)
    torch.testing.assert_close(soft, expected)
    weight = torch.randn(z.shape, generator=seeded(1), dtype=torch.float64)
    slopes = [torch.autograd.grad((one * weight).sum(), inputs)[0] for one in (soft, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-7)
    one, other = z.clone(), z.clone()
    other[1:] *= 100
    with smoothed(0.5):
        assert torch.relu(one)[0].equal(torch.relu(other)[0]), "row i depends on row i"


LIMITED: dict[str, Callable[[Tensor], Tensor]] = {
    "clamp": lambda z: torch.clamp(z, 0, 1),
    "by name": lambda z: torch.clamp(input=z, max=1, min=0),
    "method": lambda z: z.clamp(0, 1),
    "clip": lambda z: z.clip(min=0, max=1),
    "in place": lambda z: z.clone().clamp_(0, 1),
    "one after the other": lambda z: z.clamp_min(0).clamp_max(1),
    "one end each": lambda z: torch.clamp_max(z.clamp(min=0), max=1),
    "hardtanh": lambda z: functional.hardtanh(z, 0, 1),
    "hardtanh by name": lambda z: functional.hardtanh(z, max_val=1, min_val=0, inplace=True),
    "module": nn.Hardtanh(0, 1),
    "default": lambda z: (functional.hardtanh(2 * z - 1) + 1) / 2,
    "relu6": lambda z: functional.relu6(6 * z) / 6,
    "its module": lambda z: nn.ReLU6()(6 * z) / 6,
}


class Limited(nn.Module):
    """The second logit is the mean of entries behind a steep curve from 0 at 0.4 to 1 at 0.6."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        z = 8 * LIMITED[self.how](5 * (x.flatten(1) - 0.4)).mean(1)
        return torch.stack([torch.full_like(z, 4.0), z], 1)


@pytest.mark.parametrize("how", LIMITED)
def test_smoothed_limits_lead_across_what_is_flat(how: str) -> None:
    """Black entries may become 0.7; below 0.4 there is no gradient, and beyond 0.6 no more."""
    model = Limited(how)
    x, y = torch.zeros(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64)
    problem = Problem.of(model, x, y, Linf(0.7), other_class_confidence, x)
    assert problem.probe_grad(x).count_nonzero() == 0
    assert (problem.probe_grad(x, smooth=1.0) > 0).all()
    assert (problem.probe_grad(x + 0.9, smooth=1.0) > 0).all()
    found = Beam("classes", ((2, 60), (1, 30)), smooth=1.0)(problem, seeded())
    torch.testing.assert_close(model(x + found.delta)[:, 1], torch.full((2,), 8.0))


def test_smoothed_steps_of_pgd_lead_across_what_is_flat() -> None:
    model = Limited("clamp")
    x, y = torch.zeros(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64)
    problem = Problem.of(model, x, y, Linf(0.7), other_class_confidence, x)
    assert PGD(40, 0.05)(problem, seeded()).delta.count_nonzero() == 0
    found = PGD(40, 0.05, smooth=1.0)(problem, seeded())
    torch.testing.assert_close(found.value, problem.evaluate(found.delta).value)
    assert PGD(40, 0.05).cost((1, 4, 4)).forwards == 41
    assert PGD(40, 0.05, smooth=1.0).cost((1, 4, 4)).forwards == 81
    torch.testing.assert_close(model(x + found.delta)[:, 1], torch.full((2,), 8.0))
    with pytest.raises(ValueError, match="PGD: an estimated gradient uses scores alone"):
        PGD(3, 0.1, gradient=Estimated(), smooth=0.1)


def slope_of(limited: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    z = z.clone().requires_grad_()
    (slope,) = torch.autograd.grad(limited(z.clone()).sum(), z)
    return slope


@pytest.mark.parametrize("how", LIMITED)
def test_limits_are_computed_as_they_are_with_a_slope_that_tends_to_theirs(how: str) -> None:
    z, limited = 3 * torch.randn(4, 50, generator=seeded()), LIMITED[how]
    for width in (1e-4, 0.5):
        with smoothed(width):
            assert limited(z.clone().requires_grad_() * 1).equal(limited(z.clone())), how
            slope = slope_of(limited, z)
        assert ((slope > 0) & (slope < 1)).any() or width < 0.5, "smooth"
        if width < 0.5:
            near = ((z - 0).abs() > 0.01) & ((z - 1).abs() > 0.01)
            torch.testing.assert_close(slope[near], slope_of(limited, z)[near], atol=1e-3, rtol=0)


def test_the_slope_of_a_limit() -> None:
    """σ((z − low)/w) · σ((high − z)/w), with w a share of the size of each example alone."""
    z = torch.tensor([[-1.0, 0.5, 3.0], [10.0, 20.0, -30.0]])
    with smoothed(0.5):
        slope = slope_of(lambda z: z.clamp(0, 1), z)
        far = slope_of(lambda z: z.clamp(-math.inf, 1e9), z)
    for row, values in enumerate(z.tolist()):
        w = 0.5 * math.sqrt(sum(value**2 for value in values) / 3)
        for place, value in enumerate(values):
            low, high = (1 / (1 + math.exp(-one / w)) for one in (value, 1 - value))
            assert slope[row, place].item() == pytest.approx(low * high, rel=1e-4)
    assert far.equal(torch.ones_like(z)), "a limit that nothing comes near changes nothing"


def test_what_has_no_gradient_is_not_touched_and_statements_count() -> None:
    z = torch.randn(4, 50, generator=seeded())
    with smoothed(1.0):
        assert torch.arange(5).clamp(1, 3).equal(torch.tensor([1, 1, 2, 3, 3]))
        assert torch.clamp(z, 0, 1, out=torch.empty_like(z)).equal(z.clamp(0, 1))
        moved = (2 * z).requires_grad_() * 1
        moved.clamp_(0, 1)
        functional.hardtanh(other := z.clone().requires_grad_() * 1, 0, 1, inplace=True)
        chances = z.clone().requires_grad_().softmax(1).clamp(1e-7, 1).log()
    assert moved.equal((2 * z).clamp(0, 1))
    assert other.equal(z.clamp(0, 1))
    assert chances.isfinite().all(), "limits keep what they are there for"


def test_smoothing_leaves_a_linear_model_and_the_images_as_they_are() -> None:
    """Past defect: limiting images to [0,1] was itself smoothed, and changed them all."""
    one, weight = linear_problem(Linf(0.1))
    torch.testing.assert_close(one.probe_grad(one.x, 1.0), one.probe_grad(one.x))
    seen: list[Tensor] = []

    def score(x: Tensor, rows: Tensor) -> Tensor:
        seen.append(x.detach().clone())
        return (x * weight).sum((1, 2, 3))

    images = (one.x > 0.5).to(one.x.dtype)
    Problem(one.x, Linf(0.1), score).probe_grad(images, 1.0)
    assert torch.cat(seen).equal(images)


def test_what_near_images_and_classes_are() -> None:
    x = torch.rand(2, 1, 2, 2, generator=seeded())
    pool, labels = torch.rand(20, 1, 2, 2, generator=seeded(1)), torch.arange(20) % 2
    y = torch.tensor([0, 1])
    problem = Problem.of(
        Linear(torch.ones(1, 2, 2)), x, y, Linf(0.1), other_class_confidence, pool, None, labels
    )
    problem.evaluate(torch.zeros_like(x))
    chosen = _nearest(problem, 5)
    for row in range(2):
        distance = (pool - x[row]).flatten(1).norm(dim=1)
        others = [n for n in distance.argsort().tolist() if labels[n] != y[row]]
        assert chosen[row].tolist() == others[:5]
    allowed = problem.targets()
    assert allowed is not None
    assert allowed.tolist() == [[False, True], [True, False]]
    value = problem.towards(torch.tensor([1, 0])).evaluate(torch.zeros_like(x)).value
    logits = Linear(torch.ones(1, 2, 2))(x)
    torch.testing.assert_close(value, target_confidence(logits, torch.tensor([1, 0])).detach())


def test_many_classes_are_cut_to_the_likeliest() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 50))
    x, y = torch.rand(3, 1, 2, 2, generator=seeded()), torch.tensor([0, 1, 2])
    problem = Problem.of(model, x, y, Linf(0.1), other_class_confidence)
    problem.evaluate(torch.zeros_like(x))
    allowed = problem.targets(10)
    assert allowed is not None
    logits = model(x).scatter(1, y[:, None], -math.inf)
    for row in range(3):
        likeliest = logits[row].topk(10).indices.sort().values
        assert allowed[row].nonzero()[:, 0].equal(likeliest)


def test_the_best_of_each_against_a_literal_loop() -> None:
    g = seeded(4)
    owner = torch.randint(6, (40,), generator=g)
    value = torch.randint(5, (40,), generator=g).float()
    for count in (1, 3):
        expected = torch.zeros(40, dtype=torch.bool)
        for one in range(6):
            mine = [n for n in range(40) if owner[n] == one]
            mine.sort(key=lambda n: (-value[n].item(), n))
            expected[mine[:count]] = True
        assert _best_of_each(value, owner, count).equal(expected)


def test_a_beam_finds_an_island_from_near_images_alone() -> None:
    labels = torch.zeros(len(NOISE), dtype=torch.int64)
    problem = Problem.of(
        Island(CENTRE, 0.25), NOISE, labels, Linf(0.2), other_class_confidence, POOL
    )
    assert Beam(nearest=5)(problem, seeded()).value.exp().min() > 0.9


def test_enough_ends_a_search_early() -> None:
    one, _ = linear_problem(Linf(0.1))
    pool = torch.rand(30, *one.x.shape[1:], generator=seeded(5), dtype=one.x.dtype)
    counts = []
    for enough in (math.inf, -10.0):
        problem = replace(one, pool=pool, enough=enough)
        problem.counts.forwards = 0
        Beam(nearest=5)(problem, seeded())
        counts.append(problem.counts.forwards)
    assert counts[1] < counts[0] / 10


def test_what_they_need_is_said() -> None:
    x = torch.rand(2, 1, 6, 6)

    def problem(threat: Threat) -> Problem:
        return Problem(x, threat, lambda images, rows: images.sum((1, 2, 3)))

    with pytest.raises(ValueError, match="Beam needs a pool of other images"):
        Beam()(problem(Linf(0.1)), seeded())
    with pytest.raises(ValueError, match="Exchange needs a pool"):
        Exchange(1)(problem(L0(3)), seeded())
    with pytest.raises(ValueError, match="Exchange is made for L0 of pixels"):
        Exchange(1)(problem(L0(3, per="entry")), seeded())
    with pytest.raises(ValueError, match="Border is made for Frame"):
        Border()(problem(Linf(0.1)), seeded())
    for wrong in (
        lambda: Beam("far"),  # type: ignore[arg-type]
        lambda: Beam(rounds=()),
        lambda: Beam(rounds=((0, 3),)),
        lambda: Beam(nearest=0),
        lambda: Beam(smooth=-1.0),
        lambda: Exchange(0),
        lambda: Border(0),
    ):
        with pytest.raises(ValueError, match=r"Beam: |Exchange: |Border: "):
            wrong()
