"""Intervals against scipy, and against known coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from ccat.evaluation import metrics
from ccat.evaluation.intervals import (
    Estimate,
    bootstrap,
    clopper_pearson,
    resampled_thresholds,
    resamples,
)
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.rates import ATTACK_RATES, COVERAGE, Levels


def test_clopper_pearson_is_that_of_the_beta_distribution() -> None:
    for successes, trials in ((0, 20), (3, 20), (20, 20), (977, 1000)):
        low = 0 if successes == 0 else stats.beta.ppf(0.025, successes, trials - successes + 1)
        high = (
            1 if successes == trials else stats.beta.ppf(0.975, successes + 1, trials - successes)
        )
        assert clopper_pearson(successes, trials) == pytest.approx((successes / trials, low, high))


def test_resampled_rates_are_those_of_resampled_examples() -> None:
    g = np.random.default_rng(3)
    clean, adversarial = (Outcome(g.random(50) < 0.3, g.random(50)) for _ in range(2))
    counts, taus = resamples(50, 1, 20), np.linspace(0.1, 0.9, 20)
    assert (counts.sum(1) == 50).all()
    for rate in ATTACK_RATES:
        metric = getattr(metrics, rate.name)
        values = rate(clean, adversarial).resampled(counts, taus)
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
    ours = bootstrap(rate, 0.7, resamples(300, 0, 4000), np.full(4000, 0.7))
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
        moving += covers(bootstrap(rate, tau, counts, taus), 0.9)
        fixed += covers(bootstrap(rate, tau, counts, np.full(200, tau)), 0.9)
    assert moving / 150 > 0.87
    assert fixed / 150 < 0.7


def covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_nothing_found_is_not_nothing_for_sure() -> None:
    never = Levels(np.full(200, np.nan), np.full(200, np.inf))
    assert bootstrap(never, 0.5, resamples(200, 0), np.full(1000, 0.5)) == (
        0,
        0,
        clopper_pearson(0, 200).high,
    )
    nobody = Levels(np.full(5, np.nan), np.full(5, np.nan))
    assert math.isnan(bootstrap(nobody, 0.5, resamples(5, 0), np.full(1000, 0.5)).value)
