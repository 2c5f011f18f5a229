"""Runs compared image by image, and over seeds."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from ccat.evaluation.compare import by_recipe, compare
from ccat.evaluation.difference import difference
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import pooled_outcome
from ccat.evaluation.intervals import Estimate, clopper_pearson, percentiles
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.rates import ERROR
from ccat.evaluation.resampling import REPLICATES, resampled, resampled_thresholds, resamples
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
    assert linf.difference.value == pytest.approx(
        literal_robust_error(other, (0, 1), taus[1]) - literal_robust_error(one, (0, 1), taus[0])
    )
    assert linf.difference.low < linf.difference.value < linf.difference.high
    same = compare(one, one, 0.9)
    assert all(c.difference == (0, 0, 0) and c.p == 1 and c.only_first_fails == 0 for c in same)


def test_p_and_interval_are_those_of_a_literal_paired_bootstrap() -> None:
    """Resampled one by one: the images, the same for both runs, and the calibration images."""
    one, other = run_outcomes(0), run_outcomes(1)
    counts = resamples(100, 0)
    taus = [resampled_thresholds(m.calibration, [0.9], 0)[0] for m in (one, other)]
    values = []
    for row, *each in zip(counts, *taus, strict=True):
        rows = np.repeat(np.arange(100), row)
        errors = []
        for m, tau in zip((one, other), each, strict=True):
            clean, worst = pooled_outcome(m, m.groups[1])
            clean, worst = (
                Outcome(given.wrong[rows], given.score[rows]) for given in (clean, worst)
            )
            errors.append(metrics.robust_error(clean, worst, float(tau)))
        values.append(errors[1] - errors[0])
    values.sort()
    found = compare(one, other, 0.9)[2]
    assert found.condition == L2_3
    assert (found.difference.low, found.difference.high) == pytest.approx((values[24], values[-25]))
    beyond = sum(value <= 0 if found.difference.value > 0 else value >= 0 for value in values)
    assert found.p == pytest.approx(min(1, 2 * (1 + beyond) / 1001))
    assert 0 < found.p <= 1


shares = st.integers(0, 20).map(lambda n: n / 20)


@given(
    st.tuples(shares, shares),
    st.lists(st.integers(-20, 20).map(lambda n: n / 20), min_size=1, max_size=400),
    st.integers(0, 2**32 - 1),
)
def test_p_is_below_5_percent_where_the_interval_leaves_zero_out(
    values: tuple[float, float], drawn: list[float], seed: int
) -> None:
    """Whatever the resamples: biased ones, few, and rates of 0 and 1, which have exact bounds."""
    first, second = values
    g = np.random.default_rng(seed)
    shift = (second - first) * g.integers(2)
    differences = np.resize(np.clip(np.array(drawn) * g.random() + shift, -1, 1), 1000)
    estimate, p = difference(
        lambda level: clopper_pearson(round(20 * first), 20, level),
        lambda level: clopper_pearson(round(20 * second), 20, level),
        differences,
    )
    assert estimate.low <= estimate.value == second - first <= estimate.high
    assert (p < 0.05) == (estimate.low > 0 or estimate.high < 0)
    assert 2 / 1001 <= p <= 1


@pytest.mark.parametrize("count", [10, 39, 40, 79, 199, 999, 1000])
def test_p_and_interval_agree_at_the_edge(count: int) -> None:
    for beyond in range(min(count, 60)):
        differences = np.where(np.arange(count) < beyond, -0.1, 0.1)
        estimate, p = difference(lambda _: Estimate(0.2, 0, 1), lambda _: EDGE, differences)
        assert p == min(1, 2 * (1 + beyond) / (count + 1))
        assert (p < 0.05) == (estimate.low > 0)


EDGE = Estimate(0.3, 0, 1)


def test_runs_that_are_equally_good_are_seldom_told_apart() -> None:
    """Two that are wrong as often, many times: p is below 5 % in about one of twenty."""
    below, times = 0, 150
    for seed in range(times):
        g = np.random.default_rng(seed)
        one, other = (Outcome(g.random(300) < 0.3, g.random(300)) for _ in range(2))
        counts, taus = resamples(300, seed), np.full(REPLICATES, 0.2)
        drawn = resampled([ERROR(each) for each in (one, other)], counts, taus)
        first, second = (
            partial(percentiles, ERROR(each), 0.2, values)
            for each, values in zip((one, other), drawn, strict=True)
        )
        below += difference(first, second, drawn[1] - drawn[0])[1] < 0.05
    assert 0.01 < below / times < 0.1


def test_one_of_none_is_no_certain_difference() -> None:
    """0 of 20 against 3 of 20: no resample of the first differs, and p still knows its bounds."""
    g = np.random.default_rng(0)
    drawn = g.binomial(20, 3 / 20, size=1000) / 20
    none, three, most = (partial(clopper_pearson, successes, 20) for successes in (0, 3, 15))
    estimate, p = difference(none, three, drawn)
    assert estimate.low < 0 < estimate.high
    assert p > 0.05
    _, certain = difference(none, most, np.full(1000, 0.75))
    assert certain == pytest.approx(2 / 1001)


def test_the_table_never_rounds_p_to_what_the_interval_denies() -> None:
    one = compare(run_outcomes(0), run_outcomes(1), 0.9)[1]
    texts = [
        comparison_table("a", "b", 0.9, [replace(one, p=p)]).rows[0][5]
        for p in (1.0, 52 / 1001, 50 / 1001, 48 / 1001, 2 / 1001)
    ]
    assert texts == ["1.000", "0.052", "<0.050", "0.048", "0.002"]


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
        assert back.p == pytest.approx(there.p)
        assert (back.difference.low, back.difference.high) == pytest.approx(
            (-there.difference.high, -there.difference.low), abs=1e-9
        )
        assert (back.only_first_fails, back.only_second_fails) == (
            there.only_second_fails,
            there.only_first_fails,
        )
    row = comparison_table("one", "other", 0.9, compare(one, other, 0.9)).rows[1]
    linf = compare(one, other, 0.9)[1]
    assert row[2:8] == (
        Share.of(linf.first),
        Share.of(linf.second),
        Share.of(linf.difference),
        f"{linf.p:.3f}",
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
    assert noise.p == pytest.approx(2 / 1001), "as small as 1000 resamples can say"
