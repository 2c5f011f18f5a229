"""Proposition 1: the closed forms hold, the comparison that the proof omits does not always."""

import itertools
import math

import numpy as np
import pytest

from ccat.evaluation.proposition import (
    Training,
    branch_is_global,
    closed_form,
    condition,
    loss,
    solve,
)

P0 = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


@pytest.mark.parametrize("p0", P0)
@pytest.mark.parametrize("training", ["AT-100%", "AT-50%"])
def test_adversarial_training_cannot_have_both(training: Training, p0: float) -> None:
    best = min(solve(training, p0), key=lambda solution: solution.loss)
    assert best.a == pytest.approx(math.log((1 - p0) / p0), abs=1e-4)
    assert best.b == pytest.approx(best.a, abs=1e-4)
    if p0 != 0.5:
        assert best.error == pytest.approx(min(p0, 1 - p0))


@pytest.mark.parametrize(("p0", "lam"), list(itertools.product(P0, (0.0, 0.1, 0.5, 0.9))))
def test_the_closed_form_is_the_best_of_its_branch(p0: float, lam: float) -> None:
    apart, together = solve("CCAT", p0, lam)
    assert (apart.a, apart.b) == pytest.approx(closed_form(p0, lam), abs=1e-4)
    assert (apart.error == 0) == condition(p0, lam)
    entropy = -(p0 * math.log(p0) + (1 - p0) * math.log(1 - p0))
    assert together.loss == pytest.approx(2 * entropy, abs=1e-9)
    if p0 != 0.5:
        assert together.error == pytest.approx(min(p0, 1 - p0))
    assert branch_is_global(p0, lam) == (apart.loss < together.loss)


def test_the_stated_condition_does_not_suffice() -> None:
    apart, together = solve("CCAT", 0.1, 0.0)
    assert condition(0.1, 0.0)
    assert (apart.loss, together.loss) == pytest.approx((0.887, 0.650), abs=5e-4)
    assert apart.error == 0
    assert together.error == pytest.approx(0.1), "the better classifier is wrong at x = 0"
    assert [branch_is_global(p0, 0.0) for p0 in (0.198, 0.199, 0.5, 0.801, 0.802)] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_a_grid_search_finds_nothing_better() -> None:
    grid = np.linspace(-6, 6, 121)
    for p0, lam in ((0.1, 0.0), (0.3, 0.2), (0.5, 0.9)):
        least = min(loss("CCAT", p0, lam, a, b) for a, b in itertools.product(grid, grid))
        assert min(solution.loss for solution in solve("CCAT", p0, lam)) <= least + 1e-9
