"""The confusion matrix as a table: what the images of each class are answered, or rejected."""

from collections.abc import Iterator, Sequence

from ccat.evaluation.results import ClassAnswers, Evaluation
from ccat.report.table import Cell, Share, Table, at

_MOST = 20  # classes that have a column each
_RIGHT, _WRONG = "right", "wrong"


def confusion_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per run, condition on test images and class; its shares sum to 100 %.

    There is a column for each class, or, of more than 20 classes, one for right and one for wrong.
    """
    matrices = list(_matrices(evaluations))
    classes = _classes([one for _, _, rows in matrices for one in rows])
    columns = classes if len(classes) <= _MOST else [_RIGHT, _WRONG]
    rows = tuple(
        (run, threat, one.label, *_cells(one, columns, classes))
        for run, threat, found in matrices
        for one in found
    )
    head = ("run", "threat", "class", *columns, "rejected", "coverage", "Err", "images")
    legend = (
        "In %. Of the images of a class, those that are answered as each class and accepted, and "
        "those that are rejected because their score is below τ: together 100.",
        "coverage = accepted / all, Err = wrong / accepted, of the images of the class.",
        "Under a threat each image counts as its most confident error, clean or attacked. What is "
        "wrong here is what RErr counts; but that divides by more: it takes an image for accepted "
        "if only its clean version is.",
    )
    title = f"Answers by class, {at(evaluations)}"
    return Table("confusion", title, head, rows, legend)


def _matrices(
    evaluations: Sequence[Evaluation],
) -> Iterator[tuple[str, str, tuple[ClassAnswers, ...]]]:
    for one in evaluations:
        yield one.run, "clean", one.confusion
        for a in one.attacks:
            yield one.run, a.condition.title + a.mark, a.confusion


def _cells(one: ClassAnswers, columns: Sequence[str], classes: Sequence[str]) -> list[Cell]:
    counts = dict(one.accepted)
    if columns is not classes:
        right = counts.get(one.label, 0)
        counts = {_RIGHT: right, _WRONG: one.images - one.rejected - right}
    return [
        *(Share(counts.get(name, 0) / one.images) for name in columns),
        Share(one.rejected / one.images),
        Share(one.coverage),
        Share(one.error),
        str(one.images),
    ]


def _classes(rows: Sequence[ClassAnswers]) -> list[str]:
    """Return all classes in the order of the rows, then those without images; numbers in theirs."""
    labels = [one.label for one in rows]
    found = dict.fromkeys([*labels, *(name for one in rows for name in one.accepted)])
    return sorted(found, key=int) if all(map(str.isdecimal, found)) else list(found)
