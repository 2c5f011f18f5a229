"""Rejection as an attacker's goal: what is attacked, counted, kept and shown."""

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch
from runs import says, table
from synthetic import JUDGE, LINF, REJECT, REJECT_HALF, attempt, rejected, run_outcomes
from torch import Tensor
from truth import Linear, best_linear, seeded

import ccat
from ccat import APGD, L1, L2, PGD, SUITES, Case, Condition, Images, Linf, Suite, metrics
from ccat.attacking.check import checkable
from ccat.attacking.worst import NOBODY, merge, number_of, worst_of_block
from ccat.catalog.suites import select
from ccat.evaluation.compare import compare
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import broken, pooled_answers, pooled_outcome
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.rates import AVAILABILITY, TPR
from ccat.evaluation.run_outcomes import RunOutcomes
from ccat.objectives import lowest_confidence, other_class_confidence
from ccat.report import json_schema, tables, to_json
from ccat.report.embedded import page_data
from ccat.report.section import Section
from ccat.runs import Run
from ccat.threats import Threat

TAUS = [0.35, 0.5, 0.65, 0.9]
LOW = Case("low", Linf(0.1), PGD(5, 0.05), lowest_confidence)
LOW_RANDOM = replace(LOW, name="low random", attack=PGD(5, 0.05, start="random"))
LOW_HALF = replace(LOW, threat=Linf(0.05))
WRONG = Case("wrong", Linf(0.1), PGD(5, 0.05))


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.8), L1(2.0)], ids=["Linf", "L2", "L1"])
@pytest.mark.parametrize("start", ["zero", "random"])
def test_the_lowest_confidence_of_a_linear_model_is_found(threat: Threat, start: str) -> None:
    """It is one half where the margin can be taken to zero, and known in closed form elsewhere."""
    x = torch.rand(6, 1, 6, 6, generator=seeded(1), dtype=torch.float64)
    weight = torch.randn(1, 6, 6, generator=seeded(2), dtype=torch.float64)
    model = Linear(weight)
    margin = (x * weight).flatten(1).sum(1)
    name = type(threat).__name__
    down, up = (best_linear(name, threat.epsilon, x, sign * weight) for sign in (-1.0, 1.0))
    least = (margin.abs() - torch.where(margin > 0, down, up)).clamp_min(0)
    assert (least > 0).any()
    assert (least == 0).any()
    labels = torch.zeros(6, dtype=torch.int64)  # they do not matter
    problem = ccat.Problem.of(model, x, labels, threat, lowest_confidence)
    found = APGD(200, start="zero" if start == "zero" else "random")(problem, seeded())
    confidence = model(problem.images(found)).softmax(1).amax(1)
    torch.testing.assert_close(confidence.detach(), least.sigmoid(), rtol=0, atol=0.01)
    torch.testing.assert_close(found.value, -confidence.detach().logit())


def literal(m: RunOutcomes, tau: float, low: tuple[int, ...], count: int) -> dict[str, float]:
    """Image by image, with the attempts 0 and 1 on errors, and those in `low` on rejection."""
    clean = m.clean[JUDGE].outcome
    names = {"wrong": 0, "rejected": 0, "correct": 0, "right": 0, "available": 0}
    for n in range(count):
        tried = [clean, *(attempt(m, k).outcome for k in (0, 1))]
        wrong = any(one.wrong[n] and one.score[n] >= tau for one in tried)
        lows = [clean, *(attempt(m, k).outcome for k in low)]
        refused = any(one.score[n] < tau for one in lows)
        names["wrong" if wrong else "rejected" if refused else "correct"] += 1
        names["right"] += not clean.wrong[n]
        names["available"] += not clean.wrong[n] and not refused
    shares = {name: names[name] / count for name in ("wrong", "rejected", "correct")}
    return shares | {"availability": names["available"] / names["right"]}


@pytest.mark.parametrize("tau", TAUS)
def test_what_becomes_of_images_is_that_of_a_literal_loop(tau: float) -> None:
    m = rejected(run_outcomes())
    (found,) = evaluate(m, tau=tau).availability
    assert found.condition == LINF
    assert found.examples == 80, "those that all attempts attacked, within half of ε too"
    wanted = literal(m, tau, (4, 5, 6), 80)
    for name, value in wanted.items():
        estimate = getattr(found, name)
        assert estimate.value == pytest.approx(value), name
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert found.correct.value + found.wrong.value + found.rejected.value == pytest.approx(1)
    assert wanted["correct"] > 0 or tau == 0.9


@pytest.mark.parametrize("tau", TAUS)
def test_the_stratified_curve_is_its_literal_definition(tau: float) -> None:
    m = rejected(run_outcomes())
    (found,) = evaluate(m, tau=tau).stratified
    assert found.condition == LINF
    assert list(found.total) == ["0", "0.5", "1"], "α whose αε was attacked, and 0"
    for alpha, low in {"0": (), "0.5": (5,), "1": (4, 5, 6)}.items():
        wanted = literal(m, tau, low, 80)
        assert found.total[alpha].value == pytest.approx(wanted["wrong"] + wanted["rejected"])
    values = [one.value for one in found.total.values()]
    assert values == sorted(values)


def test_rejection_of_other_sizes_or_within_other_threats_does_not_count() -> None:
    m = rejected(run_outcomes())
    others = {REJECT: Condition(Linf(0.29), goal="rejection")}
    others |= {REJECT_HALF: Condition(L2(3.0), goal="rejection")}

    def renamed(condition: Condition) -> Condition:
        return others.get(condition, condition)

    groups = tuple(replace(one, condition=renamed(one.condition)) for one in m.groups)
    found = evaluate(replace(m, groups=groups), tau=0.6)
    assert [one.condition for one in found.availability] == [Condition(L2(3.0))]
    assert [list(one.total) for one in found.stratified] == [["0", "1"]]
    apart = tuple(replace(one, judge="other") if one.condition.rejects else one for one in m.groups)
    clean = {**m.clean, "other": m.clean[JUDGE]}
    attempts = tuple(
        replace(a, answers={**a.answers, "other": a.answers[JUDGE]}) for a in m.attempts
    )
    judged = evaluate(replace(m, groups=apart, clean=clean, attempts=attempts), tau=0.6)
    assert not judged.availability
    assert not judged.stratified


@pytest.mark.parametrize("tau", TAUS)
def test_under_rejection_the_worst_attempt_is_the_lowest(tau: float) -> None:
    m = rejected(run_outcomes())
    group = next(one for one in m.groups if one.condition == REJECT)
    assert group.members == (4, 5, 6)
    assert not group.seen
    scores = np.stack([attempt(m, k).outcome.score[:80] for k in group.members])
    clean, lowest = pooled_outcome(m, group)
    assert lowest.score.tolist() == scores.min(0).tolist()
    answers, by = pooled_answers(m, group)
    for n in range(80):
        member = group.members[int(scores[:, n].argmin())]
        assert by[n] == member
        assert answers.predicted[n] == attempt(m, member).predicted[n]
        assert lowest.wrong[n] == attempt(m, member).outcome.wrong[n]
    kept = AVAILABILITY(clean, lowest)
    right = ~clean.wrong
    both = np.minimum(clean.score, lowest.score)
    assert kept.at(tau) == pytest.approx(np.mean(both[right] >= tau))
    assert kept.at(tau) <= TPR(clean).at(tau)
    assert metrics.availability(clean, lowest, tau) == kept.at(tau)
    mine = broken(m, group, tau)
    accepted = right & (clean.score >= tau)
    assert mine.tolist() == (accepted & (scores.min(0) < tau)).tolist()
    assert kept.at(tau) * right.sum() == pytest.approx(accepted.sum() - mine.sum())
    under = next(a for a in evaluate(m, tau=tau).attacks if a.condition == REJECT)
    assert under.pooled.headline.value == kept.at(tau)
    assert under.pooled.found == pytest.approx(mine.mean())
    assert under.pooled.without_rejection == 1
    assert math.isnan(under.pooled.auc)
    assert [one.name for one in under.families] == ["LOW0", "LOW1", "LOW2"]


def test_the_lowest_of_outcomes() -> None:
    one, other = (
        Outcome(np.array([False, True]), np.array([0.2, 0.9])),
        Outcome(np.array([True, False]), np.array([0.2, 0.3])),
    )
    found, index = metrics.lowest_of([one, other])
    assert (found.wrong.tolist(), found.score.tolist()) == ([False, False], [0.2, 0.3])
    assert index.tolist() == [0, 1], "the first of equals"
    assert metrics.lowest([one]).score.tolist() == one.score.tolist()
    with pytest.raises(ValueError, match="do not match"):
        metrics.lowest([one, Outcome(np.array([True]), np.array([0.5]))])


def test_errors_are_counted_as_they_were_without_attacks_on_rejection() -> None:
    m = run_outcomes()
    before, after = evaluate(m, 0.9), evaluate(rejected(m), 0.9)
    assert after.attacks[:3] == before.attacks
    assert after.unseen == before.unseen
    assert not before.availability
    assert not before.stratified


def test_tables_json_and_page_show_it() -> None:
    m = rejected(run_outcomes())
    found = evaluate(m, 0.9)
    made = {one.name: one for one in tables([[found, evaluate(m, 0.8)]])}
    assert list(made)[-2:] == ["availability", "stratified"]
    main = dict(zip(made["main"].head, made["main"].rows[0], strict=True))
    assert main["reject Linf:0.3"] == ccat.report.table.Share.of(found.attacks[-1].pooled.headline)
    lines = "\n".join(made["main"].legend)
    assert "reject Linf:0.15, reject Linf:0.3: availability = correct images that stay" in lines
    for name in ("attacks", "thresholds"):
        assert any("under RErr stands availability" in line for line in made[name].legend)
    head = ("run", "threat", "images", "availability", "correct", "wrong", "rejected")
    assert made["availability"].head == head
    assert made["stratified"].head[3:] == ("α = 0", "α = 0.5", "α = 1")
    document = json.loads(json.dumps(to_json([found])))
    jsonschema.validate(document, json_schema())
    (one,) = document["evaluations"]
    assert one["attacks"][-1]["condition"] == {
        "threat": "Linf:0.3",
        "source": "test",
        "goal": "rejection",
    }
    assert one["stratified"][0]["total"]["0.5"]["value"] == found.stratified[0].total["0.5"].value
    data = page_data([Section(m, found)])
    assert [c["rejects"] for c in data["conditions"]] == [False, False, False, True, True]
    attacked = data["runs"][0]["attacked"][REJECT.key]
    assert attacked["roc"] is None
    assert list(attacked["rates"]) == ["availability"]
    plain = {one.name for one in tables([[evaluate(run_outcomes(), 0.9)]])}
    assert not plain & {"availability", "stratified"}


def test_in_a_comparison_an_image_fails_if_it_is_rejected() -> None:
    first, second = (rejected(run_outcomes(seed)) for seed in (0, 1))
    second = replace(second, labels=first.labels)
    (found,) = (one for one in compare(first, second, 0.9) if one.condition == REJECT)
    fails = []
    for m in (first, second):
        group = next(one for one in m.groups if one.condition == REJECT)
        clean, lowest = pooled_outcome(m, group)
        tau = metrics.threshold(m.calibration, 0.9)
        fails.append(~clean.wrong & (np.minimum(clean.score, lowest.score) < tau))
    assert found.only_first_fails == int((fails[0] & ~fails[1]).sum()) > 0
    assert found.only_second_fails == int((fails[1] & ~fails[0]).sum()) > 0


def test_the_worst_perturbation_is_that_of_the_lowest_score() -> None:
    scores = torch.tensor([[0.9, 0.2, 0.5], [0.3, 0.6, 0.5]])
    answers = torch.tensor([[0.7, 0.3]] * 3)
    made = []
    for n, key in enumerate(("a" * 64, "b" * 64)):
        block = ccat.attacking.Block(answers, torch.zeros(3), {JUDGE: scores[n]}, 0.0, 1, 1)
        delta = torch.full((3, 1, 2, 2), float(n + 1))
        made.append(worst_of_block(key, block, JUDGE, torch.zeros(3), delta, rejects=True))
    for found in (merge(*made), merge(*reversed(made))):
        assert found.delta[:, 0, 0, 0].tolist() == [2, 1, 1]
        assert (-found.score).tolist() == pytest.approx([0.3, 0.2, 0.5])
        assert found.by.tolist() == [number_of("b" * 64), *[number_of("a" * 64)] * 2]
        assert NOBODY not in found.by.tolist()


def test_a_case_that_wants_rejection() -> None:
    assert LOW.condition == Condition(Linf(0.1), goal="rejection")
    assert not checkable(LOW), "planted errors are for those who want errors"
    assert checkable(WRONG)
    with pytest.raises(ValueError, match="noise ought to be rejected"):
        replace(LOW, source="noise")


class Bright(torch.nn.Module):
    """Two classes, darker or brighter than grey, in the first pixel."""

    def forward(self, x: Tensor) -> Tensor:
        light = 12 * (x[:, 0, 0, 0] - 0.5)
        return torch.stack([-light, light], 1)


def test_in_memory_the_goal_is_reached_as_far_as_the_threat_allows() -> None:
    """Images at a distance below ε from grey are rejected; errors are found nowhere else either."""
    generator = seeded(3)
    x = torch.rand(60, 1, 4, 4, generator=generator)
    y = (x[:, 0, 0, 0] > 0.5).long()
    conditions = [Condition(Linf(e), goal="rejection") for e in (0.05, 0.2)]
    result = ccat.evaluate(
        Bright(),
        x,
        y,
        calibration=(x, y),
        threats=[Linf(0.2), *conditions],
        suite="demo",
        tpr=0.9,
    )
    evaluation, distance = result.evaluation, (x[:, 0, 0, 0] - 0.5).abs().double()
    margin = math.log(evaluation.tau / (1 - evaluation.tau)) / 24
    for under in evaluation.attacks[1:]:
        epsilon = under.condition.size
        kept = ((distance - epsilon).clamp_min(0) >= margin - 1e-6).double().mean()
        assert under.pooled.headline.value == pytest.approx(kept.item(), abs=1e-9)
    (split,) = evaluation.availability
    assert split.correct.value == evaluation.attacks[2].pooled.headline.value
    (curve,) = evaluation.stratified
    assert list(curve.total) == ["0", "0.25", "1"]
    attacked = result.adversarial["reject Linf:0.2"]
    assert (attacked - x).abs().max() <= 0.2 + 1e-6
    confidence = Bright()(attacked).softmax(1).amax(1)
    lowest = ((distance - 0.2).clamp_min(0) * 24).sigmoid()
    torch.testing.assert_close(confidence.double(), lowest, rtol=0, atol=5e-3)
    stored = ccat.evaluate_stored(
        Bright()(x), y, {conditions[1]: Bright()(attacked)}, calibration=(Bright()(x), y), tpr=0.9
    )
    assert stored.evaluation.attacks[0].pooled.headline.value == pytest.approx(
        split.availability.value
    )


def test_attacks_that_want_rejection_are_chosen_by_condition() -> None:
    shape = (1, 28, 28)
    plain = select("quick", shape)
    assert not any(case.condition.rejects for case in plain), "only if they are asked for"
    threats = (Linf(0.3), L2(3.0), L1(18.0), ccat.L0(15), ccat.Frame(2))
    for threat in threats:
        condition = Condition(threat, goal="rejection")
        cases = select("quick", shape, conditions=[condition])
        assert {case.condition for case in cases} == {condition}
        assert {case.objective for case in cases} == {lowest_confidence}
        errors = select("quick", shape, conditions=[Condition(threat)])
        assert [type(case.attack) for case in cases] == [type(case.attack) for case in errors]
        assert not any("Conf" in case.name + case.family for case in cases)
        both = select("quick", shape, conditions=[Condition(threat), condition])
        assert [case for case in both if case.condition.rejects] == list(cases)
        assert {case.objective for case in both} == {lowest_confidence, other_class_confidence}
    own = ccat.catalog.suites.cases_of([PGD(3, 0.1)], [Condition(Linf(0.3), goal="rejection")])
    assert [case.objective for case in own] == [lowest_confidence]
    with pytest.raises(ValueError, match="a detector rejects here"):
        select("quick", shape, conditions=[REJECT], rejection=ccat.Detection("lid"))


def test_from_attack_to_report(
    trained: Run,
    mnist_test: Images,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(SUITES, "tiny", Suite((LOW, LOW_RANDOM, LOW_HALF, WRONG)))
    attack = ("attack", "tiny", "--suite", "tiny", "--workers", "1", "--examples", "100")
    assert "4 blocks computed" in says(capsys, *attack)
    assert "0 blocks computed" in says(capsys, *attack)
    clean = trained.answers.clean(ccat.data.data_digest("mnist"))
    assert clean is not None
    y = mnist_test.y
    tau = metrics.threshold(metrics.outcome(clean[-1000:], y[-1000:]), 0.9)
    stored = [one for one in trained.attempts.all() if one.record.condition.rejects]
    assert {one.record.condition.key for one in stored} == {"reject Linf:0.1", "reject Linf:0.05"}
    every = torch.stack([one.blocks[0].probabilities.amax(1) for one in stored])
    right = clean[:100].argmax(1) == y[:100]
    low = torch.minimum(every.amin(0), clean[:100].amax(1))
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.9", "--table", "main")
    wanted = f"{100 * (low[right].double() >= tau).double().mean():.1f}"
    assert table(shown)["reject Linf:0.1"].strip("‡†") == wanted
    split = table(says(capsys, "evaluate", "tiny", "--tpr", "0.9", "--table", "availability"))
    assert split["availability"] == wanted
    shares = [float(split[name]) for name in ("correct", "wrong", "rejected")]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    curve = table(says(capsys, "evaluate", "tiny", "--tpr", "0.9", "--table", "stratified"))
    assert float(curve["α = 1"]) == pytest.approx(shares[1] + shares[2], abs=0.2)
    assert "scored again" in says(capsys, "verify", "tiny")
    says(capsys, "export", "tiny", "--threat", "reject:Linf:0.1", "--out", "x.npz")
    arrays = np.load("x.npz")
    np.testing.assert_allclose(arrays["score"], every.amin(0).double(), rtol=1e-6)
    model = trained.training.model().eval()
    with torch.no_grad():
        again = model(torch.from_numpy(arrays["x_adv"])).softmax(1)
    np.testing.assert_allclose(again.amax(1), arrays["score"], atol=1e-4)
    assert again.argmax(1).tolist() == arrays["prediction"].tolist()
    says(capsys, "report", "tiny", "--out", "report", "--tpr", "0.9")
    assert (Path("report") / "tables" / "availability.csv").exists()
    assert "reject Linf:0.1" in (Path("report") / "index.html").read_text(encoding="utf-8")


def test_examples_from_elsewhere_are_scored_for_rejection(
    trained: Run, mnist_test: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", x_adv=mnist_test[:100].floats().numpy())
    arguments = ("score", "tiny", "mine.npz", "--name", "mine", "--threat")
    assert "100 examples scored within reject" in says(capsys, *arguments, "reject:Linf:0.1")
    shown = table(says(capsys, "evaluate", "tiny", "--tpr", "0.9", "--table", "main"))
    assert set(shown) >= {"reject Linf:0.1"}
    assert "Linf:0.1" not in shown


@pytest.mark.parametrize(
    ("threat", "message"),
    [
        ("reject:distal:Linf:0.3", "noise ought to be rejected"),
        ("distal:reject:Linf:0.3", "noise ought to be rejected"),
        ("reject:", "a threat is written as one of"),
        ("reject:reject:Linf:0.3", "reject:Linf cannot be imported"),
        ("reject:linf:0.3", "did you mean Linf"),
        ("reject Linf:0.3", "a threat is written as one of"),
    ],
)
def test_goals_that_cannot_be_read_are_refused(
    trained: Run, threat: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = says(capsys, "attack", "tiny", "--suite", "quick", "--threat", threat, error=True)
    assert message in said


def test_no_errors_are_planted_for_those_who_want_rejection(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    check = ("check", "tiny", "--suite", "quick", "--threat", "reject:Linf:0.3")
    assert "errors can be planted in" in says(capsys, *check, error=True)
    export = ("export", "tiny", "--threat", "distal:Linf:0.3", "--out", "x.npz")
    assert "not of noise" in says(capsys, *export, error=True)
