"""Runs compared image by image, and over seeds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from synthetic import (
    JUDGE,
    L2_3,
    LINF,
    NOISE,
    attempt,
    literal_failures,
    literal_robust_error,
    run_outcomes,
    with_score,
)

from ccat.evaluation import metrics
from ccat.evaluation.compare import by_recipe, compare, mcnemar
from ccat.evaluation.evaluate import evaluate
from ccat.report import (
    comparison_table,
    seeds_table,
)
from ccat.report.table import Share


def test_a_comparison_pairs_the_same_images() -> None:
    one, other = run_outcomes(0), run_outcomes(1)
    clean, linf, l2, noise = compare(one, other, 0.9)
    assert [one.condition for one in (clean, linf, l2, noise)] == [None, LINF, L2_3, NOISE]
    taus = [metrics.threshold(m.calibration, 0.9) for m in (one, other)]
    fails = [literal_failures(m, (0, 1), tau) for m, tau in zip((one, other), taus, strict=True)]
    assert linf.only_first_fails == sum(a and not b for a, b in zip(*fails, strict=True))
    assert linf.only_second_fails == sum(b and not a for a, b in zip(*fails, strict=True))
    assert (
        linf.p
        == stats.binomtest(
            linf.only_first_fails, linf.only_first_fails + linf.only_second_fails
        ).pvalue
    )
    assert linf.difference.value == pytest.approx(
        literal_robust_error(other, (0, 1), taus[1]) - literal_robust_error(one, (0, 1), taus[0])
    )
    assert linf.difference.low < linf.difference.value < linf.difference.high
    same = compare(one, one, 0.9)
    assert all(c.difference == (0, 0, 0) and c.p == 1 and c.only_first_fails == 0 for c in same)


def test_mcnemar_is_the_binomial_test() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(3, 12) == pytest.approx(2 * stats.binom.cdf(3, 15, 0.5))


def test_seeds_of_one_recipe_are_taken_together() -> None:
    recipes = [{"name": "x", "seed": "0"}, {"name": "y", "seed": "0"}, {"name": "x", "seed": "1"}]
    runs = [
        replace(run_outcomes(seed), run=f"r{seed}", recipe=recipe)
        for seed, recipe in enumerate(recipes)
    ]
    groups = by_recipe(runs)
    assert {name: [one.run for one in group] for name, group in groups.items()} == {
        "x, seeds 0, 1": ["r0", "r2"],
        "r1": ["r1"],
    }
    other = [
        replace(one, run=f"{one.run}b", recipe={**one.recipe, "rho": "6"})
        for one in (runs[0], runs[2])
    ]
    assert list(by_recipe([runs[0], runs[2], *other])) == [
        "x, seeds 0, 1",
        "x (rho 6), seeds 0, 1",
    ], "no group is lost"
    made = seeds_table(
        {name: [evaluate(one, 0.9) for one in group] for name, group in groups.items()}
    )
    values = [100 * evaluate(runs[n], 0.9).attacks[1].pooled.headline.value for n in (0, 2)]
    row = dict(zip(made.head, made.rows[0], strict=True))
    assert row["L2:3"] == f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
    assert "±" not in str(made.rows[1])


def test_a_comparison_turned_round_is_its_mirror() -> None:
    one, other = run_outcomes(0), run_outcomes(1)
    for there, back in zip(compare(one, other, 0.9), compare(other, one, 0.9), strict=True):
        assert back.difference.value == -there.difference.value
        assert (back.difference.low, back.difference.high) == pytest.approx(
            (-there.difference.high, -there.difference.low), abs=1e-9
        )
        assert (back.only_first_fails, back.only_second_fails) == (
            there.only_second_fails,
            there.only_first_fails,
        )
    row = comparison_table("one", "other", 0.9, compare(one, other, 0.9)).rows[1]
    linf = compare(one, other, 0.9)[1]
    assert row[2:7] == (
        Share.of(linf.first),
        Share.of(linf.second),
        Share.of(linf.difference),
        str(linf.only_first_fails),
        str(linf.only_second_fails),
    )
    shorter = replace(
        other,
        attempts=tuple(
            replace(a, answers={JUDGE: a.answers[JUDGE][:60]}, asked=a.asked[:60])
            for a in other.attempts
        ),
    )
    assert [c.images for c in compare(one, shorter, 0.9)] == [400, 60, 60, 60]


def test_a_difference_is_never_for_sure() -> None:
    """All of 100 against none of 100: resampling has nothing to vary, the interval has."""
    m = run_outcomes()
    yes, no = (
        replace(
            m,
            attempts=(
                *m.attempts[:3],
                replace(m.attempts[3], answers={JUDGE: with_score(attempt(m, 3), s)}),
            ),
        )
        for s in (1.0, 0.0)
    )
    noise = compare(yes, no, 0.9)[3]
    assert noise.difference.value == -1
    assert -1 <= noise.difference.low <= -1 < noise.difference.high < -0.9
