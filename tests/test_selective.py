"""Risk over coverage, errors at equal coverage and confusion matrices against literal loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import JUDGE, LINF, NOISE, detected, literal_robust_error, run_outcomes
from test_metrics import outcomes

from ccat import Outcome, metrics
from ccat.evaluation.at_coverage import COVERAGES, chosen
from ccat.evaluation.confusion import attacked_answers, confusion
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import headline, pooled_answers
from ccat.evaluation.intervals import clopper_pearson
from ccat.evaluation.rates import COVERAGE, ERROR
from ccat.evaluation.resampling import resampled_coverages, resampled_thresholds, resamples
from ccat.evaluation.results import Answers, ClassAnswers, RunOutcomes
from ccat.evaluation.selective import risk_coverage


def counts(clean: Outcome, adversarial: Outcome | None, tau: float) -> tuple[int, int]:
    """How many images are wrong and accepted, and how many accepted, clean or as attacked."""
    wrong = accepted = 0
    for n in range(len(clean)):
        versions = [clean] if adversarial is None else [clean, adversarial]
        wrong += any(one.wrong[n] and one.score[n] >= tau for one in versions)
        accepted += any(one.score[n] >= tau for one in versions)
    return wrong, accepted


def literal_areas(clean: Outcome, adversarial: Outcome | None) -> tuple[float, float]:
    """AURC and AUGRC, image by image."""
    risks, joint = [], []
    for tau in clean.score:
        wrong, accepted = counts(clean, adversarial, tau)
        risks.append(wrong / accepted)
        joint.append(wrong / len(clean))
    return sum(risks) / len(risks), sum(joint) / len(joint)


@given(outcomes(count=2))
def test_areas_are_those_of_a_literal_loop(pair: list[Outcome]) -> None:
    clean, adversarial = pair
    for given_to in (None, adversarial):
        areas = metrics.aurc(clean, given_to), metrics.augrc(clean, given_to)
        assert areas == pytest.approx(literal_areas(clean, given_to))


@given(outcomes(count=2))
def test_the_curve_has_a_point_for_each_distinct_clean_score(pair: list[Outcome]) -> None:
    clean, adversarial = pair
    curve = metrics.risk_coverage(clean, adversarial)
    assert curve.tau.tolist() == sorted(set(clean.score.tolist()))
    assert curve.coverage[0] == 1
    assert curve.images.sum() == len(clean)
    for tau, coverage, risk, joint in zip(
        curve.tau, curve.coverage, curve.risk, curve.joint, strict=True
    ):
        wrong, accepted = counts(clean, adversarial, tau)
        assert coverage == pytest.approx(np.mean([score >= tau for score in clean.score]))
        assert (risk, joint) == pytest.approx((wrong / accepted, wrong / len(clean)))


def test_areas_of_an_example_by_hand() -> None:
    """Four images, best first: right, wrong, right, wrong. Risks 0/1, 1/2, 1/3, 2/4."""
    clean = Outcome(np.array([False, True, False, True]), np.array([0.9, 0.8, 0.7, 0.6]))
    assert metrics.aurc(clean) == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
    assert metrics.augrc(clean) == pytest.approx((0 + 1 / 4 + 1 / 4 + 2 / 4) / 4)
    tied = Outcome(clean.wrong, np.array([0.9, 0.9, 0.7, 0.7]))
    assert metrics.aurc(tied) == pytest.approx((1 / 2 + 1 / 2 + 2 / 4 + 2 / 4) / 4)
    one = Outcome(clean.wrong, np.full(4, 0.5))
    assert (metrics.aurc(one), metrics.augrc(one)) == (1 / 2, 1 / 2), "all are accepted together"


def test_augrc_is_what_its_paper_makes_of_auroc_and_accuracy() -> None:
    """AUGRC = (1 − AUROC)·acc·(1 − acc) + ½(1 − acc)², in the limit of many images."""
    g = np.random.default_rng(0)
    n = 500
    wrong = g.random(n) < 0.3
    clean = Outcome(wrong, g.normal(np.where(wrong, 0.0, 1.0), 1))
    right = 1 - wrong.mean()
    auroc = metrics.area(clean.score[~wrong], clean.score[wrong])
    limit = (1 - auroc) * right * (1 - right) + (1 - right) ** 2 / 2
    assert metrics.augrc(clean) == pytest.approx(limit + (1 - right) / (2 * n))


@given(outcomes(), st.sampled_from([*COVERAGES, 0.5, 1 / 3, 1.0]))
def test_tau_at_coverage_is_the_largest_that_accepts_enough(
    one: list[Outcome], coverage: float
) -> None:
    (clean,) = one
    tau = metrics.tau_at_coverage(clean, coverage)
    accepted = sum(score >= tau for score in clean.score)
    assert accepted >= coverage * len(clean) - 1e-4
    larger = [score for score in clean.score if score > tau]
    assert all(
        sum(other >= score for other in clean.score) < coverage * len(clean) for score in larger
    )


@pytest.mark.parametrize("coverage", [0.0, -0.1, 1.01, 99, math.nan])
def test_a_coverage_is_a_share(coverage: float) -> None:
    with pytest.raises(ValueError, match=r"write 0\.99 for 99 %"):
        metrics.tau_at_coverage(Outcome(np.array([True]), np.array([0.5])), coverage)


def test_no_images_have_no_area() -> None:
    clean = Outcome(np.array([True, False]), np.array([0.5, 0.6]))
    nobody = np.zeros(2, dtype=bool)
    curve = risk_coverage(ERROR(clean).among(nobody), COVERAGE(clean).among(nobody))
    assert math.isnan(curve.aurc)
    assert math.isnan(curve.augrc)


def test_errors_at_equal_coverage_choose_tau_on_all_calibration_images() -> None:
    m = run_outcomes()
    found = evaluate(m, 0.9)
    clean = m.clean[JUDGE].outcome
    assert [one.asked for one in found.selective.at] == [0.99, 0.95, 0.9, 0.8]
    for n, one in enumerate(found.selective.at):
        scores = sorted(m.calibration.score.tolist(), reverse=True)
        assert one.tau == scores[math.ceil(one.asked * 300 - 1e-9) - 1], "right or wrong"
        accepted = clean.score >= one.tau
        assert one.reached == accepted.mean()
        assert one.rate.value == pytest.approx(clean.wrong[accepted].mean())
        assert one.rate.low < one.rate.value < one.rate.high
        linf, _, noise = (a.selective.at[n] for a in found.attacks)
        assert linf.tau == noise.tau == one.tau
        assert linf.rate.value == pytest.approx(literal_robust_error(m, (0, 1), one.tau))
        assert linf.reached == accepted[:100].mean(), "of the attacked images"
        worst = m.attempts[3].answers[JUDGE].outcome
        assert noise.rate.value == (worst.score >= one.tau).mean()
    under = {a.condition: a.selective for a in found.attacks}
    assert math.isnan(under[NOISE].aurc)
    assert math.isnan(under[NOISE].augrc)
    attacked = clean[:100], pooled_answers(m, m.groups[0])[0].outcome
    assert (under[LINF].aurc, under[LINF].augrc) == pytest.approx(literal_areas(*attacked))
    assert found.selective.aurc == pytest.approx(literal_areas(clean, None)[0])


def test_the_threshold_of_an_evaluation_changes_nothing_at_equal_coverage() -> None:
    m = run_outcomes()
    asked, fixed = evaluate(m, 0.9), evaluate(m, tau=0.7)
    assert asked.selective == fixed.selective
    assert [repr(a.selective) for a in asked.attacks] == [repr(a.selective) for a in fixed.attacks]


def test_the_interval_at_equal_coverage_knows_that_tau_was_measured() -> None:
    """The fewer calibration images, the wider: the attacked ones alone would not tell."""
    m = run_outcomes(attacked=400)
    few = replace(m, calibration=m.calibration[:40])
    widths = [
        one.attacks[2].selective.at[3].rate.high - one.attacks[2].selective.at[3].rate.low
        for one in (evaluate(m, 0.9), evaluate(few, 0.9))
    ]
    assert widths[1] > 1.2 * widths[0]


def test_resampled_thresholds_are_over_all_calibration_images_too() -> None:
    """The wrong ones score lowest: without them every τ would be larger."""
    score = np.arange(100) / 100
    for one in chosen(Outcome(score < 0.3, score), seed=0):
        assert one.tau == pytest.approx(1 - one.coverage)
        assert np.mean(one.taus) == pytest.approx(1 - one.coverage, abs=0.02)
    right = Outcome(np.zeros(100, dtype=bool), score)
    (taus,) = resampled_coverages(right, [0.9], seed=3)
    assert (taus == resampled_thresholds(right, [0.9], seed=3)[0]).all(), "the same resamples"


def test_what_rested_is_a_lower_bound_above_the_threshold_at_which_it_rested() -> None:
    m = run_outcomes()
    rested = replace(m, attempts=tuple(replace(one, rest_at=0.9) for one in m.attempts))
    found = evaluate(rested, 0.9)
    rest = metrics.threshold(m.calibration, 0.9)
    under = found.attacks[0].selective
    bounds = [one.lower_bound for one in under.at]
    assert bounds == [one.tau > rest for one in under.at]
    assert True in bounds
    assert False in bounds
    assert under.lower_bound, "the areas go up to the largest score"
    assert not found.selective.lower_bound, "nobody attacks clean images"
    assert not evaluate(m, 0.9).attacks[0].selective.lower_bound
    assert repr(replace(under, lower_bound=False, at=())) == repr(
        replace(evaluate(m, 0.9).attacks[0].selective, at=())
    )


def literal_confusion(
    labels: list[int], predicted: list[int], score: list[float], tau: float, classes: int
) -> list[list[int]]:
    table = [[0] * (classes + 1) for _ in range(classes)]
    for label, answer, confidence in zip(labels, predicted, score, strict=True):
        table[label][answer if confidence >= tau else classes] += 1
    return table


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.1, 0.5, 0.9])),
        min_size=1,
        max_size=30,
    )
)
def test_a_confusion_matrix_counts_every_image_once(rows: list[tuple[int, int, float]]) -> None:
    labels, predicted, score = (list(column) for column in zip(*rows, strict=True))
    truth, answer = np.array(labels), np.array(predicted)
    given_to = Answers(answer, Outcome(truth != answer, np.array(score)))
    found = confusion(truth, given_to, 0.5, 4)
    assert found.tolist() == literal_confusion(labels, predicted, score, 0.5, 4)
    assert found.sum() == len(rows)


def matrix(found: tuple[ClassAnswers, ...], classes: int) -> list[list[int]]:
    rows = {one.label: one for one in found}
    return [
        [rows[str(n)].accepted.get(str(k), 0) for k in range(classes)] + [rows[str(n)].rejected]
        for n in range(classes)
    ]


def test_the_answers_to_each_class_clean_and_in_the_worst_case() -> None:
    m, tau = run_outcomes(), 0.7
    found = evaluate(m, tau=tau)
    clean = m.clean[JUDGE]
    labels = m.labels.tolist()
    assert matrix(found.confusion, 10) == literal_confusion(
        labels, clean.predicted.tolist(), clean.outcome.score.tolist(), tau, 10
    )
    predicted, score = [], []
    for n in range(100):
        versions = [clean, m.attempts[0].answers[JUDGE], m.attempts[1].answers[JUDGE]]
        wrong = [one for one in versions if one.outcome.wrong[n]]
        shown = max(wrong, key=lambda one: one.outcome.score[n], default=clean)
        predicted.append(int(shown.predicted[n]))
        score.append(float(shown.outcome.score[n]))
    expected = literal_confusion(labels[:100], predicted, score, tau, 10)
    assert matrix(found.attacks[0].confusion, 10) == expected
    assert found.attacks[2].confusion == (), "noise is of no class"
    three = found.confusion[3]
    of_three = m.labels == 3
    accepted = clean.outcome.score[of_three] >= tau
    assert three.coverage == pytest.approx(accepted.mean())
    assert three.error == pytest.approx(clean.outcome.wrong[of_three][accepted].mean())
    assert ClassAnswers("a", 2, 2, {}).error == 0, "nothing accepted"


def test_rates_by_class_are_those_of_its_images_alone() -> None:
    """Literally: choose the images, resample them as in the whole, and take percentiles."""
    m, tpr = run_outcomes(), 0.9
    found = evaluate(m, tpr)
    clean = m.clean[JUDGE].outcome
    counts = resamples(len(clean), 0)
    (taus,) = resampled_thresholds(m.calibration, [tpr], 0)
    assert [one.label for one in found.classes] == [str(n) for n in range(10)]
    assert sum(one.images for one in found.classes) == found.images
    for number in (0, 7):
        of_class = m.labels == number
        one = found.classes[number]
        accepted = of_class & (clean.score >= found.tau)
        wrong = accepted & clean.wrong
        assert one.images == of_class.sum()
        assert one.rates["coverage"].value == accepted.sum() / of_class.sum()
        assert one.rates["error"].value == wrong.sum() / accepted.sum()
        values = []
        for drawn, tau in zip(counts, taus, strict=True):
            weight = drawn * of_class
            values.append((weight * (clean.score >= tau)).sum() / weight.sum())
        exact = clopper_pearson(int(accepted.sum()), int(of_class.sum()))
        low, high = np.quantile(values, [0.025, 0.975])
        assert one.rates["coverage"].low == pytest.approx(min(low, exact.low))
        assert one.rates["coverage"].high == pytest.approx(max(high, exact.high))


@given(st.integers(0, 50), st.floats(0, 1))
def test_errors_in_the_matrix_are_those_that_the_robust_error_counts(seed: int, tau: float) -> None:
    m = detected(run_outcomes(seed, images=60, attacked=40))
    for group in m.groups[:2]:
        answers, by = attacked_answers(m, group)
        for n, whose in enumerate(by):
            every = m.clean if whose < 0 else m.attempts[whose].answers
            assert answers.predicted[n] == every[group.judge].predicted[n]
            assert answers.outcome.score[n] == every[group.judge].outcome.score[n]
        counted = answers.outcome.wrong & (answers.outcome.score >= tau)
        assert (counted == (headline(m, group).part >= tau)).all()
        assert (answers.outcome.wrong == (answers.predicted != m.labels[:40])).all()


def named(m: RunOutcomes, classes: tuple[str, ...]) -> list[str]:
    return [one.label for one in evaluate(replace(m, classes=classes), tau=0.5).confusion]


def test_classes_have_their_names_if_these_are_unique() -> None:
    m = run_outcomes()
    names = tuple("abcdefghij")
    assert named(m, names) == list(names)
    numbers = [str(n) for n in range(10)]
    assert named(m, ()) == numbers
    assert named(m, (*names[:9], "a")) == numbers, "two cranes"
    few = replace(m, labels=np.where(m.labels == 4, 5, m.labels))
    assert named(few, ()) == [n for n in numbers if n != "4"], "no images, no row"
