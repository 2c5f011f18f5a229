"""Which numbers of a table are the best and the worst of their column."""

import math
from typing import Literal

from ccat.evaluation import rates
from ccat.report.table import Share, Table

Extreme = Literal["best", "worst"]
_HIGHER = {rate.title for rate in (rates.COVERAGE, rates.TPR)}  # where more is better
_NEITHER = {"τ", "images"}


def extremes(table: Table) -> dict[tuple[int, int], Extreme]:
    """Return the best and the worst numbers, by row and column.

    Only runs are compared: a table with several rows for one run, such as one for each threat, has
    none. Numbers without an interval are not compared, nor are columns whose numbers are all equal.
    """
    names = [row[0] for row in table.rows]
    if table.head[0] != "run" or len(set(names)) < len(names):
        return {}
    found: dict[tuple[int, int], Extreme] = {}
    for n, title in enumerate(table.head):
        values = {
            number: cell.value
            for number, row in enumerate(table.rows)
            if isinstance(cell := row[n], Share) and cell.interval and not math.isnan(cell.value)
        }
        if title in _NEITHER or len(set(values.values())) < 2:
            continue
        ends = min(values.values()), max(values.values())
        best, worst = ends[::-1] if title in _HIGHER else ends
        names_of: dict[float, Extreme] = {best: "best", worst: "worst"}
        found |= {(row, n): names_of[value] for row, value in values.items() if value in names_of}
    return found
