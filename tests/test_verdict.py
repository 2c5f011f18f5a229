"""The sentence about a run says the worst, and what it rests on."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest
from reported import ON, RUNS
from synthetic import JUDGE, L2_3, LINF, NOISE, possible, rejected, run_outcomes, with_score

from ccat.evaluation.doubts import doubts
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.outcome import Outcome
from ccat.evaluation.planted import PlantedErrors
from ccat.evaluation.results import Answers, RunOutcomes
from ccat.report.analysis import analysis_figures
from ccat.report.explained import DOUBTS
from ccat.report.figures import styles
from ccat.report.formats import percent
from ccat.report.page import page
from ccat.report.section import Section
from ccat.report.verdict import verdict

RUN = run_outcomes()


def only(run: RunOutcomes, *conditions: object) -> RunOutcomes:
    return replace(run, groups=tuple(g for g in run.groups if g.condition in conditions))


def test_the_worst_comes_first_and_what_training_has_seen_after_it() -> None:
    groups = tuple(replace(group, seen=group.condition == L2_3) for group in RUN.groups)
    found = evaluate(replace(RUN, groups=groups), 0.9)
    worst, seen = (a.pooled.headline for a in found.attacks[:2])
    assert worst.value > seen.value
    assert verdict(found) == (
        f"At 90 % TPR it answers {percent(found.rates['coverage'].value)} % of clean images, "
        f"{percent(found.rates['error'].value)} % of these wrongly; within Linf:0.3, the worst "
        f"of 2 threats, at least {percent(worst.value)} % "
        f"({percent(worst.low)}–{percent(worst.high)}) of what it accepts is wrong; "
        f"within L2:3, seen in training, at least {percent(seen.value)} % "
        f"({percent(seen.low)}–{percent(seen.high)})."
    )
    assert verdict(evaluate(RUN, tau=0.5)).startswith("At the τ given it")
    assert verdict(evaluate(RUN, tau=-np.inf)).startswith("Where nothing is rejected it")


def test_doubts_planted_errors_and_proofs_are_named() -> None:
    planted = {LINF: PlantedErrors("", 20, 0, 3, ()), NOISE: PlantedErrors("", 20, 0, 0, ())}
    one = replace(RUN, planted=planted, certified={LINF: possible(RUN)})
    groups = (RUN.groups[0], replace(RUN.groups[1], unfinished=2), RUN.groups[2])
    found = evaluate(replace(one, groups=groups), 0.9)
    text = verdict(found)
    proved = percent(found.certificates[0].upper.value)
    assert f"within Linf:0.3 a proof allows at most {proved} %" in text
    assert "%‡ (" in text
    assert "Linf:0.3 is in doubt (‡), because the attacks found only 3 of 20" in text
    assert "in doubt (‡) is also distal Linf:0.3" in text
    assert "not finished (†) are the attacks within L2:3." in text
    vacuous = replace(RUN, certified={LINF: Outcome(np.ones(100, dtype=np.bool_), np.ones(100))})
    assert "proof" not in verdict(evaluate(vacuous, 0.9)), "it proves nothing"


def test_where_nothing_was_found_the_interval_stands() -> None:
    right = Answers(RUN.labels[:100], Outcome(np.zeros(100, dtype=np.bool_), np.full(100, 0.9)))
    clean = Answers(RUN.labels, Outcome(np.zeros(400, dtype=np.bool_), np.full(400, 0.9)))
    attempts = tuple(replace(one, answers={JUDGE: right}) for one in RUN.attempts)
    one = replace(only(RUN, LINF, L2_3), attempts=attempts, clean={JUDGE: clean})
    assert "within Linf:0.3 and L2:3 attacks found no error that it accepts (0.0–3.6 %)" in (
        verdict(evaluate(one, tau=0.5))
    )


def test_of_several_that_are_the_worst_all_are_named_and_without_errors_it_says_what_there_is() -> (
    None
):
    attempts = tuple(
        replace(one, answers={JUDGE: with_score(one.answers[JUDGE], 0.1)}) for one in RUN.attempts
    )
    both = replace(RUN, attempts=attempts)
    assert "within Linf:0.3 and L2:3 at least" in verdict(evaluate(both, tau=0.3))
    noise = evaluate(only(RUN, NOISE), 0.9)
    assert f"it accepts at least {percent(noise.attacks[0].pooled.headline.value)} %" in (
        verdict(noise)
    )
    one = rejected(RUN)
    lost = evaluate(replace(one, groups=one.groups[-1:]), 0.9)
    assert "of correct images stay accepted" in verdict(lost)


def test_the_page_has_a_sentence_for_each_run_with_what_it_rests_on() -> None:
    sections = [Section(one, evaluate(one, 0.9)) for one in RUNS[::2]]
    text = page("two", sections, [], {}, ON)
    assert text.count('class="verdict"') == 2
    assert "mnist · 2026-03-14 · 400 test images, 100 of them attacked · 4 attempts" in text
    assert page("two", sections, [], {}, ON) == text, "nothing but the date depends on the day"


def test_every_check_is_explained() -> None:
    assert set(re.findall(r'"([a-z-]+)": _\w+\(', inspect.getsource(doubts))) == set(DOUBTS)


def test_twenty_four_runs_have_styles_of_their_own() -> None:
    same = [replace(RUN, method="Normal") for _ in range(20)]
    others = [replace(RUN, method=name) for name in ("Adversarial", "Trades", "Mine")]
    assert len(set(styles([*same, *others]))) == 23
    assert len({style.colour for style in styles(same[:4])}) == 1, "one colour, four dashes"


@pytest.mark.parametrize(("rhos", "drawn"), [(("10", "10"), False), (("10", "2"), True)])
def test_the_transition_is_drawn_where_rho_differs(rhos: tuple[str, ...], drawn: bool) -> None:
    runs = [replace(RUN, method="ConfidenceCalibrated", recipe={"method.rho": r}) for r in rhos]
    assert ("transition" in analysis_figures({}, runs)) == drawn
