"""Effort where it matters: what one attack has broken rests in those that follow."""

import math
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from digits import reader
from runs import says
from synthetic import JUDGE, run_outcomes
from torch import nn
from truth import seeded

import ccat
from ccat import PGD, SUITES, Case, Images, Linf, Suite, any_class_confidence, metrics
from ccat.attacking import Attempt, Certificate, Rest, attempts_of, best_certificates
from ccat.attacking.case import sequences
from ccat.engine import Here
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.outcome import Outcome
from ccat.objectives import cross_entropy, level, lowest_confidence, other_class_confidence
from ccat.runs import Run
from ccat.threats import Condition

WEAK = Case("weak", Linf(0.1), PGD(3, 0.05))
STRONG = Case("strong", Linf(0.1), PGD(20, 0.05, start="random"), restarts=2)
NOISE = Case("noise", Linf(0.1), PGD(3, 0.05), any_class_confidence, source="noise")
LARGER = replace(STRONG, threat=Linf(0.2))


def test_a_sequence_per_condition_the_first_restarts_first() -> None:
    attempts = attempts_of((WEAK, STRONG, NOISE, LARGER), "w", "d", 0.9)
    found = [[(a.case.name, a.restart, a.position) for a in one] for one in sequences(attempts)]
    assert sorted(found) == sorted(
        [
            [("weak", 0, 0), ("strong", 0, 1), ("strong", 1, 2)],
            [("noise", 0, 0)],
            [("strong", 0, 0), ("strong", 1, 1)],
        ]
    )
    assert [len(one) for one in sequences(attempts_of((WEAK, STRONG)))] == [1, 1, 1]


def test_nothing_rests_where_the_goal_is_rejection() -> None:
    """Such attempts depend neither on each other nor on the TPR at which others rest."""
    low = [replace(one, objective=lowest_confidence) for one in (WEAK, STRONG)]
    attempts = attempts_of((WEAK, *low, STRONG), "w", "d", 0.9)
    mine = [one for one in attempts if one.case.condition.rejects]
    assert [(one.rest_at, one.position, one.after) for one in mine] == [(None, 0, "")] * 3
    assert [one.key for one in mine] == [one.key for one in attempts_of(low, "w", "d")]
    others = [one.key for one in attempts if not one.case.condition.rejects]
    assert others == [one.key for one in attempts_of((WEAK, STRONG), "w", "d", 0.9)]
    assert level(lowest_confidence, 0.9) == math.inf, "an accepted error is not what is wanted"


def test_a_key_depends_on_all_that_comes_before_and_on_nothing_else() -> None:
    def keys(*cases: Case, rest_at: float | None = 0.9) -> list[str]:
        return [attempt.key for attempt in attempts_of(cases, "w", "d", rest_at)]

    before = keys(WEAK, STRONG)
    assert keys(WEAK, NOISE, LARGER, STRONG)[0] == before[0]
    assert set(before) < set(keys(WEAK, NOISE, LARGER, STRONG))
    assert keys(replace(WEAK, name="other"), STRONG) == before
    assert not set(keys(replace(WEAK, attack=PGD(4, 0.05)), STRONG)) & set(before)
    assert not set(keys(WEAK, STRONG, rest_at=0.8)) & set(before)
    complete = keys(WEAK, STRONG, rest_at=None)
    assert not set(complete) & set(before)
    assert complete[0] == Attempt(WEAK, 0, "w", "d").key
    assert complete == [*keys(WEAK, rest_at=None), *keys(STRONG, rest_at=None)]


def test_what_rests_was_broken_before_and_costs_nothing(
    trained: Run,
    mnist_test: Images,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(SUITES, "tiny", Suite((WEAK, STRONG, NOISE)))
    attack = ("attack", "tiny", "--suite", "tiny", "--workers", "1", "--examples", "200")
    says(capsys, *attack, "--rest-at-tpr", "0.8")
    clean = trained.answers.clean(ccat.data.data_digest("mnist"))
    assert clean is not None
    calibration = metrics.outcome(clean[-1000:], mnist_test.y[-1000:])
    tau = metrics.threshold(calibration, 0.8)
    stored = sorted(trained.attempts.all(), key=lambda one: one.record.position)
    chain = [one for one in stored if not one.record.condition.on_noise]
    assert [one.record.rest_at for one in chain] == [0.8] * 3
    rested = 0
    for number in range(2):
        broken = torch.zeros(100, dtype=torch.bool)
        rows = slice(100 * number, 100 * number + 100)
        for one in chain:
            block = one.blocks[number]
            assert block.asked.equal(~broken)
            assert block.probabilities[broken].allclose(clean[rows][broken], atol=1e-5)
            assert block.value[broken].eq(-math.inf).all()
            assert block.forwards <= 21 * int(block.asked.sum())
            confidence, answer = block.probabilities.max(1)
            broken |= (answer != mnist_test.y[rows]) & (confidence >= tau)
            rested += int(broken.sum())
    assert 0 < rested < 600
    complete = says(capsys, *attack, "--complete")
    assert "8 blocks computed" in complete
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.9", "--table", "attacks")
    assert "added" in shown


def test_above_the_threshold_of_rest_nothing_is_lost(mnist_test: Images) -> None:
    """At τ up to that of rest, images broken by the first attack are the same as without rest."""
    model = reader()
    x, y = mnist_test[:100].floats(), mnist_test[:100].y
    calibration = (mnist_test[-500:].floats(), mnist_test[-500:].y)
    found = {}
    for rest in (None, 0.9):
        result = ccat.evaluate(
            model, x, y, calibration=calibration, suite=[WEAK, STRONG], rest_tpr=rest
        )
        found[rest] = result
    complete, rested = found[None].outcomes, found[0.9].outcomes
    tau90 = metrics.threshold(complete.calibration, 0.9)
    for tau in (0.0, 0.3, tau90 * 0.9, tau90):
        first = [one.attempts[0].answers[JUDGE].outcome for one in (complete, rested)]
        errors = [outcome.wrong & (outcome.score >= tau) for outcome in first]
        assert errors[0].tolist() == errors[1].tolist()
    passes = [sum(a.forwards for a in one.attempts) for one in (complete, rested)]
    assert passes[1] < passes[0]
    rates = [found[rest].evaluation.attacks[0].pooled.headline.value for rest in (None, 0.9)]
    assert rates[1] == pytest.approx(rates[0], abs=0.05)


def test_too_few_calibration_images_and_nothing_rests(mnist_test: Images) -> None:
    x, y = mnist_test[:20].floats(), mnist_test[:20].y
    few = (mnist_test[-30:].floats(), mnist_test[-30:].y)
    result = ccat.evaluate(
        reader(), x, y, calibration=few, suite=[WEAK, STRONG], tpr=0.9, rest_tpr=0.99
    )
    assert all(one.rest_at is None and one.asked.all() for one in result.outcomes.attempts)


def test_the_level_of_an_objective() -> None:
    assert level(other_class_confidence, 0.9) == math.log(0.9)
    assert level(other_class_confidence, 0.2) > math.log(0.5)  # less need not be the prediction
    assert level(any_class_confidence, 0.2) == math.log(0.2)
    assert level(cross_entropy, 0.9) == math.inf


def test_asked_found_and_added_against_a_literal_loop() -> None:
    m = run_outcomes()
    g = np.random.default_rng(0)
    attempts = tuple(replace(one, asked=g.random(100) < 0.6) for one in m.attempts)
    m = replace(m, attempts=attempts)
    tau = 0.4
    for group, under in zip(m.groups, evaluate(m, tau=tau).attacks, strict=True):
        before: set[int] = set()
        for member, family in zip(group.members, under.families, strict=True):
            one = attempts[member]
            outcome = one.answers[JUDGE].outcome
            mine = {n for n in range(100) if one.asked[n] and outcome.wrong[n]}
            mine = {n for n in mine if outcome.score[n] >= tau}
            assert family.asked == pytest.approx(one.asked.mean())
            assert family.found == pytest.approx(len(mine) / 100)
            assert family.added == pytest.approx(len(mine - before) / 100)
            before |= mine
        assert under.pooled.found == pytest.approx(len(before) / 100)


def test_an_engine_takes_what_is_added_while_it_works() -> None:
    queue = deque([1])
    found = []
    for unit, result in Here()(lambda common, unit: unit + common, 1, queue):
        found.append(unit)
        queue.extend([result] if result < 5 else [])
    assert found == [1, 2, 3, 4]


def test_a_share_that_is_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = says(capsys, "attack", "tiny", "--rest-at-tpr", "90", error=True)
    assert "0.9 for 90 %" in said


def linear() -> nn.Module:
    """Return a linear network: intervals are exact, and what is not certified can be broken."""
    images, generator = ccat.load_mnist("train"), seeded(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    net.load_state_dict({name: torch.zeros_like(one) for name, one in net.state_dict().items()})
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    for rows in torch.randperm(10_000, generator=generator).view(-1, 100):
        loss = ccat.Normal()(net, net, images[rows].floats(), images[rows].y, generator)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net


def test_what_is_certified_rests_and_every_rate_stays_the_same(mnist_test: Images) -> None:
    x, y = mnist_test[:100].floats(), mnist_test[:100].y
    cases = [
        Case("steps", Linf(0.03), PGD(5, 0.02)),
        Case("small steps", Linf(0.03), PGD(10, 0.01)),
        Case("smaller", Linf(0.01), PGD(5, 0.01)),
    ]
    common = {"calibration": (mnist_test[-500:].floats(), mnist_test[-500:].y), "suite": cases}
    model = linear()
    found = {
        certify: ccat.evaluate(model, x, y, certify=certify, **common)  # type: ignore[arg-type]
        for certify in (None, "interval")
    }
    attacked, rested = found[None], found["interval"]
    for one in rested.outcomes.attempts:
        possible = rested.outcomes.certified[one.condition].wrong
        assert one.certified.tolist() == (~possible).tolist()
        assert not (one.asked & one.certified).any()
        assert 20 < one.certified.sum() < 95
        if one.position == 0:
            assert one.asked.tolist() == possible.tolist()
    for one in attacked.outcomes.attempts:
        possible = rested.outcomes.certified[one.condition].wrong
        wrong = one.answers[JUDGE].outcome.wrong
        assert not one.certified.any()
        assert not (wrong & ~possible).any(), "attacks on what is certified find nothing"
        assert one.position or wrong.sum() > 0.8 * possible.sum()
    for mine, yours in zip(rested.evaluation.attacks, attacked.evaluation.attacks, strict=True):
        pairs = [(mine.pooled, yours.pooled), *zip(mine.families, yours.families, strict=True)]
        for rest, all_of_them in pairs:
            assert rest.asked < all_of_them.asked
            assert rest.forwards < all_of_them.forwards
            kept = ("rates", "without_rejection", "auc", "found", "added", "examples")
            for name in kept:
                assert getattr(rest, name) == getattr(all_of_them, name)
        assert mine.selective == yours.selective
    common["suite"] = cases[2:]
    complete = ccat.evaluate(model, x, y, certify="interval", rest_tpr=None, **common)  # type: ignore[arg-type]
    assert all(one.asked.all() for one in complete.outcomes.attempts)


def test_which_certificate_says_what_rests() -> None:
    def certificate(name: str, certified: int, count: int = 100) -> Certificate:
        return Certificate(name, Outcome(np.arange(count) >= certified, np.zeros(count)))

    stored = {
        Condition(Linf(0.1)): certificate("smaller", 90),
        Condition(Linf(0.2)): certificate("equal", 50),
        Condition(Linf(0.3)): certificate("larger", 60),
        Condition(Linf(0.4)): certificate("short", 70, count=99),
        Condition(Linf(0.2), "noise"): certificate("noise", 0),
    }
    asked = [
        Condition(Linf(0.2)),
        Condition(Linf(0.2), goal="rejection"),
        Condition(Linf(0.2), "noise"),
        Condition(Linf(0.5)),
    ]
    best = best_certificates(asked, stored, 100)
    assert {condition.title: one.name for condition, one in best.items()} == {"Linf:0.2": "larger"}
    assert best_certificates(asked, stored, 99)[asked[0]].name == "short"
    rest = Rest(certificates=best)
    assert rest.certified(asked[0], 70).tolist() == [True] * 60 + [False] * 10
    assert not rest.certified(asked[1], 70).any()


def test_a_key_names_the_certificate_and_a_block_what_it_left_out(
    trained: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was asked for before there was a certificate goes on without it."""
    small = Case("small", Linf(1e-5), PGD(2, 1e-5))
    monkeypatch.setitem(SUITES, "tiny", Suite((small,)))
    again = Suite((small, replace(small, attack=PGD(3, 1e-5))))
    attack = ("attack", "tiny", "--suite", "tiny", "--workers", "1", "--no-check", "--examples")
    assert "1 blocks computed" in says(capsys, *attack, "100")
    certify = ("certify", "tiny", "--threat", "Linf:0.00002", "--workers", "1")
    says(capsys, *certify, "--examples", "200")
    assert "1 blocks computed" in says(capsys, *attack, "200")
    assert not any(block.certified.any() for one in trained.attempts.all() for block in one.blocks)
    monkeypatch.setitem(SUITES, "tiny", again)
    assert "4 blocks computed" in says(capsys, *attack, "200")
    assert "0 blocks computed" in says(capsys, *attack, "200")
    assert "1 blocks computed" in says(capsys, *attack, "100", "--attack-certified")
    data = ccat.data.data_digest("mnist")
    (possible,) = trained.certificates.read(data).values()
    rested = [one for one in trained.attempts.all() if one.blocks[0].certified.any()]
    assert [len(one.blocks) for one in rested] == [2, 2]
    for one in rested:
        mask = torch.cat([block.certified for block in one.blocks])
        assert mask.tolist() == (~possible.wrong[:200]).tolist()
        assert 0 < mask.sum() < 200
        assert one.blocks[1].forwards <= 4 * int(one.blocks[1].asked.sum())
    assert "every file is as it was written" in says(capsys, "verify", "tiny")
    for file in trained.path.glob("certificates/*"):
        file.unlink()
    assert "no stored certificate says so" in says(capsys, "verify", "tiny", error=True)
