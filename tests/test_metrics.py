import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ccat import Outcome, metrics, threshold, worst
from ccat.evaluation.outcome import worst_of
from ccat.evaluation.rates import ATTACK_RATES, CLEAN_RATES, Levels

scores = st.floats(
    -5, 5, width=16
)  # few distinct values, so that ties happen; negative ones, as detectors give


@st.composite
def outcomes(draw: st.DrawFn, count: int = 1) -> list[Outcome]:
    """`count` outcomes of the same examples."""
    n = draw(st.integers(1, 12))
    lists = st.lists(st.tuples(st.booleans(), scores), min_size=n, max_size=n)
    drawn = [draw(lists) for _ in range(count)]
    return [
        Outcome(np.array([w for w, _ in rows]), np.array([s for _, s in rows])) for rows in drawn
    ]


def equation_appr_rte(clean: Outcome, adversarial: Outcome, tau: float) -> float:
    """Literally."""
    above = below = 0
    for n in range(len(clean)):
        c, a = clean.score[n] >= tau, adversarial.score[n] >= tau
        above += max(int(clean.wrong[n]) * int(c), int(adversarial.wrong[n]) * int(a))
        below += max(int(c), int(a))
    return above / below if below else 0.0


@given(outcomes(count=2), scores)
def test_robust_error_is_the_equation(pair: list[Outcome], tau: float) -> None:
    assert metrics.robust_error(pair[0], pair[1], tau) == pytest.approx(
        equation_appr_rte(pair[0], pair[1], tau)
    )


@given(outcomes(count=3))
def test_without_rejection_it_is_the_standard_robust_error(three: list[Outcome]) -> None:
    clean, *attempts = three
    fooled = clean.wrong | attempts[0].wrong | attempts[1].wrong
    assert metrics.robust_error(clean, worst(clean, attempts), -math.inf) == pytest.approx(
        fooled.mean()
    )


@given(outcomes(count=3), scores)
def test_it_is_at_least_the_error_and_an_attempt_more_never_lowers_it(
    three: list[Outcome], tau: float
) -> None:
    clean, first, second = three
    values = [
        metrics.robust_error(clean, worst(clean, attempts), tau)
        for attempts in ([], [first], [first, second])
    ]
    assert values[0] == pytest.approx(metrics.error(clean, tau))
    assert values[0] <= values[1] + 1e-12
    assert values[1] <= values[2] + 1e-12


@given(outcomes(count=3), scores)
def test_the_worst_case_is_found_per_example(three: list[Outcome], tau: float) -> None:
    clean, *attempts = three
    combined = worst(clean, attempts)
    assert_array_equal(worst(clean, attempts[::-1]).score, combined.score)
    for n in range(len(clean)):
        wrong = [a.score[n] for a in attempts if a.wrong[n]]
        assert combined.wrong[n] == (bool(wrong) or clean.wrong[n])
        assert combined.score[n] == (max(wrong) if wrong else clean.score[n])


@given(outcomes(count=4))
def test_the_worst_case_says_which_attempt_it_is(four: list[Outcome]) -> None:
    clean, *attempts = four
    combined, index = worst_of(clean, attempts)
    for n in range(len(clean)):
        wrong = [(a.score[n], -k) for k, a in enumerate(attempts) if a.wrong[n]]
        assert index[n] == (-max(wrong)[1] if wrong else -1), "of a tie the first"
        source = clean if index[n] < 0 else attempts[index[n]]
        assert (combined.wrong[n], combined.score[n]) == (source.wrong[n], source.score[n])
    alone, nobody = worst_of(clean, [])
    assert_array_equal(alone.score, clean.score)
    assert (nobody == -1).all()


def test_special_case_a_rejected_but_correct_and_attacked_with_confidence() -> None:
    clean = Outcome(np.array([False, False]), np.array([0.4, 0.9]))
    attacked = Outcome(np.array([True, False]), np.array([0.8, 0.9]))
    assert metrics.robust_error(clean, attacked, 0.5) == 1 / 2


def test_special_case_b_rejected_and_wrong_but_attacked_with_confidence() -> None:
    clean = Outcome(np.array([True, False]), np.array([0.4, 0.9]))
    attacked = Outcome(np.array([True, False]), np.array([0.8, 0.9]))
    assert metrics.robust_error(clean, attacked, 0.5) == 1 / 2
    assert metrics.fpr_of_all(clean, attacked, 0.5) == 0  # the image was misclassified already
    assert math.isnan(metrics.fpr(clean, attacked, 0.5))


def test_the_three_false_positive_rates_differ_in_what_they_divide_by() -> None:
    clean = Outcome(np.array([False, False, False, True]), np.array([0.9, 0.9, 0.9, 0.9]))
    attacked = Outcome(np.array([True, True, False, True]), np.array([0.8, 0.3, 0.9, 0.9]))
    assert metrics.fpr(clean, attacked, 0.5) == 1 / 2
    assert metrics.tnr(clean, attacked, 0.5) == 1 / 2
    assert metrics.fpr_of_correct(clean, attacked, 0.5) == pytest.approx(1 / 3)
    assert metrics.fpr_of_all(clean, attacked, 0.5) == 1 / 4
    assert metrics.tpr(clean, 0.5) == 1


@pytest.mark.parametrize(
    ("tpr", "n", "rejected"),
    [
        (0.99, 1000, 10),
        (0.995, 1000, 5),
        (0.98, 1000, 20),
        (0.95, 1000, 50),
        (0.07, 100, 93),
        (0.29, 100, 71),
        (1 - 0.3, 10, 3),
        (0.99, 973, 9),
        (0.995, 973, 4),
        (0.1 + 0.2, 10, 7),
        (0.999, 1000, 1),
        (0.99, 100, 1),
        (0.5, 2, 1),
    ],
)
def test_the_threshold_keeps_the_rate_asked_for(tpr: float, n: int, rejected: int) -> None:
    """99.5 % is not 99 %, and a float beside the rate does not shift the count."""
    rng = np.random.default_rng(0)
    held_out = Outcome(
        np.arange(2 * n) % 2 == 0, rng.permutation(2 * n) / 7 - 3
    )  # half wrong, some scores negative
    tau = threshold(held_out, tpr)
    positives = held_out.score[~held_out.wrong]
    assert (positives < tau).sum() == rejected
    assert tau in positives


@given(
    st.lists(scores, min_size=200, max_size=200),
    st.sampled_from([0.5, 0.9, 0.95, 0.98, 0.985, 0.99, 0.995]),
)
def test_the_threshold_reaches_its_rate_and_no_larger_one_does(
    values: list[float], tpr: float
) -> None:
    held_out = Outcome(np.zeros(200, dtype=bool), np.array(values))
    tau = threshold(held_out, tpr)
    assert metrics.tpr(held_out, tau) >= tpr
    higher = held_out.score[held_out.score > tau]
    if len(higher):
        assert metrics.tpr(held_out, float(higher.min())) < tpr


def test_nothing_accepted_and_nothing_correct() -> None:
    all_wrong = Outcome(np.array([True, True]), np.array([0.9, 0.8]))
    assert metrics.error(all_wrong, 2.0) == 0
    assert metrics.coverage(all_wrong, 2.0) == 0
    assert metrics.robust_error(all_wrong, all_wrong, 2.0) == 0
    assert metrics.error(all_wrong, -math.inf) == 1
    assert metrics.coverage(all_wrong, 0.9) == 1 / 2
    for undefined in (
        metrics.tpr(all_wrong, 0.5),
        metrics.fpr(all_wrong, all_wrong, 0.5),
        metrics.fpr_of_correct(all_wrong, all_wrong, 0.5),
    ):
        assert math.isnan(undefined)
    assert math.isnan(metrics.auc(all_wrong, all_wrong))
    with pytest.raises(
        ValueError,
        match=r"at least 100 correctly .* there are 0, which support none",
    ):
        threshold(all_wrong, 0.99)


@given(outcomes(count=2))
def test_auc_is_the_chance_that_a_positive_scores_above_a_negative(pair: list[Outcome]) -> None:
    clean, attacked = pair
    positives = clean.score[~clean.wrong]
    negatives = attacked.score[attacked.wrong & ~clean.wrong]
    if len(positives) == 0 or len(negatives) == 0:
        assert math.isnan(metrics.auc(clean, attacked))
    else:
        wins = (positives[:, None] > negatives) + 0.5 * (positives[:, None] == negatives)
        assert metrics.auc(clean, attacked) == pytest.approx(wins.mean())


@given(outcomes(count=2))
def test_curves_are_the_metrics_at_every_threshold(pair: list[Outcome]) -> None:
    clean, attacked = pair
    curves = metrics.curves(clean, attacked)
    assert (np.diff(curves.tau) > 0).all()
    assert curves.coverage[0] == 1
    assert curves.coverage[-1] == 0
    for i, tau in enumerate(curves.tau.tolist()):
        assert_allclose(curves.coverage[i], metrics.coverage(clean, tau))
        assert_allclose(curves.error[i], metrics.error(clean, tau))
        assert_allclose(curves.robust_error[i], equation_appr_rte(clean, attacked, tau))
        assert_allclose(curves.tpr[i], metrics.tpr(clean, tau))
        assert_allclose(curves.fpr[i], metrics.fpr(clean, attacked, tau))


def test_the_roc_curve_encloses_the_auc() -> None:
    rng = np.random.default_rng(1)
    clean = Outcome(rng.random(200) < 0.1, rng.normal(1, 1, 200))
    attacked = Outcome(rng.random(200) < 0.8, rng.normal(0, 1, 200))
    curves = metrics.curves(clean, attacked)
    assert -np.trapezoid(curves.tpr, curves.fpr) == pytest.approx(metrics.auc(clean, attacked))


def test_a_tiny_rate_keeps_the_best() -> None:
    held_out = Outcome(np.zeros(5, dtype=bool), np.arange(5.0))
    assert threshold(held_out, 1e-12) == 4


def test_outcomes_of_probabilities() -> None:
    made = metrics.outcome([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]], [0, 1])
    assert made.wrong.tolist() == [False, True]
    assert made.score.tolist() == [0.7, 0.5]


ONE = Outcome(np.array([False]), np.array([0.5]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Outcome(np.array([0, 1]), np.array([0.1, 0.2])), "booleans"),
        (lambda: Outcome(np.array([True]), np.array([0.1, 0.2])), "one length"),
        (lambda: Outcome(np.array([True, False]), np.array([0.1, math.nan])), "example 1 has nan"),
        (lambda: metrics.outcome([[3.0, -1.0]], [0]), "softmax"),
        (lambda: metrics.outcome([[0.5, 0.5]], [2]), "labels must be 0 to 1"),
        (lambda: metrics.outcome([[0.5, 0.5]], [0, 1]), "probabilities must be"),
        (lambda: threshold(ONE, 1.0), "between 0 and 1"),
        (lambda: threshold(ONE, 0.0), "between 0 and 1"),
        (lambda: threshold(ONE, 99), "0.99 for 99 %"),
        (lambda: threshold(ONE, math.nan), "between 0 and 1"),
        (
            lambda: threshold(Outcome(np.zeros(99, dtype=bool), np.arange(99.0)), 0.99),
            "at least 100 .* there are 99",
        ),
        (
            lambda: threshold(Outcome(np.zeros(99, dtype=bool), np.arange(99.0)), 1 - 1e-12),
            "needs at least 1000",
        ),
        (lambda: metrics.outcome([[math.nan, 0.5]], [0]), "example 0 has NaN"),
        (
            lambda: metrics.outcome(np.zeros((0, 10)), np.zeros(0, dtype=int)),
            "probabilities must be",
        ),
        (lambda: metrics.outcome([[0.5, 0.5]], [0.5]), "N integers"),
        (lambda: metrics.error(ONE, math.nan), "NaN"),
        (
            lambda: metrics.robust_error(
                ONE, Outcome(np.array([True] * 2), np.array([0.1, 0.2])), 0.5
            ),
            "same examples",
        ),
        (
            lambda: worst(ONE, [Outcome(np.array([True] * 2), np.array([0.1, 0.2]))]),
            "same examples",
        ),
    ],
)
def test_bad_input_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@given(outcomes(count=2), st.lists(scores, min_size=1, max_size=5))
def test_every_rate_counts_levels_that_reach_the_threshold(
    pair: list[Outcome], taus: list[float]
) -> None:
    """The same, counted as the page does: NaN where a fixed whole is empty, else 0."""
    for rate, given_to in (
        *((rate, pair[:1]) for rate in CLEAN_RATES),
        *((rate, pair) for rate in ATTACK_RATES),
    ):
        levels = rate(*given_to)
        metric = getattr(metrics, rate.name)
        for tau in taus:
            part, whole = ((each >= tau).sum() for each in (levels.part, levels.whole))
            expected = part / whole if whole else (math.nan if levels.fixed else 0.0)
            assert_allclose(levels.at(tau), expected)
            assert_allclose(metric(*given_to, tau), expected)
        assert_allclose(levels.at(np.array(taus)), [levels.at(tau) for tau in taus])


def test_levels_of_the_first_examples() -> None:
    levels = Levels(np.array([0.1, 0.2, 0.3]), np.full(3, np.inf))[:2]
    assert levels.at(0.15) == 1 / 2
