"""Measuring: a run directory as outcomes, one attempt at a time. Nothing is attacked here."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ccat import metrics
from ccat.attempts import Attempt, Block
from ccat.data import names_of_classes
from ccat.fields import flatten
from ccat.metrics import Floats
from ccat.recipes import THREATS, Case, contains, label, parse_threat, seen
from ccat.results import Answers, Attacked, Corrupted, Group, Integers, Measured
from ccat.stages.corrupt import SCORE
from ccat.stages.detect import clean_scores, judges, on_common_scale
from ccat.stages.shared import StageError, clean_probabilities, data_digest, held_out, images_of, require_data
from ccat.store import Run
from ccat.threats import Frame, Threat


def measure(run: Run, name: str | None = None, device: str = "cpu") -> Measured:
    """Everything stored about a run. Of probabilities, only those of one attempt are in memory at a time."""
    labels = images_of(run.recipe.dataset, "test").y.numpy()
    last = held_out(run.recipe.dataset)
    if run.recipe.detector is not None:
        return _detected(run, name, labels, last, device)
    clean = answers(clean_probabilities(run, device).numpy(), labels)
    cases: list[Case] = []
    attempts: list[Attacked] = []
    require_data(run)
    for attempt, blocks in run.attempts():
        _require_current(run, attempt)
        cases.append(attempt.case)
        attempts.append(attacked(attempt, blocks, labels))
    method = run.recipe.method
    return Measured(
        run=name or run.path.resolve().name,
        recipe=flatten(run.recipe) | {"method": type(method).__name__},
        about=run.about,
        method=type(method).__name__,
        dataset=run.recipe.dataset,
        weights=run.weights,
        classes=names_of_classes(run.recipe.dataset),
        labels=labels[:-last],
        clean=clean[:-last],
        held_out=clean[-last:].outcome,
        attempts=tuple(attempts),
        groups=groups(cases, seen(method)),
        notes=_notes(run, attempts),
        corrupted=_corrupted(run, labels[:-last]),
    )


def _detected(run: Run, name: str | None, labels: Integers, last: int, device: str) -> Measured:
    """As for other runs, with detectors' scores in place of confidences. What the detector for a larger threat says counts there."""
    require_data(run)
    predicted = answers(clean_probabilities(run, device).numpy(), labels)
    first = run.first_detector()
    scale: dict[str, Callable[[Floats], Floats]] = {}
    clean: dict[str, Answers] = {}
    for judge in run.detectors():
        scores = clean_scores(run, judge, device)
        chosen = metrics.Outcome(predicted.outcome.wrong[-last:], scores[-last:])
        scale[judge] = partial(on_common_scale, held_out=chosen)
        clean[judge] = Answers(predicted.predicted, metrics.Outcome(predicted.outcome.wrong, scale[judge](scores)))
    attempts: list[Attacked] = []
    members: dict[tuple[str, str], list[int]] = {}
    cases: dict[tuple[str, str], Case] = {}
    late: set[str] = set()
    for attempt, blocks in run.attempts():
        _require_current(run, attempt)
        given = attacked(attempt, blocks, labels)
        for judge in judges(attempt.case, scale, first):
            if any(judge not in (block.scores or {}) for block in blocks):
                late.add(judge)
                continue
            scores = np.concatenate([block.scores[judge].double().numpy() for block in blocks if block.scores])
            own = attempt.case.source == "noise" or isinstance(attempt.case.threat, Frame)
            group = attempt.case.source, label(attempt.case.threat) if own else judge
            cases[group] = attempt.case if own else replace(attempt.case, threat=parse_threat(judge))
            members.setdefault(group, []).append(len(attempts))
            outcome = metrics.Outcome(given.answers.outcome.wrong, scale[judge](scores))
            attempts.append(replace(given, answers=Answers(given.answers.predicted, outcome), clean=clean[judge][:-last]))
    main = clean[first]
    known = seen(run.recipe.method)
    ordered = sorted(cases, key=lambda key: _order(cases[key]))
    return Measured(
        run=name or run.path.resolve().name,
        recipe=flatten(run.recipe) | {"method": type(run.recipe.method).__name__},
        about=run.about,
        method=f"{type(run.recipe.method).__name__}, {run.recipe.detector.name if run.recipe.detector else ''}",
        dataset=run.recipe.dataset,
        weights=run.weights,
        classes=names_of_classes(run.recipe.dataset),
        labels=labels[:-last],
        clean=main[:-last],
        held_out=main[-last:].outcome,
        attempts=tuple(attempts),
        groups=tuple(
            Group(
                threat,
                source,
                source == "test" and any(contains(k, cases[source, threat].threat) for k in known),
                tuple(members[source, threat]),
            )
            for source, threat in ordered
        ),
        notes=(
            *_notes(run, attempts),
            *(
                f"{run.path.name}: some attempts were made before the detector for {one}; `ccat attack` once more scores them"
                for one in sorted(late)
            ),
            f"{run.path.name}: scores are those of detectors, as the share of correct held-out images below.",
        ),
        corrupted=tuple(
            replace(
                one,
                answers=Answers(one.answers.predicted, metrics.Outcome(one.answers.outcome.wrong, scale[first](one.answers.outcome.score))),
            )
            for one in _corrupted(run, labels[:-last])
        ),
    )


def answers(probabilities: NDArray[np.float32], labels: Integers) -> Answers:
    """From probabilities (N, K)."""
    return Answers(probabilities.argmax(1), metrics.outcome(probabilities, labels))


def attacked(attempt: Attempt, blocks: list[Block], labels: Integers) -> Attacked:
    """An attempt as answers."""
    probabilities = np.concatenate([block.probabilities.numpy() for block in blocks])
    given = answers(probabilities, labels[: len(probabilities)])
    if attempt.case.source == "noise":
        given = Answers(given.predicted, metrics.Outcome(np.ones(len(probabilities), dtype=np.bool_), given.outcome.score))
    return Attacked(
        attempt.key,
        attempt.case.name,
        attempt.case.family,
        label(attempt.case.threat),
        attempt.case.source,
        attempt.restart,
        given,
        sum(block.forwards for block in blocks),
        sum(block.backwards for block in blocks),
        sum(block.seconds for block in blocks),
    )


def _corrupted(run: Run, labels: Integers) -> tuple[Corrupted, ...]:
    found = []
    for name in run.corrupted_sets():
        stored = run.corrupted(name, data_digest(run.recipe.dataset))
        for key, probabilities in stored[0].items() if stored else ():
            if key.startswith(SCORE):
                continue
            corruption, severity = key.rsplit(" ", 1)
            given = answers(probabilities.numpy(), labels[: len(probabilities)])
            if (scores := stored[0].get(SCORE + key) if stored else None) is not None:
                given = Answers(given.predicted, metrics.Outcome(given.outcome.wrong, scores.double().numpy()))
            found.append(Corrupted(name, corruption, int(severity), given))
    return tuple(sorted(found, key=lambda one: (one.set, one.name, one.severity)))


def groups(cases: list[Case], known: tuple[Threat, ...]) -> tuple[Group, ...]:
    """One for each threat that was attacked; a larger ε includes what was found at a smaller one."""
    threats = {(case.source, label(case.threat)): case for case in cases}
    return tuple(
        Group(
            threat=label(wide.threat),
            source=wide.source,
            seen=wide.source == "test" and any(contains(threat, wide.threat) for threat in known),
            members=tuple(n for n, case in enumerate(cases) if case.source == wide.source and contains(wide.threat, case.threat)),
        )
        for wide in sorted(threats.values(), key=_order)
    )


def _require_current(run: Run, attempt: Attempt) -> None:
    if attempt.weights != run.weights:
        raise StageError(
            f"{run.path}: the weights changed after they were attacked; "
            f"`ccat prune {shlex.quote(str(run.path))}` deletes what belongs to other weights, then attack again"
        )


def _notes(run: Run, attempts: list[Attacked]) -> tuple[str, ...]:
    """What is missing, and the command that makes it."""
    command = f"ccat attack {shlex.quote(str(run.path))}"
    if not attempts:
        return (f"{run.path.name} was not attacked yet: `{command} --suite quick`",)
    stored = {attempt.key: len(attempt.answers.predicted) for attempt in attempts}
    notes = []
    for asked in run.plan():
        short = [key for key in asked["keys"] if stored.get(key, 0) < asked["examples"]]
        if short and asked["weights"] == run.weights:
            again = f"{command} --suite {asked['suite']} --examples {asked['examples']}"
            notes.append(f"{run.path.name}: {len(short)} of {len(asked['keys'])} attempts are not finished, `{again}` goes on")
    if not notes and len(sizes := set(stored.values())) > 1:
        notes.append(
            f"{run.path.name}: attempts attacked {min(sizes)} to {max(sizes)} images, and only those that all attempts of a number "
            f"attacked are counted; `{command} --suite … --examples {max(sizes)}` with the same suites attacks the rest"
        )
    return tuple(notes)


def _order(case: Case) -> tuple[bool, int, float]:
    return case.source == "noise", list(THREATS).index(type(case.threat).__name__), case.threat.epsilon
