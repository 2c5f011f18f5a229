"""Promised risks: broken no more often than stated, never less coverage than a literal version."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ccat import Outcome
from ccat.evaluation.outcome import Floats
from ccat.evaluation.promise import NoPromise, Promise, lattice, needed, p_value, promise

EXPERIMENTS = 2000
ALPHA, DELTA = 0.05, 0.1

Risk = Callable[[Floats], Floats]


def confidences(share: Floats) -> Floats:
    """The confidence above which a share of the images lies: log-odds from 9 down to −3."""
    return 1 / (1 + np.exp(-(9 - 12 * share)))


def share_above(tau: float) -> float:
    """The share of all images, not only of the calibration images, that τ accepts."""
    if tau <= confidences(np.array(1.0)):
        return 1.0
    return float(max(0.0, (9 - math.log(tau / (1 - tau))) / 12)) if tau < 1 else 0.0


def smooth(share: Floats) -> Floats:
    """Errors become more frequent as the confidence falls; the risk is 0.005 + 0.3 share³."""
    return 0.005 + 1.2 * share**3


def smooth_risk(share: float) -> float:
    return 0.005 + 0.3 * share**3


def bad(share: Floats) -> Floats:
    """Every τ has a risk a little above α: whatever is promised is broken."""
    return np.full_like(share, ALPHA * (1 + 1e-9))


def bad_from_the_middle(share: Floats) -> Floats:
    """No errors above, then so many that every τ from the middle on has a risk a little above α."""
    above = np.where(share < 0.4, 0.02, ALPHA + (ALPHA - 0.02) * 0.4 / 0.1)
    return np.where(share < 0.5, above, ALPHA) * (1 + 1e-9)


def bad_at_the_top(share: Floats) -> Floats:
    """The most confident images are the worst, so that the risk falls, rises and stays above α."""
    return np.where(share < 0.25, 0.055, np.where(share < 0.27, 0.0, 0.0533)) * (1 + 1e-9)


def risk_of(wrong_at: Risk, points: int = 200_001) -> Callable[[float], float]:
    """The risk at each share accepted, by numerical integration over the shares above it."""
    shares = (np.arange(points) + 0.5) / points
    mean = np.cumsum(wrong_at(shares)) / np.arange(1, points + 1)
    return lambda share: float(mean[min(points - 1, round(share * points))])


@pytest.mark.parametrize(
    ("wrong_at", "images", "often"),
    [
        (smooth, 600, 0.9),
        (bad, 600, 0.02),
        (bad_from_the_middle, 1500, 0.5),
        (bad_at_the_top, 600, 0),
    ],
)
def test_the_promise_is_not_broken_more_often_than_stated(
    wrong_at: Risk, images: int, often: float
) -> None:
    g = np.random.default_rng(11)
    risk = risk_of(wrong_at)
    given_, broken = 0, 0
    for _ in range(EXPERIMENTS):
        share = g.random(images)
        calibration = Outcome(g.random(images) < wrong_at(share), confidences(share))
        found = promise(calibration, ALPHA, 1 - DELTA)
        if isinstance(found, Promise):
            given_ += 1
            broken += risk(share_above(found.tau)) > ALPHA
        else:  # what is promised instead must hold as well
            broken += risk(share_above(found.tau)) > found.possible
    assert stats.binomtest(broken, EXPERIMENTS, DELTA, "greater").pvalue >= 1e-4
    assert given_ >= often * EXPERIMENTS  # a promise that is never given cannot be broken


def test_the_numerical_risk_is_the_closed_form_and_bad_is_bad() -> None:
    risk = risk_of(smooth)
    assert risk(0.5) == pytest.approx(smooth_risk(0.5), abs=1e-4)
    for share in (0.1, 0.5, 0.8, 1.0):
        assert risk_of(bad)(share) > ALPHA
    assert risk_of(bad_from_the_middle)(0.39) < ALPHA < risk_of(bad_from_the_middle)(0.7)
    tops = [risk_of(bad_at_the_top)(share) for share in (0.2, 0.27, 0.9)]
    assert tops[0] > tops[2] > ALPHA
    assert tops[1] == pytest.approx(0.055 * 0.25 / 0.27, abs=1e-4)


def literal(calibration: Outcome, risk: float, delta: float, grid: list[float]) -> float | None:
    """Fixed-sequence testing from the highest τ down, image by image; None of no promise."""
    found, begun = None, False
    for tau in sorted(grid, reverse=True):
        accepted = errors = 0
        for wrong, score in zip(calibration.wrong, calibration.score, strict=True):
            if score >= tau:
                accepted, errors = accepted + 1, errors + int(wrong)
        begun = begun or (1 - risk) ** accepted <= delta
        if not begun:
            continue  # could not pass without any error
        p = sum(
            math.comb(accepted, k) * risk**k * (1 - risk) ** (accepted - k)
            for k in range(errors + 1)
        )
        if p > delta:
            break
        found = tau
    return found


@st.composite
def calibrations(draw: st.DrawFn) -> tuple[Outcome, list[float]]:
    """Scores with many ties, wrong less often as they grow, and a grid with ties at scores."""
    images = draw(st.integers(1, 150))
    g = np.random.default_rng(draw(st.integers(0, 2**32)))
    score = np.round(g.random(images), draw(st.integers(1, 3)))
    wrong = g.random(images) < draw(st.sampled_from([0.0, 0.1, 0.4])) * (1 - score)
    grid = draw(st.lists(st.sampled_from([k / 20 for k in range(21)]), min_size=1, max_size=12))
    return Outcome(wrong, score), grid


@given(calibrations())
def test_the_threshold_is_that_of_literal_fixed_sequence_testing(
    case: tuple[Outcome, list[float]],
) -> None:
    calibration, grid = case
    found = promise(calibration, 0.1, 0.9, grid)
    expected = literal(calibration, 0.1, 0.1, grid)
    if isinstance(found, NoPromise):
        assert expected is None
        return
    assert found.tau == expected
    kept = calibration.score >= found.tau
    assert (found.accepted, found.errors) == (kept.sum(), (kept & calibration.wrong).sum())
    assert found.coverage.value == kept.mean()
    assert found.p_value == pytest.approx(stats.binom.cdf(found.errors, found.accepted, 0.1))


@pytest.mark.filterwarnings("ignore")  # of the other library: no threshold found, not monotonic
def test_never_less_coverage_than_the_fixed_sequence_of_mapie() -> None:
    other = pytest.importorskip("mapie.risk_control")
    g = np.random.default_rng(5)
    more = promised = 0
    for n in range(60):
        share = g.random(800)
        calibration = Outcome(g.random(800) < smooth(share) * g.random(), confidences(share))
        if n % 2:
            grid = lattice(calibration.score, ALPHA, 1 - DELTA)
        else:
            grid = np.sort(confidences(np.linspace(g.choice([0.03, 0.1, 0.3]), 1, 60)))[::-1]
        kept = calibration.score >= grid[:, None]
        risks = (kept & calibration.wrong).sum(1) / kept.sum(1)
        if risks[0] > risks[-1]:
            continue  # it would let the labels choose to test from the lowest τ up
        controller = other.BinaryClassificationController(
            lambda score: np.stack([1 - score, score], 1),
            "precision",
            1 - ALPHA,
            1 - DELTA,
            list_predict_params=np.ascontiguousarray(grid[::-1]),
            fwer_method="fixed_sequence",
        )
        controller.calibrate(calibration.score, (~calibration.wrong).astype(int))
        ours = promise(calibration, ALPHA, 1 - DELTA, [float(tau) for tau in grid])
        coverage = ours.coverage.value if isinstance(ours, Promise) else 0.0
        theirs = 0.0
        if len(controller.valid_predict_params):
            theirs = float((calibration.score >= controller.valid_predict_params.min()).mean())
        promised += theirs > 0
        more += coverage > theirs
        assert coverage >= theirs
    assert promised >= 10
    assert more >= 5  # where the highest τ accepts too few images it promises nothing


def test_so_many_images_without_an_error_are_needed() -> None:
    assert 0.99**299 <= 0.05 < 0.99**298
    assert needed(0.01, 0.95) == 299
    assert needed(0.5, 0.5) == needed(0.95, 0.95) == 1
    for risk, confidence, errors in ((0.01, 0.95, 1), (0.01, 0.95, 10), (0.2, 0.99, 3)):
        enough = needed(risk, confidence, errors)
        assert stats.binom.cdf(errors, enough, risk) <= 1 - confidence
        assert stats.binom.cdf(errors, enough - 1, risk) > 1 - confidence
    right = Outcome(np.zeros(299, dtype=np.bool_), np.full(299, 0.7))
    found = promise(right, 0.01, 0.95)
    assert isinstance(found, Promise)
    assert (found.accepted, found.errors, found.tau) == (299, 0, 0)
    assert found.p_value == pytest.approx(0.99**299)
    score = np.repeat([0.9, 0.1], [299, 200])
    just = promise(Outcome(score < 0.5, score), 0.01, 0.95, [0.9, 0.1])
    assert isinstance(just, Promise)
    assert (just.tau, just.accepted) == (0.9, 299)


def test_p_values_are_binomial_probabilities() -> None:
    accepted = np.array([0, 1, 5, 5, 300, 3000, 100_000])
    errors = np.array([0, 1, 0, 5, 2, 17, 900])
    for risk in (1e-4, 0.01, 0.5):
        expected = stats.binom.cdf(errors, accepted, risk)
        assert p_value(errors, accepted, risk) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_too_few_images_are_counted_and_a_larger_risk_is_offered() -> None:
    found = promise(Outcome(np.zeros(100, dtype=np.bool_), np.full(100, 0.9)), 0.01, 0.95)
    assert isinstance(found, NoPromise)
    assert found.needed == 299
    assert found.possible == pytest.approx(1 - 0.05 ** (1 / 100))
    assert "there are 100 calibration images: add 199 or more" in found.sentence
    assert "a risk of 2.96 % at tau = 0, which accepts 100 images, 0 of them" in found.sentence


def test_too_many_errors_are_counted_and_a_larger_risk_is_offered() -> None:
    wrong = np.arange(400) % 20 == 0
    found = promise(Outcome(wrong, np.full(400, 0.9)), 0.01, 0.95, [0.5])
    assert isinstance(found, NoPromise)
    assert (found.tau, found.accepted, found.errors) == (0.5, 400, 20)
    assert stats.binom.cdf(20, 400, found.possible) == pytest.approx(0.05)
    assert "of the 400 images accepted at tau = 0.5, where testing begins, 20 are" in found.sentence
    again = promise(Outcome(wrong, np.full(400, 0.9)), found.possible + 1e-9, 0.95, [0.5])
    assert isinstance(again, Promise)


def test_nothing_accepted_and_everything_wrong_promise_nothing() -> None:
    right = np.zeros(400, dtype=np.bool_)
    none = promise(Outcome(right, np.full(400, 0.5)), 0.01, 0.95, [0.9])
    assert isinstance(none, NoPromise)
    assert (none.accepted, none.possible) == (0, 1)
    assert "the lowest tau of the grid, 0.9, accepts 0 of 400" in none.sentence
    worst = promise(Outcome(~right, np.full(400, 0.5)), 0.01, 0.95)
    assert isinstance(worst, NoPromise)
    assert (worst.errors, worst.possible) == (400, 1)
    assert "no risk below 100 % can be promised" in worst.sentence


def test_a_score_equal_to_tau_is_accepted() -> None:
    score = np.repeat([0.4, 0.6], 300)
    found = promise(Outcome(score < 0.5, score), 0.01, 0.95, [0.4, 0.6])
    assert isinstance(found, Promise)
    assert (found.tau, found.accepted, found.errors) == (0.6, 300, 0)
    assert found.coverage == pytest.approx((0.5, *stats.binomtest(300, 600).proportion_ci()))
    assert "300 are accepted (50.0 %, 95 % interval 45.9 to 54.1 %)" in found.sentence
    assert "not for attacked ones" in found.sentence


def test_the_lattice_begins_where_the_scores_say_and_lies_where_they_do_not() -> None:
    g = np.random.default_rng(1)
    few, many = (lattice(confidences(g.random(n)), 0.01, 0.95) for n in (1200, 100_000))
    shared = few[few <= min(few[0], many[0])]
    assert set(shared.tolist()) <= set(many.tolist())
    assert few[-1] == 0
    assert all(high > low for high, low in pairwise(few))
    for images, least in ((1000, 299), (4000, 1000), (100_000, 1693)):
        score = confidences(g.random(images))
        begin = lattice(score, 0.01, 0.95)[0]
        log_odds = math.log(begin / (1 - begin))
        above = 1 / (1 + math.exp(-(log_odds + 1 / 16)))
        assert (score >= begin).sum() >= least > (score >= above).sum()
    assert lattice(np.ones(1000), 0.01, 0.95)[0] == 1
    assert len(lattice(np.array([0.3]), 0.01, 0.95)) == 1


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan, True])
def test_risk_and_confidence_lie_between_0_and_1(share: float) -> None:
    calibration = Outcome(np.zeros(3, dtype=np.bool_), np.full(3, 0.9))
    with pytest.raises(ValueError, match="the risk to promise must be a number above 0 and"):
        promise(calibration, share, 0.95)
    with pytest.raises(ValueError, match="the confidence of a promise must be a number above 0"):
        promise(calibration, 0.01, share)


def test_scores_that_are_no_confidences_need_a_grid() -> None:
    calibration = Outcome(np.zeros(400, dtype=np.bool_), np.linspace(-9, 4, 400))
    with pytest.raises(ValueError, match=r"scores from -9 to 4 are no confidences .* pass a grid"):
        promise(calibration, 0.01, 0.95)
    assert isinstance(promise(calibration, 0.01, 0.95, [-10.0]), Promise)
    for grid in ([], [0.5, math.nan]):
        with pytest.raises(ValueError, match="must hold at least one number, and no NaN"):
            promise(calibration, 0.01, 0.95, grid)
    with pytest.raises(ValueError, match="example 1 has nan"):
        Outcome(np.zeros(2, dtype=np.bool_), np.array([0.5, math.nan]))
    with pytest.raises(ValueError, match="no examples"):
        Outcome(np.zeros(0, dtype=np.bool_), np.zeros(0))
