"""Evaluations against literal loops, scipy and known coverage; tables and formats against what they are made of."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from ccat import metrics
from ccat.comparison import by_recipe, compare, mcnemar
from ccat.evaluation import ALL, evaluate, pooled_answers
from ccat.intervals import Estimate, bootstrap, clopper_pearson, resampled_thresholds, resamples
from ccat.metrics import Outcome, Rate
from ccat.report import FORMATS, comparison_table, document, proposition_table, seeds_table, tables
from ccat.report.formats import shown
from ccat.report.tables import Share, Table
from ccat.results import Answers, Attacked, Group, Measured

SCHEMA = Path(metrics.__file__).parent / "report" / "evaluation.schema.json"


def answers(generator: np.random.Generator, labels: np.ndarray, wrong: float, low: float) -> Answers:
    """A classifier that is wrong so often, with confidences from `low` up."""
    bad = generator.random(len(labels)) < wrong
    return Answers(np.where(bad, (labels + 1) % 10, labels), Outcome(bad, generator.uniform(low, 1, len(labels))))


def measured(seed: int = 0, images: int = 400, attacked: int = 100) -> Measured:
    """Three attempts in two threats, one of them seen, one on noise."""
    g = np.random.default_rng(seed)
    labels = g.integers(10, size=images)
    held_out = answers(g, g.integers(10, size=300), 0.1, 0.5).outcome
    made = []
    for n, (name, threat, source, wrong) in enumerate(
        [("a", "Linf:0.3", "test", 0.5), ("b", "Linf:0.3", "test", 0.6), ("c", "L2:3", "test", 0.9), ("d", "Linf:0.3", "noise", 1.0)]
    ):
        found = answers(g, labels[:attacked], wrong, 0.2)
        made.append(Attacked(f"key{n}", name, name.upper(), threat, source, 0, found, 100 * attacked, 50 * attacked, 2.0))
    groups = (
        Group("Linf:0.3", "test", True, (0, 1)),
        Group("L2:3", "test", False, (2,)),
        Group("Linf:0.3", "noise", False, (3,)),
    )
    clean = answers(g, labels, 0.05, 0.4)
    return Measured("run", {}, {}, "Normal", "mnist", "abc", (), labels, clean, held_out, tuple(made), groups, ())


def literal_robust_error(m: Measured, members: tuple[int, ...], tau: float) -> float:
    """Equation "appr-rte", image by image, with the literal choice of the worst attempt."""
    wrong = accepted = 0
    for n in range(len(m.attempts[0].answers.predicted)):
        clean_wrong, clean_score = m.clean.outcome.wrong[n], m.clean.outcome.score[n]
        bad = [m.attempts[k].answers.outcome.score[n] for k in members if m.attempts[k].answers.outcome.wrong[n]]
        counts_clean, counts_worst = clean_score >= tau, bool(bad) and max(bad) >= tau
        accepted += counts_clean or counts_worst
        wrong += (counts_clean and clean_wrong) or counts_worst
    return wrong / accepted


@pytest.mark.parametrize("tau", [0.3, 0.6, 0.95])
def test_errors_are_those_of_a_literal_loop(tau: float) -> None:
    m = measured()
    found = evaluate(m, tau=tau)
    assert [a.pooled.error.value for a in found.attacks[:2]] == pytest.approx(
        [literal_robust_error(m, (0, 1), tau), literal_robust_error(m, (2,), tau)]
    )
    noise = m.attempts[3].answers.outcome.score
    assert found.attacks[2].pooled.error.value == np.mean(noise >= tau)
    assert {a.threat: [f.name for f in a.families] for a in found.attacks if a.source == "test"} == {"Linf:0.3": ["A", "B"], "L2:3": ["C"]}
    assert found.attacks[0].families[0].error.value == pytest.approx(literal_robust_error(m, (0,), tau))
    singles = [one.error.value for one in found.attacks[0].strongest]
    assert singles == sorted((literal_robust_error(m, (k,), tau) for k in (0, 1)), reverse=True)
    assert found.attacks[0].pooled.forwards == 200
    assert found.unseen[ALL].error.value == pytest.approx(literal_robust_error(m, (2,), tau)), "distal and seen do not count"
    assert found.tpr_asked is None


def test_the_threshold_asked_for_is_that_of_the_held_out_images() -> None:
    m = measured()
    found = evaluate(m, tpr=0.9)
    assert found.tau == metrics.threshold(m.held_out, 0.9)
    clean = m.clean.outcome
    correct = clean.score[~clean.wrong]
    exact = stats.binomtest(int((correct >= found.tau).sum()), len(correct)).proportion_ci(0.95, "exact")
    assert found.tpr[1:] == pytest.approx((exact.low, exact.high))


def test_without_a_named_threat() -> None:
    m = measured()
    normal = replace(m, groups=tuple(replace(group, seen=False) for group in m.groups))
    unseen = evaluate(normal, tau=0.5).unseen
    assert list(unseen) == [ALL, "Linf:0.3", "L2:3"]
    assert unseen[ALL].error.value == pytest.approx(literal_robust_error(m, (0, 1, 2), 0.5))
    assert unseen["L2:3"].error.value == pytest.approx(literal_robust_error(m, (0, 1), 0.5))


def test_only_images_that_all_attempts_attacked_count() -> None:
    m = measured()
    short = replace(m.attempts[1], answers=m.attempts[1].answers[:40])
    found = evaluate(replace(m, attempts=(m.attempts[0], short, *m.attempts[2:])), tau=0.5)
    assert [a.pooled.examples for a in found.attacks] == [40, 100, 100]


def test_clopper_pearson_is_that_of_the_beta_distribution() -> None:
    for successes, trials in ((0, 20), (3, 20), (20, 20), (977, 1000)):
        low = 0 if successes == 0 else stats.beta.ppf(0.025, successes, trials - successes + 1)
        high = 1 if successes == trials else stats.beta.ppf(0.975, successes + 1, trials - successes)
        assert clopper_pearson(successes, trials) == pytest.approx((successes / trials, low, high))


def test_resampled_rates_are_those_of_resampled_examples() -> None:
    g = np.random.default_rng(3)
    clean, adversarial = (Outcome(g.random(50) < 0.3, g.random(50)) for _ in range(2))
    counts, taus = resamples(50, 1, 20), np.linspace(0.1, 0.9, 20)
    assert (counts.sum(1) == 50).all()
    for rate_of, metric in (
        (metrics.robust_error_rate, metrics.robust_error),
        (metrics.fpr_rate, metrics.fpr),
        (metrics.fpr_of_all_rate, metrics.fpr_of_all),
        (metrics.fpr_of_correct_rate, metrics.fpr_of_correct),
    ):
        values = rate_of(clean, adversarial).resampled(counts, taus)
        for row, tau, value in zip(counts, taus, values, strict=True):
            rows = np.repeat(np.arange(50), row)
            expected = metric(Outcome(clean.wrong[rows], clean.score[rows]), Outcome(adversarial.wrong[rows], adversarial.score[rows]), tau)
            assert value == pytest.approx(expected)


def test_the_bootstrap_interval_is_that_of_scipy_at_a_fixed_threshold() -> None:
    g = np.random.default_rng(4)
    score = g.random(300)
    rate = Rate(score, np.full(300, np.inf))
    ours = bootstrap(rate, 0.7, resamples(300, 0, 4000), np.full(4000, 0.7))
    theirs = stats.bootstrap((score,), lambda s, axis: (s >= 0.7).mean(axis), n_resamples=4000, method="percentile", rng=0)
    assert ours.value == np.mean(score >= 0.7)
    assert ours[1:] == pytest.approx((theirs.confidence_interval.low, theirs.confidence_interval.high), abs=0.015)
    assert ours.low <= clopper_pearson(int((score >= 0.7).sum()), 300).low


def test_intervals_cover_the_truth_and_need_the_moving_threshold() -> None:
    """Scores uniform on [0,1]: at 90 % TPR the true τ is 0.1, the true coverage 0.9. Fixing τ at its estimate covers far too seldom."""
    moving = fixed = 0
    for seed in range(150):
        g = np.random.default_rng(seed)
        held_out = Outcome(np.zeros(200, dtype=bool), g.random(200))
        rate = metrics.coverage_rate(Outcome(np.zeros(2000, dtype=bool), g.random(2000)))
        tau, counts = metrics.threshold(held_out, 0.9), resamples(2000, seed, 200)
        moving += covers(bootstrap(rate, tau, counts, resampled_thresholds(held_out, 0.9, seed, 200)), 0.9)
        fixed += covers(bootstrap(rate, tau, counts, np.full(200, tau)), 0.9)
    assert moving / 150 > 0.87
    assert fixed / 150 < 0.7


def covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_nothing_found_is_not_nothing_for_sure() -> None:
    never = Rate(np.full(200, np.nan), np.full(200, np.inf))
    assert bootstrap(never, 0.5, resamples(200, 0), np.full(1000, 0.5)) == (0, 0, clopper_pearson(0, 200).high)
    nobody = Rate(np.full(5, np.nan), np.full(5, np.nan))
    assert math.isnan(bootstrap(nobody, 0.5, resamples(5, 0), np.full(1000, 0.5)).value)


def test_the_same_seed_gives_the_same_intervals() -> None:
    assert evaluate(measured(), 0.9) == evaluate(measured(), 0.9)
    assert evaluate(measured(), 0.9, seed=1) != evaluate(measured(), 0.9)


def test_the_document_follows_its_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    m = measured()
    for one in (evaluate(m, 0.9), evaluate(m, tau=-math.inf), evaluate(replace(m, attempts=(), groups=()), 0.9)):
        text = json.dumps(document([one]), allow_nan=False)
        jsonschema.validate(json.loads(text), schema)
    broken = json.loads(json.dumps(document([evaluate(m, 0.9)])))
    broken["evaluations"][0]["attacks"][0]["pooled"]["error"]["value"] = 50
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_tables_hold_what_was_evaluated() -> None:
    at = [[evaluate(replace(measured(seed), run=f"run{seed}"), tpr) for tpr in (0.9, 0.8)] for seed in (0, 1)]
    made = {table.name: table for table in tables(at)}
    assert list(made) == ["main", "thresholds", "unseen", "attacks", "strongest"]
    main = dict(zip(made["main"].head, made["main"].rows[1], strict=True))
    assert main["Linf:0.3"] == Share.of(at[1][0].attacks[0].pooled.error, "*")
    assert main["distal Linf:0.3"] == Share.of(at[1][0].attacks[2].pooled.error)
    assert made["thresholds"].rows[0][4] == Share.of(at[0][1].attacks[0].pooled.error)
    assert len(made["attacks"].rows) == 2 * (3 + 2 + 2)
    for table in made.values():
        assert "τ" in "".join(table.legend)
        assert "of accepted" in "".join(table.legend) or "worst of all attempts" in "".join(table.legend)


TABLE = Table(
    "odd",
    "Odd & ends",
    ("run", "RErr", "n"),
    (("a_b|<c>", Share(0.5, (0.25, 1.0), "*"), "3"), ("–", Share(math.nan), "–")),
    ("100 % of τ",),
)


def test_formats() -> None:
    text = FORMATS["md"](TABLE)
    assert "| a_b\\|<c> | 50.0* (25.0–100.0) | 3 |" in text
    assert "| –        |                  – | – |" in text
    rows = list(csv.reader(io.StringIO(FORMATS["csv"](TABLE))))
    assert rows == [["run", "RErr", "RErr low", "RErr high", "n"], ["a_b|<c>", "0.5", "0.25", "1.0", "3"], ["", "", "", "", ""]]
    tex = FORMATS["tex"](TABLE)
    assert r"a\_b\textbar{}$<$c$>$ & 50.0$^*$ {\scriptsize [25.0, 100.0]} & 3 \\" in tex
    assert r"Odd \& ends. 100 \% of $\tau$" in tex
    assert tex.count("{") == tex.count("}")


def test_a_comparison_pairs_the_same_images() -> None:
    one, other = measured(0), measured(1)
    clean, linf, l2, noise = compare(one, other, 0.9)
    assert (clean.source, linf.threat, l2.threat, noise.source) == ("clean", "Linf:0.3", "L2:3", "noise")
    taus = [metrics.threshold(m.held_out, 0.9) for m in (one, other)]
    fails = [literal_failures(m, (0, 1), tau) for m, tau in zip((one, other), taus, strict=True)]
    assert linf.only_first_fails == sum(a and not b for a, b in zip(*fails, strict=True))
    assert linf.only_second_fails == sum(b and not a for a, b in zip(*fails, strict=True))
    assert linf.p == stats.binomtest(linf.only_first_fails, linf.only_first_fails + linf.only_second_fails).pvalue
    assert linf.difference.value == pytest.approx(literal_robust_error(other, (0, 1), taus[1]) - literal_robust_error(one, (0, 1), taus[0]))
    assert linf.difference.low < linf.difference.value < linf.difference.high
    same = compare(one, one, 0.9)
    assert all(c.difference == (0, 0, 0) and c.p == 1 and c.only_first_fails == 0 for c in same)


def literal_failures(m: Measured, members: tuple[int, ...], tau: float) -> list[bool]:
    failures = []
    for n in range(100):
        attempts = [m.attempts[k].answers.outcome for k in members]
        attacked = any(a.wrong[n] and a.score[n] >= tau for a in attempts)
        failures.append(attacked or bool(m.clean.outcome.wrong[n] and m.clean.outcome.score[n] >= tau))
    return failures


def test_mcnemar_is_the_binomial_test() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(3, 12) == pytest.approx(2 * stats.binom.cdf(3, 15, 0.5))


def test_seeds_of_one_recipe_are_taken_together() -> None:
    recipes = [{"name": "x", "seed": "0"}, {"name": "y", "seed": "0"}, {"name": "x", "seed": "1"}]
    runs = [replace(measured(seed), run=f"r{seed}", recipe=recipe) for seed, recipe in enumerate(recipes)]
    groups = by_recipe(runs)
    assert {name: [one.run for one in group] for name, group in groups.items()} == {"x, seeds 0, 1": ["r0", "r2"], "r1": ["r1"]}
    other = [replace(one, run=f"{one.run}b", recipe={**one.recipe, "rho": "6"}) for one in (runs[0], runs[2])]
    assert list(by_recipe([runs[0], runs[2], *other])) == ["x, seeds 0, 1", "x (rho 6), seeds 0, 1"], "no group is lost"
    made = seeds_table({name: [evaluate(one, 0.9) for one in group] for name, group in groups.items()})
    values = [100 * evaluate(runs[n], 0.9).attacks[1].pooled.error.value for n in (0, 2)]
    row = dict(zip(made.head, made.rows[0], strict=True))
    assert row["L2:3"] == f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
    assert "±" not in str(made.rows[1])


def test_the_interval_moves_with_the_threshold_only_if_a_tpr_chose_it() -> None:
    m = measured()
    chosen = evaluate(m, 0.9)
    fixed = evaluate(m, tau=chosen.tau)
    assert chosen.coverage.value == fixed.coverage.value
    assert chosen.coverage.high - chosen.coverage.low > 1.2 * (fixed.coverage.high - fixed.coverage.low)
    assert chosen.tpr == fixed.tpr


def test_every_number_of_a_pool_is_the_one_it_is_called() -> None:
    m = measured()
    tau = 0.6
    pooled = evaluate(m, tau=tau).attacks[0].pooled
    clean, adversarial = m.clean.outcome[:100], metrics.worst(m.clean.outcome[:100], [m.attempts[k].answers.outcome for k in (0, 1)])
    assert pooled.fpr.value == metrics.fpr(clean, adversarial, tau)
    assert pooled.fpr_of_correct.value == metrics.fpr_of_correct(clean, adversarial, tau)
    assert pooled.fpr_of_all.value == metrics.fpr_of_all(clean, adversarial, tau)
    assert len({pooled.fpr.value, pooled.fpr_of_correct.value, pooled.fpr_of_all.value, pooled.error.value}) == 4
    assert pooled.error_without_rejection == pytest.approx(literal_robust_error(m, (0, 1), -math.inf))
    positives, negatives = clean.score[~clean.wrong], adversarial.score[adversarial.wrong & ~clean.wrong]
    assert pooled.auc == pytest.approx(roc_auc_score([1] * len(positives) + [0] * len(negatives), np.concatenate([positives, negatives])))
    assert (pooled.forwards, pooled.backwards, pooled.attempts) == (200, 100, 2)
    assert pooled.seconds == pytest.approx(0.04)
    table = {t.name: t for t in tables([[evaluate(m, tau=tau)]])}
    assert table["attacks"].rows[2][4:6] == (Share.of(pooled.error), Share.of(pooled.fpr_of_all))
    assert table["strongest"].rows[0][5] == Share.of(pooled.error)


def test_pooled_answers_are_those_of_the_worst_attempt() -> None:
    m = measured()
    answers_, by = pooled_answers(m, (0, 1))
    for n in range(100):
        wrong = [k for k in (0, 1) if m.attempts[k].answers.outcome.wrong[n]]
        best = max(wrong, key=lambda k: m.attempts[k].answers.outcome.score[n], default=-1)
        assert by[n] == best
        expected = m.clean if best < 0 else m.attempts[best].answers
        assert answers_.predicted[n] == expected.predicted[n]
        assert answers_.outcome.score[n] == expected.outcome.score[n]


def test_a_comparison_turned_round_is_its_mirror() -> None:
    one, other = measured(0), measured(1)
    for there, back in zip(compare(one, other, 0.9), compare(other, one, 0.9), strict=True):
        assert back.difference.value == -there.difference.value
        assert (back.difference.low, back.difference.high) == pytest.approx((-there.difference.high, -there.difference.low), abs=1e-9)
        assert (back.only_first_fails, back.only_second_fails) == (there.only_second_fails, there.only_first_fails)
    row = comparison_table("one", "other", 0.9, compare(one, other, 0.9)).rows[1]
    linf = compare(one, other, 0.9)[1]
    assert row[2:7] == (
        Share.of(linf.first),
        Share.of(linf.second),
        Share.of(linf.difference),
        str(linf.only_first_fails),
        str(linf.only_second_fails),
    )
    shorter = replace(other, attempts=tuple(replace(a, answers=a.answers[:60]) for a in other.attempts))
    assert [c.images for c in compare(one, shorter, 0.9)] == [400, 60, 60, 60]


def test_a_difference_is_never_for_sure() -> None:
    """All of 100 against none of 100: resampling has nothing to vary, the interval has."""
    m = measured()
    yes, no = (
        replace(m, attempts=(*m.attempts[:3], replace(m.attempts[3], answers=with_score(m.attempts[3].answers, s)))) for s in (1.0, 0.0)
    )
    noise = compare(yes, no, 0.9)[3]
    assert noise.difference.value == -1
    assert -1 <= noise.difference.low <= -1 < noise.difference.high < -0.9


def with_score(given: Answers, score: float) -> Answers:
    return Answers(given.predicted, Outcome(given.outcome.wrong, np.full(len(given.predicted), score)))


def test_proposition_1_as_a_table() -> None:
    rows = {(row[0], row[1], row[2]): row for row in proposition_table().rows}
    assert [shown(cell) for cell in rows["0.1", "CCAT", "0"][3:]] == ["yes", "0.8867", "0.6502", "2.197", "2.197", "10.0"]
    assert rows["0.3", "CCAT", "0"][3] == "yes"
    assert rows["0.3", "CCAT", "0"][-1] == Share(0.0)
    assert rows["0.3", "CCAT", "0.5"][3] == "no"
    assert [shown(rows["0.5", training, "–"][-1]) for training in ("AT-100%", "AT-50%")] == ["50.0", "50.0"]
