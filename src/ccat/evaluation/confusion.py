"""Class by class: the confusion matrix, with a column more for what is rejected, and rates.

Shapes: labels (N,), predicted (N,), score (N,); counts (K, K+1).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation import rates
from ccat.evaluation.groups import pooled_answers
from ccat.evaluation.intervals import bootstrap
from ccat.evaluation.outcome import Floats, Integers, Outcome
from ccat.evaluation.parts import ClassAnswers, ClassRates
from ccat.evaluation.run_outcomes import Answers, Group, RunOutcomes


def confusion(labels: Integers, answers: Answers, tau: float, classes: int) -> Integers:
    """Return how many images of each class (row) are answered as each class (column) and accepted.

    The last column counts the images that are rejected at τ.
    """
    accepted = answers.outcome.score >= tau
    column = np.where(accepted, answers.predicted, classes)
    places = labels * (classes + 1) + column
    counts = np.bincount(places, minlength=classes * (classes + 1))
    return counts.reshape(classes, classes + 1).astype(np.int64)


def attacked_answers(run: RunOutcomes, group: Group) -> tuple[Answers, Integers]:
    """Return the answer to each attacked image that counts in RErr, at any τ, and whose it is.

    It is the answer in the worst case; but where the clean image is wrong already, and more
    confidently than any attempt left it, an attacker leaves it as it is. An answer is then wrong
    and accepted exactly where RErr counts an error. The number of the attempt is −1 where it is the
    answer to the clean image.
    """
    worst, by = pooled_answers(run, group)
    clean = run.clean[group.judge][: len(worst.predicted)]
    keep = clean.outcome.wrong & (clean.outcome.score > worst.outcome.score)
    answers = Answers(
        np.where(keep, clean.predicted, worst.predicted),
        Outcome(
            worst.outcome.wrong | keep,
            np.where(keep, clean.outcome.score, worst.outcome.score),
        ),
    )
    return answers, np.where(keep, -1, by)


def by_class(run: RunOutcomes, answers: Answers, tau: float) -> tuple[ClassAnswers, ...]:
    """Return what the first images of a run were answered, for each class that they are of.

    Args:
        run: What is known of the run: its labels and the names of its classes.
        answers: The answers to its first images.
        tau: The threshold.
    """
    labels = run.labels[: len(answers.predicted)]
    names = _names(run.classes, labels, answers)
    counts = confusion(labels, answers, tau, len(names))
    return tuple(
        ClassAnswers(
            label=names[number],
            images=int(row.sum()),
            rejected=int(row[-1]),
            accepted={names[n]: int(row[n]) for n in np.flatnonzero(row[:-1])},
        )
        for number, row in enumerate(counts)
        if row.any()
    )


def class_rates(
    run: RunOutcomes, tau: float, taus: Floats, counts: NDArray[np.int16]
) -> tuple[ClassRates, ...]:
    """Return the rates on the clean images of a run, for each class that they are of.

    Args:
        run: What is known of the run.
        tau: The threshold.
        taus: The threshold of each resample, (B,).
        counts: How often each resample holds each image, (B, N), as for rates over all classes.
    """
    names = _names(run.classes, run.labels, run.clean_answers)
    clean, found = run.clean_answers.outcome, []
    for number in np.unique(run.labels):
        rows = np.flatnonzero(run.labels == number)
        examples, drawn = Outcome(clean.wrong[rows], clean.score[rows]), counts[:, rows]
        levels = [rate(examples) for rate in rates.CLASS_RATES]
        estimates = zip(rates.CLASS_RATES, bootstrap(levels, tau, drawn, taus), strict=True)
        by_name = {rate.name: estimate for rate, estimate in estimates}
        found.append(ClassRates(names[number], len(rows), by_name))
    return tuple(found)


def _names(classes: Sequence[str], labels: Integers, answers: Answers) -> list[str]:
    """Return the names of classes; their numbers where names are missing or not unique."""
    count = 1 + max(int(labels.max()), int(answers.predicted.max()))
    known = len(classes) >= count and len(set(classes)) == len(classes)
    return list(classes) if known else [str(number) for number in range(count)]
