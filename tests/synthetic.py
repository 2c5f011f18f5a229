"""Outcomes of runs that were never trained, and literal versions of what is counted on them."""

from dataclasses import replace

import numpy as np

from ccat.evaluation.groups import group_attempts
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.results import (
    Answers,
    AttemptOutcomes,
    Corrupted,
    RunOutcomes,
)
from ccat.threats import L2, Condition, Linf

JUDGE = "confidence"
LINF, L2_3, NOISE = Condition(Linf(0.3)), Condition(L2(3)), Condition(Linf(0.3), "noise")
REJECT = Condition(Linf(0.3), goal="rejection")
REJECT_HALF = Condition(Linf(0.15), goal="rejection")
FOUR = (LINF, LINF, L2_3, NOISE)  # the conditions of the four attempts below


def answers(
    generator: np.random.Generator, labels: np.ndarray, wrong: float, low: float
) -> Answers:
    """A classifier that is wrong so often, with confidences from `low` up."""
    bad = generator.random(len(labels)) < wrong
    return Answers(
        np.where(bad, (labels + 1) % 10, labels),
        Outcome(bad, generator.uniform(low, 1, len(labels))),
    )


def run_outcomes(seed: int = 0, images: int = 400, attacked: int = 100) -> RunOutcomes:
    """Three attempts in two threats, one of them seen, one on noise."""
    g = np.random.default_rng(seed)
    labels = g.integers(10, size=images)
    calibration = answers(g, g.integers(10, size=300), 0.1, 0.5).outcome
    made = []
    for n, (condition, wrong) in enumerate(zip(FOUR, (0.5, 0.6, 0.9, 1.0), strict=True)):
        found = answers(g, labels[:attacked], wrong, 0.2)
        made.append(
            AttemptOutcomes(
                key=f"key{n}",
                name="abcd"[n],
                family="ABCD"[n],
                condition=condition,
                restart=0,
                aware=False,
                answers={JUDGE: found},
                forwards=100 * attacked,
                backwards=50 * attacked,
                seconds=2.0,
                no_gradient=0,
                rising=0,
                asked=np.ones(attacked, dtype=np.bool_),
            )
        )
    return RunOutcomes(
        run="run",
        recipe={},
        about={},
        method="Normal",
        dataset="mnist",
        weights="abc",
        classes=(),
        labels=labels,
        judge=JUDGE,
        shared_judge=True,
        clean={JUDGE: answers(g, labels, 0.05, 0.4)},
        calibration=calibration,
        attempts=tuple(made),
        groups=group_attempts(FOUR, lambda _: JUDGE, lambda condition: condition == LINF),
        notes=(),
    )


def attempt(m: RunOutcomes, number: int) -> Answers:
    return m.attempts[number].answers[JUDGE]


def corrupted(m: RunOutcomes) -> RunOutcomes:
    """With two corruptions, one of them at two severities and once without a wrong answer."""
    g = np.random.default_rng(5)
    chosen = (("blur", 1, 0.2), ("blur", 2, 0.4), ("fog", 1, 0.0))
    found = [
        Corrupted("set-c", name, severity, answers(g, m.labels[:80], wrong, 0.3))
        for name, severity, wrong in chosen
    ]
    return replace(m, corrupted=tuple(found))


def rejected(m: RunOutcomes) -> RunOutcomes:
    """The same run, attacked for rejection too: twice within 0.3, once within half of it."""
    g = np.random.default_rng(7)
    conditions = (REJECT, REJECT_HALF, REJECT)
    made = [
        replace(
            m.attempts[0],
            key=f"low{n}",
            name=f"low {n}",
            family=f"LOW{n}",
            condition=condition,
            answers={JUDGE: answers(g, m.labels[: 100 - 10 * n], 0.3, 0.3)},
            asked=np.ones(100 - 10 * n, dtype=np.bool_),
        )
        for n, condition in enumerate(conditions)
    ]
    attempts = (*m.attempts, *made)
    every = [one.condition for one in attempts]
    groups = group_attempts(every, lambda _: JUDGE, lambda condition: condition == LINF)
    return replace(m, attempts=attempts, groups=groups)


def detected(m: RunOutcomes) -> RunOutcomes:
    """The same run with a detector for L2, which rejects there, and an attack that knows of it."""
    g = np.random.default_rng(9)

    def judged(given: Answers) -> Answers:
        return Answers(
            given.predicted, Outcome(given.outcome.wrong, g.random(len(given.predicted)))
        )

    third = m.attempts[2]
    own = replace(third, answers={"L2:3": judged(third.answers[JUDGE])})
    aware = replace(
        own, family="E", name="e", restart=2, aware=True, answers={"L2:3": judged(attempt(m, 2))}
    )
    groups = [
        replace(group, judge="L2:3", members=(2, 4)) if group.condition == L2_3 else group
        for group in m.groups
    ]
    return replace(
        m,
        shared_judge=False,
        clean={**m.clean, "L2:3": judged(m.clean[JUDGE])},
        attempts=(*m.attempts[:2], own, m.attempts[3], aware),
        groups=tuple(groups),
    )


def literal_robust_error(m: RunOutcomes, members: tuple[int, ...], tau: float) -> float:
    """Equation "appr-rte", image by image, with the literal choice of the worst attempt."""
    wrong = accepted = 0
    clean = m.clean[JUDGE].outcome
    for n in range(len(attempt(m, 0).predicted)):
        bad = [attempt(m, k).outcome.score[n] for k in members if attempt(m, k).outcome.wrong[n]]
        counts_clean, counts_worst = clean.score[n] >= tau, bool(bad) and max(bad) >= tau
        accepted += counts_clean or counts_worst
        wrong += (counts_clean and clean.wrong[n]) or counts_worst
    return wrong / accepted


def literal_failures(m: RunOutcomes, members: tuple[int, ...], tau: float) -> list[bool]:
    failures = []
    for n in range(100):
        outcomes = [m.clean[JUDGE].outcome, *(attempt(m, k).outcome for k in members)]
        failures.append(any(one.wrong[n] and one.score[n] >= tau for one in outcomes))
    return failures


def with_score(given: Answers, score: float) -> Answers:
    return Answers(
        given.predicted, Outcome(given.outcome.wrong, np.full(len(given.predicted), score))
    )


def possible(run: RunOutcomes, slack: float = 0.1) -> Outcome:
    """A certificate that holds: everything that was found in L∞, clean or attacked, and more."""
    clean = run.clean[JUDGE].outcome
    score = np.where(clean.wrong, clean.score, -1.0)
    for number in (0, 1):
        found = attempt(run, number).outcome
        score[:100] = np.maximum(score[:100], np.where(found.wrong, found.score, -1.0))
    return Outcome(score >= 0, np.where(score >= 0, np.minimum(1, score + slack), 0.0))
