"""Evaluations against literal loops; a new metric appears everywhere."""

import csv
import io
import json
import math
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from reported import unpacked
from scipy import stats
from sklearn.metrics import roc_auc_score
from synthetic import (
    JUDGE,
    L2_3,
    LINF,
    NOISE,
    attempt,
    corrupted,
    detected,
    literal_robust_error,
    rejected,
    run_outcomes,
)

from ccat.evaluation import metrics, rates
from ccat.evaluation.evaluate import ALL, evaluate
from ccat.evaluation.groups import group_attempts, pooled_answers, pooled_outcome
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.rates import COVERAGE, Levels, Rate, rates_of
from ccat.evaluation.results import (
    Group,
)
from ccat.report import (
    FORMATS,
    json_schema,
    tables,
    to_json,
)
from ccat.report.embedded import page_data
from ccat.report.formats import percent
from ccat.report.section import Section
from ccat.report.table import Share
from ccat.threats import Condition, Linf


@pytest.mark.parametrize("tau", [0.3, 0.6, 0.95])
def test_errors_are_those_of_a_literal_loop(tau: float) -> None:
    m = run_outcomes()
    found = evaluate(m, tau=tau)
    assert [a.pooled.headline.value for a in found.attacks[:2]] == pytest.approx(
        [literal_robust_error(m, (0, 1), tau), literal_robust_error(m, (2,), tau)]
    )
    noise = attempt(m, 3).outcome.score
    assert found.attacks[2].pooled.headline.value == np.mean(noise >= tau)
    names = {a.condition: [one.name for one in a.families] for a in found.attacks}
    assert names == {LINF: ["A", "B"], L2_3: ["C"], NOISE: ["D"]}
    assert found.attacks[0].families[0].headline.value == pytest.approx(
        literal_robust_error(m, (0,), tau)
    )
    singles = [one.headline.value for one in found.attacks[0].strongest]
    assert singles == sorted((literal_robust_error(m, (k,), tau) for k in (0, 1)), reverse=True)
    assert found.attacks[0].pooled.forwards == 200
    assert found.unseen[ALL].headline.value == pytest.approx(literal_robust_error(m, (2,), tau)), (
        "distal and seen do not count"
    )
    assert found.tpr_asked is None


def test_the_threshold_asked_for_is_that_of_the_calibration_images() -> None:
    m = run_outcomes()
    found = evaluate(m, tpr=0.9)
    assert found.tau == metrics.threshold(m.calibration, 0.9)
    clean = m.clean[JUDGE].outcome
    correct = clean.score[~clean.wrong]
    exact = stats.binomtest(int((correct >= found.tau).sum()), len(correct)).proportion_ci(
        0.95, "exact"
    )
    assert found.rates["tpr"][1:] == pytest.approx((exact.low, exact.high))


def test_without_a_named_threat() -> None:
    m = run_outcomes()
    normal = replace(m, groups=tuple(replace(group, seen=False) for group in m.groups))
    unseen = evaluate(normal, tau=0.5).unseen
    assert list(unseen) == [ALL, "Linf:0.3", "L2:3"]
    assert unseen[ALL].headline.value == pytest.approx(literal_robust_error(m, (0, 1, 2), 0.5))
    assert unseen["L2:3"].headline.value == pytest.approx(literal_robust_error(m, (0, 1), 0.5))


def test_only_images_that_all_attempts_attacked_count() -> None:
    m = run_outcomes()
    few = np.ones(40, dtype=np.bool_)
    short = replace(m.attempts[1], answers={JUDGE: attempt(m, 1)[:40]}, asked=few)
    found = evaluate(replace(m, attempts=(m.attempts[0], short, *m.attempts[2:])), tau=0.5)
    assert [a.pooled.examples for a in found.attacks] == [40, 100, 100]


def test_the_same_seed_gives_the_same_intervals() -> None:
    assert evaluate(run_outcomes(), 0.9) == evaluate(run_outcomes(), 0.9)
    assert evaluate(run_outcomes(), 0.9, seed=1) != evaluate(run_outcomes(), 0.9)


def test_a_metric_is_added_in_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its definition, and the list that it belongs to."""

    def fooled(clean: Outcome, adversarial: Outcome) -> Levels:
        return Levels(
            np.where(adversarial.wrong, adversarial.score, np.nan), np.full(len(clean), np.inf)
        )

    new = Rate("fooled", "fooled", "wrong and accepted as attacked / all", fooled)
    monkeypatch.setattr(rates, "ATTACK_RATES", (*rates.ATTACK_RATES, new))
    m = run_outcomes()
    found = evaluate(m, tau=0.6)
    estimate = found.attacks[0].pooled.rates["fooled"]
    worst = pooled_outcome(m, m.groups[0])[1]
    assert estimate.value == (worst.wrong & (worst.score >= 0.6)).mean()
    assert estimate.low < estimate.value < estimate.high

    (table,) = (table for table in tables([[found]]) if table.name == "attacks")
    column = table.head.index("fooled")
    assert table.rows[2][column] == Share.of(estimate)
    assert table.rows[-1][column] == "–", "noise has no such rate"
    assert f"{100 * estimate.value:.1f} (" in FORMATS["md"](table)
    assert "fooled = wrong and accepted as attacked / all" in FORMATS["md"](table)
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](table))))
    assert float(rows[2]["fooled"]) == estimate.value
    assert float(rows[2]["fooled high"]) == estimate.high
    assert f"& {100 * estimate.value:.1f} &" in FORMATS["tex"](table)

    document = to_json([found])
    assert document["evaluations"][0]["attacks"][0]["pooled"]["rates"]["fooled"]["value"] == (
        estimate.value
    )
    jsonschema.validate(document, json_schema())
    attack = json_schema()["$defs"]["Pooled"]["properties"]["rates"]["anyOf"][0]
    assert attack["properties"]["fooled"]["description"] == new.meaning

    data = page_data([Section(m, found)])
    listed = {"name": "fooled", "title": "fooled", "meaning": new.meaning}
    assert [listed in one["rates"] for one in data["conditions"]] == [True, True, False]
    stops = unpacked(data["runs"][0]["attacked"][LINF.key]["rates"]["fooled"])
    assert data["modes"][0]["name"] == "given"
    assert stops[0] / 10 == float(percent(estimate.value))


@pytest.mark.parametrize(
    "name", ["CLEAN_RATES", "NOISE_RATES", "CORRUPTION_RATES", "REJECTION_RATES", "CLASS_RATES"]
)
def test_so_is_one_of_another_list(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new = Rate("other", "other one", "accepted / all, again", lambda *given: COVERAGE(given[-1]))
    monkeypatch.setattr(rates, name, (*getattr(rates, name), new))
    m = rejected(corrupted(run_outcomes()))
    found = evaluate(m, tau=0.6)
    jsonschema.validate(to_json([found]), json_schema())
    assert "accepted / all, again" in json.dumps(json_schema())
    assert any("other one" in table.head for table in tables([[found]]))
    assert any("other one = accepted / all, again" in "".join(t.legend) for t in tables([[found]]))
    if name not in ("CORRUPTION_RATES", "CLASS_RATES"):
        assert '"other"' in json.dumps(page_data([Section(m, found)]))


def test_a_larger_threat_includes_what_was_found_within_a_smaller_one() -> None:
    small, large = Condition(Linf(0.1)), Condition(Linf(0.2))
    conditions = [large, NOISE, L2_3, small, large]
    groups = group_attempts(conditions, lambda c: c.title, lambda c: c == small)
    assert groups == (
        Group(small, True, "Linf:0.1", (3,)),
        Group(large, False, "Linf:0.2", (0, 3, 4)),
        Group(L2_3, False, "L2:3", (2,)),
        Group(NOISE, False, "distal Linf:0.3", (1,)),
    )
    assert group_attempts([], lambda c: c.title, lambda _: False) == ()


def test_each_group_is_scored_by_its_judge() -> None:
    m = detected(run_outcomes())
    found = evaluate(m, tau=0.5)
    clean = m.clean["L2:3"].outcome[:100]
    attempts = [m.attempts[n].answers["L2:3"].outcome for n in (2, 4)]
    expected = metrics.robust_error(clean, metrics.worst(clean, attempts), 0.5)
    assert found.attacks[1].pooled.headline.value == expected
    plain = evaluate(run_outcomes(), tau=0.5)
    assert found.attacks[0] == plain.attacks[0], "other judges change nothing here"
    assert found.rates == plain.rates
    assert found.unseen == {}, "no judge faces several threats"
    assert {one.name for one in found.attacks[1].strongest} == {"c", "e #2"}


def test_a_run_without_attacks_that_know_of_its_detector() -> None:
    m = detected(run_outcomes())
    without = m.unaware()
    assert without is not None
    assert [one.name for one in without.attempts] == ["a", "b", "c", "d"]
    assert [group.members for group in without.groups] == [(0, 1), (2,), (3,)]
    assert without.run == "run, unaware"
    assert without.unaware() is None
    first = replace(
        m, attempts=tuple(reversed(m.attempts)), groups=(Group(L2_3, False, "L2:3", (0, 2)),)
    )
    later = first.unaware()
    assert later is not None
    assert [later.attempts[n].name for n in later.groups[0].members] == ["c"]


def test_rates_of_a_condition() -> None:
    assert [rate.name for rate in rates_of(LINF)] == [
        "robust_error",
        "fpr_of_all",
        "fpr_of_correct",
        "fpr",
    ]
    assert [rate.name for rate in rates_of(NOISE)] == ["accepted_noise"]


def test_rates_on_corrupted_images() -> None:
    m = corrupted(run_outcomes())
    found = {(one.name, one.severity): one for one in evaluate(m, tau=0.6).corruptions}
    blur = m.corrupted[0].answers.outcome
    accepted = blur.score >= 0.6
    assert found["blur", 1].rates == {
        "error": pytest.approx(blur.wrong[accepted].mean()),
        "coverage": accepted.mean(),
        "fpr_of_wrong": pytest.approx(accepted[blur.wrong].mean()),
    }
    assert found["blur", 1].tnr == pytest.approx(1 - accepted[blur.wrong].mean())
    assert found["blur", 1].without_rejection == blur.wrong.mean()
    assert math.isnan(found["fog", 1].tnr)
    singles = [found["blur", 1], found["blur", 2], found["fog", 1]]
    mean = found["mean", None]
    assert mean.rates["error"] == pytest.approx(np.mean([one.rates["error"] for one in singles]))
    assert mean.tnr == pytest.approx(np.mean([one.tnr for one in singles[:2]]))
    assert found["mean", 1].rates["coverage"] == pytest.approx(
        np.mean([found[name, 1].rates["coverage"] for name in ("blur", "fog")])
    )
    everything = [one.answers.outcome for one in m.corrupted]
    wrong, score = (
        np.concatenate([getattr(one, name) for one in everything]) for name in ("wrong", "score")
    )
    assert found["pooled", None].rates["error"] == metrics.error(Outcome(wrong, score), 0.6)


def test_the_interval_moves_with_the_threshold_only_if_a_tpr_chose_it() -> None:
    m = run_outcomes()
    chosen = evaluate(m, 0.9)
    fixed = evaluate(m, tau=chosen.tau)
    moving, still = (one.rates["coverage"] for one in (chosen, fixed))
    assert moving.value == still.value
    assert moving.high - moving.low > 1.2 * (still.high - still.low)
    assert chosen.rates["tpr"] == fixed.rates["tpr"], "the rate says that τ is taken as given"


def test_every_number_of_a_pool_is_the_one_it_is_called() -> None:
    m = run_outcomes()
    tau = 0.6
    pooled = evaluate(m, tau=tau).attacks[0].pooled
    clean, adversarial = (
        m.clean[JUDGE].outcome[:100],
        metrics.worst(m.clean[JUDGE].outcome[:100], [attempt(m, k).outcome for k in (0, 1)]),
    )
    values = {name: estimate.value for name, estimate in pooled.rates.items()}
    assert values == {
        "robust_error": metrics.robust_error(clean, adversarial, tau),
        "fpr_of_all": metrics.fpr_of_all(clean, adversarial, tau),
        "fpr_of_correct": metrics.fpr_of_correct(clean, adversarial, tau),
        "fpr": metrics.fpr(clean, adversarial, tau),
    }
    assert len(set(values.values())) == 4
    assert pooled.without_rejection == pytest.approx(literal_robust_error(m, (0, 1), -math.inf))
    positives, negatives = (
        clean.score[~clean.wrong],
        adversarial.score[adversarial.wrong & ~clean.wrong],
    )
    assert pooled.auc == pytest.approx(
        roc_auc_score(
            [1] * len(positives) + [0] * len(negatives), np.concatenate([positives, negatives])
        )
    )
    assert (pooled.forwards, pooled.backwards, pooled.attempts) == (200, 100, 2)
    assert pooled.seconds == pytest.approx(0.04)
    table = {t.name: t for t in tables([[evaluate(m, tau=tau)]])}
    assert table["attacks"].rows[2][6:10] == tuple(map(Share.of, pooled.rates.values()))
    assert table["strongest"].rows[0][6] == Share(pooled.found)


def test_pooled_answers_are_those_of_the_worst_attempt() -> None:
    m = run_outcomes()
    answers_, by = pooled_answers(m, m.groups[0])
    for n in range(100):
        wrong = [k for k in (0, 1) if attempt(m, k).outcome.wrong[n]]
        best = max(wrong, key=lambda k: attempt(m, k).outcome.score[n], default=-1)
        assert by[n] == best
        expected = m.clean[JUDGE] if best < 0 else attempt(m, best)
        assert answers_.predicted[n] == expected.predicted[n]
        assert answers_.outcome.score[n] == expected.outcome.score[n]
