"""The table of corrupted images."""

from collections.abc import Sequence

from ccat.evaluation import rates
from ccat.evaluation.results import Evaluation
from ccat.report.table import Cell, Number, Share, Table, at, definitions


def corruptions_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per corruption, and those over whole sets of them."""
    first, *others = rates.CORRUPTION_RATES
    rows: list[tuple[Cell, ...]] = [
        (
            one.run,
            c.set,
            c.name,
            "–" if c.severity is None else str(c.severity),
            str(c.examples),
            Share(c.rates[first.name]),
            Share(c.without_rejection),
            *(Share(c.rates[rate.name]) for rate in others),
            Share(c.tnr),
            Number(c.auc, 3),
        )
        for one in evaluations
        for c in one.corruptions
    ]
    titles = (first.title, "no rejection", *(rate.title for rate in others), "TNR", "AUC")
    head = ("run", "set", "corruption", "severity", "images", *titles)
    legend = (
        "In %, but AUC. Images with a score below τ are rejected.",
        f"{definitions(rates.CORRUPTION_RATES)} no rejection: {first.title} where everything is "
        "accepted. TNR = wrong and rejected / wrong.",
        "AUC: area under the ROC curve of correctly classified clean images against wrong answers.",
        "mean: over corruptions, each counting the same; pooled: all their images as one set.",
    )
    return Table("corruptions", f"Corrupted images, {at(evaluations)}", head, tuple(rows), legend)
