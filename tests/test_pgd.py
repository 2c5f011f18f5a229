import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_threats import THREATS, images
from torch import Tensor
from truth import Linear, Small, algorithm_2, best_linear, seeded

from ccat import L0, L1, L2, PGD, Linf, Problem, Threat, cross_entropy, other_class_confidence
from ccat.objectives import OBJECTIVES


@pytest.mark.parametrize("start", ["zero", "random"])
@pytest.mark.parametrize(("threat", "objective"), list(itertools.product(THREATS, OBJECTIVES)))
def test_it_is_algorithm_2(threat: str, objective: str, start: str) -> None:
    """One forward and backward per iteration reach the points of the paper's two forwards."""
    x, y, model = images(21), torch.tensor([0, 1, 2, 3]), Small(3, 10)
    problem = Problem.of(model, x, y, THREATS[threat], OBJECTIVES[objective])
    rate = {"Linf": 0.05, "L2": 0.3, "L1": 1.0, "L0": 20.0, "Frame": 0.2}[
        threat.split(maxsplit=1)[0]
    ]
    attack = PGD(
        40, rate, momentum=0.9, backtracking=1.3, start="random" if start == "random" else "zero"
    )
    found = attack(problem, seeded(4))
    first = THREATS[threat].sample(x, seeded(4)) if start == "random" else torch.zeros_like(x)
    expected = algorithm_2(
        model.eval(), x, y, THREATS[threat], OBJECTIVES[objective], first, 40, rate, 0.9, 1.3
    )
    torch.testing.assert_close(found.delta, expected.delta, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.value, expected.value, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["corners", "grey", "mixed"])
@pytest.mark.parametrize(
    ("threat", "rate"),
    [(Linf(0.3), 0.05), (L2(2.0), 0.3), (L1(10.0), 2.0), (L0(10), 1e5)],
    ids=["Linf", "L2", "L1", "L0"],
)
def test_it_finds_the_worst_perturbation_of_a_linear_model(
    threat: Threat, rate: float, kind: str
) -> None:
    generator = seeded(31)
    weight = torch.randn(1, 28, 28, generator=generator, dtype=torch.float64)
    x = grey_images(kind, generator)
    problem = Problem.of(Linear(weight), x, torch.zeros(len(x), dtype=torch.int64), threat, margin)
    found = PGD(300, rate)(problem, seeded())
    reached = (found.delta * weight).sum((1, 2, 3))
    optimum = best_linear(type(threat).__name__, threat.epsilon, x, weight)
    assert (reached <= optimum * (1 + 1e-9)).all()
    torch.testing.assert_close(
        reached, optimum, rtol=1e-3 if isinstance(threat, L1) else 1e-6, atol=0
    )


@pytest.mark.parametrize(("rate", "least"), [(10.0, 0.4), (250.0, 0.7), (1e5, 1 - 1e-9)])
def test_l0_needs_steps_that_cross_the_box(rate: float, least: float) -> None:
    """A new pixel has to win its place in one step: small rates stay with the first choice.

    The suites take large ones.
    """
    weight = torch.randn(1, 28, 28, generator=seeded(31), dtype=torch.float64)
    x = grey_images("grey", seeded(32))
    found = PGD(300, rate)(
        Problem.of(Linear(weight), x, torch.zeros(8, dtype=torch.int64), L0(10), margin), seeded()
    )
    share = (found.delta * weight).sum((1, 2, 3)) / best_linear("L0", 10, x, weight)
    assert least <= share.min() <= 1 + 1e-9


def grey_images(kind: str, generator: torch.Generator) -> Tensor:
    x = torch.rand(8, 1, 28, 28, generator=generator, dtype=torch.float64)
    corners = (x > 0.5).double()
    return {
        "grey": x,
        "corners": corners,
        "mixed": torch.where(torch.rand(x.shape, generator=generator) < 0.7, corners, x),
    }[kind]


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    return logits[:, 1] - logits[:, 0]


@pytest.mark.parametrize("backtracking", [1.1, None])
@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_it_runs_t_plus_1_forwards_and_t_backwards(
    iterations: int, backtracking: float | None
) -> None:
    model = Small(3, 10)
    forwards, backwards = [], []
    model.register_forward_hook(lambda *_: forwards.append(1))
    model.layers[0].register_full_backward_hook(lambda *_: backwards.append(1))
    problem = Problem.of(model, images(1), torch.tensor([0, 1, 2, 3]), Linf(0.3), cross_entropy)
    PGD(iterations, 0.1, backtracking=backtracking)(problem, seeded())
    assert len(forwards) == iterations + 1
    assert len(backwards) == iterations
    assert problem.counts.forwards == 4 * (iterations + 1)
    assert problem.counts.backwards == 4 * iterations


def test_either_start_is_chosen_per_example() -> None:
    x = torch.full((400, 3, 8, 8), 0.5, dtype=torch.float64)
    firsts: list[Tensor] = []

    def score(image: Tensor, rows: Tensor) -> Tensor:
        firsts.append((image - 0.5).detach())
        return image.sum((1, 2, 3))

    PGD(1, 0.1, start="either")(Problem(x, Linf(0.3), score), seeded(2))
    zero = (firsts[0].abs().amax((1, 2, 3)) < 1e-12).double().mean()
    assert 0.4 < zero < 0.6


def test_backtracking_has_a_rate_per_example() -> None:
    """Where steps overshoot, the rate falls until the top is reached; a neighbour keeps its own."""
    x = torch.full((2, 1, 4, 4), 0.5, dtype=torch.float64)

    def score(image: Tensor, rows: Tensor) -> Tensor:
        moved = image - 0.5
        peak = -(moved - 0.013).square().sum((1, 2, 3))
        return torch.where(rows == 0, peak, moved.sum((1, 2, 3)))

    found = PGD(100, 0.05, backtracking=1.5)(Problem(x, Linf(0.4), score), seeded())
    torch.testing.assert_close(
        found.delta[0], torch.full_like(found.delta[0], 0.013), rtol=0, atol=1e-4
    )
    torch.testing.assert_close(
        found.delta[1], torch.full_like(found.delta[1], 0.4), rtol=0, atol=1e-12
    )


def test_a_step_of_equal_value_is_taken() -> None:
    """On a plateau at the start the momentum carries on: Algorithm 2 accepts what is not worse."""
    x = torch.full((1, 1, 1, 1), 0.5, dtype=torch.float64)

    def score(image: Tensor, rows: Tensor) -> Tensor:
        return (
            1 + 1e-30 * image.sum((1, 2, 3)) + (image - 0.6).clamp(min=0).sum((1, 2, 3))
        )  # 1 + 1e-30 is 1, but has a gradient

    found = PGD(30, 0.05)(Problem(x, Linf(0.4), score), seeded())
    assert found.value.item() == pytest.approx(1.3)


def test_attacks_raise_the_confidence_of_a_wrong_class() -> None:
    x, y, model = images(21), torch.tensor([0, 1, 2, 3]), Small(3, 10)
    problem = Problem.of(model, x, y, L2(1.0), other_class_confidence)
    start = problem.evaluate(torch.zeros_like(x))
    found = PGD(50, 0.1)(problem, seeded())
    assert (found.value > start.value).all()
    assert found.value.exp().min() > 0.9 > start.value.exp().min()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PGD(0, 0.1), "iterations"),
        (lambda: PGD(-3, 0.1), "iterations"),
        (lambda: PGD(2.5, 0.1), "iterations"),  # type: ignore[arg-type]
        (lambda: PGD(10, 0.0), "rate"),
        (lambda: PGD(10, "0.1"), "rate must be a number"),  # type: ignore[arg-type]
        (lambda: PGD(10, True), "rate must be a number"),
        (lambda: PGD(10, float("nan")), "rate"),
        (lambda: PGD(10, 0.1, momentum=1.0), "momentum"),
        (lambda: PGD(10, 0.1, backtracking=1.0), "backtracking"),
        (lambda: PGD(10, 0.1, start="middle"), "start"),  # type: ignore[arg-type]
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
