"""Read everything a run holds as outcomes, one attempt at a time. Nothing is attacked here."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ccat import codec
from ccat.attacking.outcomes import (
    Clean,
    answers,
    attempt_outcomes,
    clean_outcomes,
    grouped,
)
from ccat.data import calibration_size, data_digest, names_of_classes, split_of
from ccat.errors import PipelineError
from ccat.evaluation.metrics import Outcome
from ccat.evaluation.results import (
    Answers,
    AttemptOutcomes,
    Corrupted,
    Group,
    Integers,
    RunOutcomes,
)
from ccat.overrides import flatten
from ccat.pipeline.answers import clean_probabilities, clean_scores, other_data
from ccat.runs import Run
from ccat.runs.attempts import StoredAttempt


def collect(run: Run, name: str | None = None, device: str = "cpu") -> RunOutcomes:
    """Read a run as outcomes; of probabilities, only one attempt's are in memory at a time.

    Args:
        run: A trained run.
        name: What tables call it; by default the name of its directory.
        device: Where to compute clean answers that are not stored yet.
    """
    labels = split_of(run.recipe.dataset, "test").y.numpy()
    last = calibration_size(run.recipe.dataset)
    fitted = list(run.answers.detectors())
    judges = run.rejection.judges(fitted)
    if not judges:
        raise PipelineError(f"{run.path} has no detector yet: `ccat attack {run.path}` fits them")
    given = clean_probabilities(run, device)
    scores = {judge: clean_scores(run, judge, given, device) for judge in judges}
    clean = clean_outcomes(run.rejection, given.numpy(), scores, labels, last)
    attempts, sizes, late = _attempts(run, labels, clean, fitted)
    method = codec.short_name(run.recipe.method)
    return RunOutcomes(
        run=name or run.path.resolve().name,
        recipe=flatten(run.recipe) | {"method": method},
        about=run.about,
        method=", ".join(part for part in (method, run.rejection.title) if part),
        dataset=run.recipe.dataset,
        weights=run.weights,
        classes=names_of_classes(run.recipe.dataset),
        labels=labels[:-last],
        judge=judges[0],
        shared_judge=run.rejection.shared,
        clean=clean.counted,
        calibration=clean.calibration[judges[0]],
        attempts=attempts,
        groups=_marked(run, grouped(attempts, run.rejection, fitted, run.seen), sizes),
        notes=(*_notes(run, sizes), *_judge_notes(run, late)),
        corrupted=_corrupted(run, labels[:-last], clean, judges[0]),
        planted=run.planted.read(),
        certified=run.certificates.read(data_digest(run.recipe.dataset)),
    )


def _attempts(
    run: Run, labels: Integers, clean: Clean, fitted: Sequence[str]
) -> tuple[tuple[AttemptOutcomes, ...], dict[str, int], list[str]]:
    """All attempts, how many examples each has, and judges that have not scored all of them."""
    found, sizes, late = [], {}, set()
    data = data_digest(run.recipe.dataset)
    for stored in run.attempts.all():
        _require_current(run, stored, data)
        outcomes = attempt_outcomes(stored.record, stored.blocks, labels, clean.scale)
        wanted = run.rejection.judges_of(stored.record.condition, fitted)
        late |= set(wanted) - set(outcomes.answers)
        found.append(outcomes)
        sizes[stored.record.key] = sum(len(block.value) for block in stored.blocks)
    found.sort(key=lambda one: (one.condition.order, one.position, one.name, one.restart))
    return tuple(found), sizes, sorted(late)


def _corrupted(run: Run, labels: Integers, clean: Clean, judge: str) -> tuple[Corrupted, ...]:
    found = []
    for name in run.answers.corrupted_sets():
        stored = run.answers.corrupted(name, data_digest(run.recipe.dataset))
        for (corruption, severity), one in stored[0].items() if stored else ():
            given = answers(one.probabilities.numpy(), labels[: len(one.probabilities)])
            score = clean.scale[judge](one.score.double().numpy())
            judged = Answers(given.predicted, Outcome(given.outcome.wrong, score))
            found.append(Corrupted(name, corruption, severity, judged))
    return tuple(sorted(found, key=lambda one: (one.set, one.name, one.severity)))


def _require_current(run: Run, stored: StoredAttempt, data: str) -> None:
    if stored.weights != run.weights:
        raise PipelineError(
            f"{run.path}: the weights changed after they were attacked; "
            f"`ccat prune {shlex.quote(str(run.path))}` deletes what belongs to other weights, "
            f"then attack again"
        )
    if stored.data != data:
        raise other_data(run)


def _marked(run: Run, groups: Sequence[Group], stored: Mapping[str, int]) -> tuple[Group, ...]:
    """Say of each group how many attempts were asked for that are not finished."""
    short = {
        key: condition
        for asked in run.plan.asked()
        if asked.weights == run.weights
        for key, condition in asked.attempts.items()
        if stored.get(key, 0) < asked.examples
    }
    return tuple(
        replace(group, unfinished=sum(map(group.condition.includes, short.values())))
        for group in groups
    )


def _notes(run: Run, stored: Mapping[str, int]) -> tuple[str, ...]:
    """What is missing, and the command that makes it; `stored` are examples by attempt."""
    command = f"ccat attack {shlex.quote(str(run.path))}"
    if not stored:
        return (f"{run.path.name} was not attacked yet: `{command} --suite quick`",)
    notes = []
    for asked in run.plan.asked():
        short = [key for key in asked.attempts if stored.get(key, 0) < asked.examples]
        if short and asked.weights == run.weights:
            again = f"{command} {asked.suite} --examples {asked.examples}"
            notes.append(
                f"{run.path.name}: {len(short)} of {len(asked.attempts)} attempts are not "
                f"finished; `{again}` continues"
            )
    if not notes and len(sizes := set(stored.values())) > 1:
        notes.append(
            f"{run.path.name}: attempts attacked {min(sizes)} to {max(sizes)} images, and a number "
            f"counts only the images that all of its attempts attacked; `{command} --suite … "
            f"--examples {max(sizes)}` with the same suites attacks the rest"
        )
    return tuple(notes)


def _judge_notes(run: Run, late: Sequence[str]) -> tuple[str, ...]:
    if run.rejection.shared:
        return ()
    return (
        *(
            f"{run.path.name}: some attempts were made before the detector for {one} was fitted; "
            f"`ccat attack` once more scores them"
            for one in late
        ),
        f"{run.path.name}: scores are a detector's, as the share of correct calibration images "
        f"that score lower.",
    )
