"""Intervals against scipy, and against known coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from ccat.evaluation import metrics, resampling
from ccat.evaluation.intervals import Estimate, bootstrap, clopper_pearson
from ccat.evaluation.metrics import Outcome, threshold
from ccat.evaluation.rates import ATTACK_RATES, COVERAGE, Levels
from ccat.evaluation.resampling import (
    resampled,
    resampled_coverages,
    resampled_thresholds,
    resamples,
)
from ccat.evaluation.selective import tau_at_coverage


def test_clopper_pearson_is_that_of_the_beta_distribution() -> None:
    for successes, trials in ((0, 20), (3, 20), (20, 20), (977, 1000)):
        low = 0 if successes == 0 else stats.beta.ppf(0.025, successes, trials - successes + 1)
        high = (
            1 if successes == trials else stats.beta.ppf(0.975, successes + 1, trials - successes)
        )
        assert clopper_pearson(successes, trials) == pytest.approx((successes / trials, low, high))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_clopper_pearson_is_that_of_scipy(level: float) -> None:
    for successes, trials in ((0, 1), (1, 1), (0, 9), (1, 9), (17, 100), (99, 100), (977, 9000)):
        theirs = stats.binomtest(successes, trials).proportion_ci(level, "exact")
        assert clopper_pearson(successes, trials, level)[1:] == pytest.approx(
            (theirs.low, theirs.high), rel=1e-9
        )


def test_thresholds_of_resamples_are_those_of_calibration_examples_drawn_one_by_one() -> None:
    """With ties, with wrong examples, and where a resample draws no correct one."""
    g = np.random.default_rng(6)
    for size, wrong in ((40, 0.2), (3, 0.9)):
        given = Outcome(g.random(size) < wrong, g.random(size).round(1))
        draws, places = np.random.default_rng([5, size, 1]), []
        for _ in range(50):
            rows = draws.integers(size, size=size)
            places.append(Outcome(given.wrong[rows], given.score[rows]))
        for tpr in (0.3, 0.5, 0.9):
            (found,) = resampled_thresholds(given, [tpr], 5, 50)
            (covering,) = resampled_coverages(given, [tpr], 5, 50)
            for one, tau, other in zip(places, found, covering, strict=True):
                correct = np.sort(one.score[~one.wrong])
                keep = max(1, math.ceil(len(correct) * tpr - 1e-9))
                assert tau == (correct[-keep] if len(correct) else -np.inf)
                assert other == tau_at_coverage(one, tpr)
    assert threshold(Outcome(np.zeros(10, dtype=bool), np.arange(10.0)), 0.8) == 2


@pytest.mark.parametrize("most", [1, 1 << 22])
def test_many_rates_on_resamples_are_those_of_each_counted_alone(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Literally, with equal and infinite thresholds, however few numbers are held at a time."""
    monkeypatch.setattr(resampling, "_MOST", most)
    g = np.random.default_rng(8)
    counts, taus = resamples(30, 2, 400), g.choice([-np.inf, 0.2, 0.4, 0.41, 0.9, 2.0], 400)
    whole = np.where(g.random(30) < 0.2, np.nan, g.random(30).round(1))
    some = np.where(g.random(30) < 0.5, np.inf, np.nan)
    many = [Levels(whole, whole), Levels(whole, some), Levels(np.full(30, np.nan), whole)]
    for levels, values in zip(many, resampled(many, counts, taus), strict=True):
        for row, tau, value in zip(counts, taus, values, strict=True):
            part, all_of = (int(row[each >= tau].sum()) for each in (levels.part, levels.whole))
            empty = math.nan if levels is many[1] else 0.0
            assert value == pytest.approx(part / all_of if all_of else empty, nan_ok=True)


def test_percentiles_leave_out_resamples_that_hold_nothing_to_count() -> None:
    rate = Levels(np.array([0.6, np.nan, np.nan]), np.array([np.inf, np.inf, np.nan]))
    taken = resampled([rate], resamples(3, 0), np.full(1000, 0.5))[0]
    assert np.isnan(taken).any(), "only the third was drawn"
    (found,) = bootstrap([rate], 0.5, resamples(3, 0), np.full(1000, 0.5))
    low, high = np.nanquantile(taken, [0.025, 0.975])
    assert found.low == min(low, clopper_pearson(1, 2).low)
    assert found.high == max(high, clopper_pearson(1, 2).high)


def test_resampled_rates_are_those_of_resampled_examples() -> None:
    g = np.random.default_rng(3)
    clean, adversarial = (Outcome(g.random(50) < 0.3, g.random(50)) for _ in range(2))
    counts, taus = resamples(50, 1, 20), np.linspace(0.1, 0.9, 20)
    assert (counts.sum(1) == 50).all()
    for rate in ATTACK_RATES:
        metric = getattr(metrics, rate.name)
        (values,) = resampled([rate(clean, adversarial)], counts, taus)
        for row, tau, value in zip(counts, taus, values, strict=True):
            rows = np.repeat(np.arange(50), row)
            expected = metric(
                Outcome(clean.wrong[rows], clean.score[rows]),
                Outcome(adversarial.wrong[rows], adversarial.score[rows]),
                tau,
            )
            assert value == pytest.approx(expected)


def test_the_bootstrap_interval_is_that_of_scipy_at_a_fixed_threshold() -> None:
    g = np.random.default_rng(4)
    score = g.random(300)
    rate = Levels(score, np.full(300, np.inf))
    (ours,) = bootstrap([rate], 0.7, resamples(300, 0, 4000), np.full(4000, 0.7))
    theirs = stats.bootstrap(
        (score,),
        lambda s, axis: (s >= 0.7).mean(axis),
        n_resamples=4000,
        method="percentile",
        rng=0,
    )
    assert ours.value == np.mean(score >= 0.7)
    assert ours[1:] == pytest.approx(
        (theirs.confidence_interval.low, theirs.confidence_interval.high), abs=0.015
    )
    assert ours.low <= clopper_pearson(int((score >= 0.7).sum()), 300).low


def test_intervals_cover_the_truth_and_need_the_moving_threshold() -> None:
    """Scores uniform on [0,1]: at 90 % TPR the true τ is 0.1, the true coverage 0.9.

    Fixing τ at its estimate covers far too seldom.
    """
    moving = fixed = 0
    for seed in range(150):
        g = np.random.default_rng(seed)
        calibration = Outcome(np.zeros(200, dtype=bool), g.random(200))
        rate = COVERAGE(Outcome(np.zeros(2000, dtype=bool), g.random(2000)))
        tau, counts = metrics.threshold(calibration, 0.9), resamples(2000, seed, 200)
        (taus,) = resampled_thresholds(calibration, [0.9], seed, 200)
        moving += covers(bootstrap([rate], tau, counts, taus)[0], 0.9)
        fixed += covers(bootstrap([rate], tau, counts, np.full(200, tau))[0], 0.9)
    assert moving / 150 > 0.87
    assert fixed / 150 < 0.7


def covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_nothing_found_is_not_nothing_for_sure() -> None:
    never = Levels(np.full(200, np.nan), np.full(200, np.inf))
    (found,) = bootstrap([never], 0.5, resamples(200, 0), np.full(1000, 0.5))
    assert found == (0, 0, clopper_pearson(0, 200).high)
    nobody = Levels(np.full(5, np.nan), np.full(5, np.nan))
    (found,) = bootstrap([nobody], 0.5, resamples(5, 0), np.full(1000, 0.5))
    assert math.isnan(found.value)
