"""The table of classes: error and coverage of the clean images of each."""

from collections.abc import Sequence

from ccat.evaluation import rates
from ccat.evaluation.rates import COVERAGE, ERROR
from ccat.evaluation.results import ClassRates, Evaluation
from ccat.report.table import REJECTED, Cell, Share, Table, at, definitions

_MOST = 20  # classes that a run has a row for


def classes_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per run and class; of more than 20 classes, those with the largest error."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            one.run,
            found.label,
            *(Share.of(found.rates[rate.name]) for rate in rates.CLASS_RATES),
            str(found.images),
        )
        for one in evaluations
        for found in _worst(one.classes)
    )
    legend = [
        f"In %, of the clean images of each class. {REJECTED}",
        definitions(rates.CLASS_RATES),
    ]
    if any(len(one.classes) > _MOST for one in evaluations):
        legend.append(f"Of more than {_MOST} classes, those with the largest {ERROR.title}.")
    head = ("run", "class", *(rate.title for rate in rates.CLASS_RATES), "images")
    return Table("classes", f"Class by class, {at(evaluations)}", head, rows, tuple(legend))


def _worst(classes: Sequence[ClassRates]) -> Sequence[ClassRates]:
    """Return all classes in their order; of many, the worst first."""
    if len(classes) <= _MOST:
        return classes
    return sorted(
        classes, key=lambda one: (-one.rates[ERROR.name].value, one.rates[COVERAGE.name].value)
    )[:_MOST]
