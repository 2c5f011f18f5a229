"""Self-checks: each doubt appears where its reason is planted, and nowhere else."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from synthetic import JUDGE, run_outcomes

from ccat import Linf
from ccat.evaluation.doubts import doubts
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.metrics import threshold
from ccat.evaluation.outcome import Outcome
from ccat.evaluation.planted import PlantedErrors
from ccat.evaluation.results import Answers
from ccat.evaluation.run_outcomes import AttemptOutcomes, RunOutcomes
from ccat.report.formats import as_markdown
from ccat.report.tables import main_table
from ccat.threats import Condition

TAU = 0.5


def sound() -> RunOutcomes:
    """A run that gives no reason to doubt: two attempts in a threat, both found the same."""
    run = run_outcomes()
    calibration = Outcome(np.zeros(300, dtype=np.bool_), np.linspace(0.1, 1, 300))
    first = run.attempts[0]
    attempts = tuple(
        replace(
            first, key=f"key{n}", name=f"attack {n}", position=n, condition=Condition(Linf(0.3))
        )
        for n in range(2)
    )
    group = replace(run.groups[0], condition=Condition(Linf(0.3)), members=(0, 1))
    return replace(run, attempts=attempts, groups=(group,), calibration=calibration)


def found(run: RunOutcomes, tau: float = TAU, error: float = 0.5) -> list[str]:
    return [one.check for one in doubts(run, run.groups[0], tau, error)]


def changed(run: RunOutcomes, number: int, **fields: object) -> RunOutcomes:
    attempts = list(run.attempts)
    attempts[number] = replace(attempts[number], **fields)  # type: ignore[arg-type]
    return replace(run, attempts=tuple(attempts))


def with_errors(attempt: AttemptOutcomes, rows: range) -> AttemptOutcomes:
    """The attempt with accepted errors on these rows only."""
    wrong = np.isin(np.arange(100), rows)
    answers = Answers(attempt.answers[JUDGE].predicted, Outcome(wrong, np.full(100, 0.9)))
    return replace(attempt, answers={JUDGE: answers})


def test_a_sound_run_is_not_doubted() -> None:
    run = sound()
    assert found(run) == []
    evaluation = evaluate(run, tau=TAU)
    assert evaluation.attacks[0].mark == "*"
    assert "‡" not in as_markdown(main_table([evaluation]))


def blind(run: RunOutcomes) -> RunOutcomes:
    return changed(changed(run, 0, no_gradient=60), 1, no_gradient=80)


def missed(run: RunOutcomes) -> RunOutcomes:
    return replace(run, planted={Condition(Linf(0.3)): PlantedErrors("s", 20, 0, 15, ())})


def unplanted(run: RunOutcomes) -> RunOutcomes:
    return replace(run, planted={Condition(Linf(0.3)): PlantedErrors("s", 0, 20, 0, ())})


def black_box(run: RunOutcomes) -> RunOutcomes:
    searched = replace(with_errors(run.attempts[0], range(40)), backwards=0)
    climbed = with_errors(run.attempts[1], range(30))
    return replace(run, attempts=(searched, climbed))


def rising(run: RunOutcomes) -> RunOutcomes:
    return changed(changed(run, 0, rising=30), 1, rising=40)


def paying(run: RunOutcomes) -> RunOutcomes:
    attempts = (with_errors(run.attempts[0], range(30)), with_errors(run.attempts[1], range(33)))
    return replace(run, attempts=attempts)


def resting(run: RunOutcomes) -> RunOutcomes:
    return changed(run, 0, rest_at=0.9)


def few(run: RunOutcomes) -> RunOutcomes:
    scores = np.concatenate([np.full(4, 0.1), np.full(296, 0.9)])
    return replace(run, calibration=Outcome(np.zeros(300, dtype=np.bool_), scores))


def probabilities(run: RunOutcomes) -> RunOutcomes:
    clean = run.clean[JUDGE]
    outcome = Outcome(np.zeros_like(clean.outcome.wrong), 0.11 + 0.1 * clean.outcome.score)
    return replace(run, clean={JUDGE: Answers(clean.predicted, outcome)})


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (blind, "dead-gradients"),
        (missed, "planted-errors"),
        (unplanted, "planted-errors"),
        (black_box, "black-box"),
        (rising, "still-rising"),
        (paying, "still-paying"),
        (few, "calibration"),
        (probabilities, "probabilities"),
    ],
)
def test_each_reason_is_found_and_said(
    change: Callable[[RunOutcomes], RunOutcomes], check: str
) -> None:
    run = change(sound())
    assert found(run) == [check]
    evaluation = evaluate(run, tau=TAU)
    assert evaluation.attacks[0].mark == "*‡"
    shown = as_markdown(main_table([evaluation]))
    (doubt,) = evaluation.attacks[0].doubts
    assert f"‡ run, Linf:0.3: {doubt.text} (docs/DOUBTS.md#{check})." in shown
    assert "*‡ (" in shown


def test_above_the_threshold_of_rest_a_number_is_a_lower_bound() -> None:
    run = resting(sound())
    tau = threshold(run.calibration, 0.9)
    assert found(run, tau) == []
    assert found(run, tau + 0.01) == ["rest"]
    assert found(run, -math.inf) == []


def test_a_claim_beyond_what_is_known_at_half_of_epsilon() -> None:
    run = sound()
    group = replace(run.groups[0], condition=Condition(Linf(0.6)))
    claim = replace(run, groups=(group,))
    assert found(claim, error=0.01) == ["half"]
    assert found(claim, error=0.5) == []
    assert found(replace(claim, dataset="other"), error=0.01) == []
    assert found(run, error=0.01) == [], "at 0.3 it says nothing of 0.3"


def test_gradients_that_find_more_are_no_doubt() -> None:
    run = black_box(sound())
    searched, climbed = run.attempts
    other = replace(run, attempts=(replace(searched, backwards=5), replace(climbed, backwards=0)))
    assert "black-box" not in found(other)
