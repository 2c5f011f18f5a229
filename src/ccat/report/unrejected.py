"""The row of the main table that says what a run is worth if it may not reject."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccat.evaluation.corruption import MEAN
from ccat.evaluation.rates import Rate
from ccat.evaluation.results import Evaluation
from ccat.report.table import Cell, Share, span

if TYPE_CHECKING:
    from ccat.threats import Condition

UNREJECTED = (
    "nothing rejected: the same run where everything is accepted, without intervals; all noise is "
    "accepted then."
)


def unrejected_row(
    one: Evaluation,
    before: Sequence[Rate],
    after: Sequence[Rate],
    conditions: Sequence["Condition"],
    sets: Sequence[str],
) -> tuple[Cell, ...]:
    """Return a run's errors where everything is accepted, in the columns of the main table.

    Args:
        one: The run.
        before: The rates on clean images that stand before τ.
        after: Those that stand after it.
        conditions: Of the columns that follow.
        sets: The sets of corruptions in the columns after these.
    """
    upper = {c.condition: c.without_rejection for c in one.certificates}
    found = {condition: Share(math.nan, upper=value) for condition, value in upper.items()}
    for a in one.attacks:
        proved = upper.get(a.condition)
        found[a.condition] = Share(a.pooled.without_rejection, mark=a.mark, upper=proved)
    shown = [condition for condition in conditions if not condition.on_noise]
    means = {
        c.set: Share(c.without_rejection)
        for c in one.corruptions
        if c.name == MEAN and c.severity is None
    }
    return (
        f"{one.run}, nothing rejected",
        *(Share(one.without_rejection[rate.name]) for rate in before),
        "–",
        *(Share(one.without_rejection[rate.name]) for rate in after),
        *(found.get(one, "–") if one in shown else "–" for one in conditions),
        *(means.get(name, "–") for name in sets),
        span(a.pooled.examples for a in one.attacks),
    )
