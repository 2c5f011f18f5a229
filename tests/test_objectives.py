import math

import pytest
import torch
from truth import seeded

from ccat.objectives import (
    OBJECTIVES,
    any_class_confidence,
    cross_entropy,
    goal_of,
    lowest_confidence,
    most,
    other_class_confidence,
    usual_objective,
)
from ccat.threats import Condition, Linf


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_objectives_are_the_papers(classes: int) -> None:
    logits = 3 * torch.randn(50, classes, generator=seeded(), dtype=torch.float64)
    y = torch.randint(classes, (50,), generator=seeded())
    f = logits.exp() / logits.exp().sum(1, keepdim=True)
    for n in range(50):
        others = [f[n, k] for k in range(classes) if k != y[n]]
        torch.testing.assert_close(cross_entropy(logits, y)[n], -f[n, y[n]].log())
        torch.testing.assert_close(
            other_class_confidence(logits, y)[n], torch.stack(others).max().log()
        )
        torch.testing.assert_close(any_class_confidence(logits, y)[n], f[n].max().log())
        odds = (1 - f[n].max()) / f[n].max()
        torch.testing.assert_close(lowest_confidence(logits, y)[n], odds.log())


def test_a_sure_model_still_has_a_gradient() -> None:
    logits = torch.tensor([[300.0, 0.0, -5.0]], requires_grad=True)
    value = other_class_confidence(logits, torch.tensor([0]))
    assert value.item() == pytest.approx(-300)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    torch.testing.assert_close(gradient, torch.tensor([[-1.0, 1.0, 0.0]]))
    assert math.isfinite(cross_entropy(logits, torch.tensor([1])).item())


def test_where_a_model_is_sure_beyond_float32_the_lowest_confidence_has_a_gradient() -> None:
    logits = torch.tensor([[300.0, 0.0, -5.0], [301.0, 0.0, -5.0]], requires_grad=True)
    value = lowest_confidence(logits, torch.tensor([1, 1]))
    assert value[0] > value[1]
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert (gradient[:, 0] == -1).all()
    assert (gradient[:, 1] > 0.9).all()


def test_the_goal_follows_from_the_objective() -> None:
    goals = {name: goal_of(objective) for name, objective in OBJECTIVES.items()}
    assert [name for name, goal in goals.items() if goal == "rejection"] == ["lowest confidence"]
    assert goal_of(lambda logits, labels: labels) == "error"
    assert most(lowest_confidence) == math.inf
    conditions = (Condition(Linf(0.3)), Condition(Linf(0.3), "noise"))
    wanted = [other_class_confidence, any_class_confidence]
    assert [usual_objective(one) for one in conditions] == wanted
    for condition in (*conditions, Condition(Linf(0.3), goal="rejection")):
        assert goal_of(usual_objective(condition)) == condition.goal


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_work_row_by_row(name: str) -> None:
    logits = torch.randn(6, 4, generator=seeded())
    y = torch.tensor([0, 1, 2, 3, 0, 1])
    values = OBJECTIVES[name](logits, y)
    assert values.shape == (6,)
    for n in range(6):
        torch.testing.assert_close(OBJECTIVES[name](logits[n : n + 1], y[n : n + 1])[0], values[n])
