"""Tables on a terminal: they fit its width, with intervals on a second line.

A table that is too wide is shown in parts, each with the first column. The best number of a column
is bold and the worst is underlined, so that neither needs colour.
"""

import io
import math
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from ccat.evaluation import rates
from ccat.report.formats import percent, shown
from ccat.report.table import Cell, Share, Table

_PADDING = 2  # columns of the terminal between two of a table
_NAMES = 0.3  # of the width that names of rows take at most
_LEGEND = 2  # lines
_DOUBT = "‡"
_HIGHER = {rate.title for rate in (rates.COVERAGE, rates.TPR)}  # where more is better
_NEITHER = {"τ", "images"}


def as_terminal(table: Table, width: int, *, colour: bool = True) -> str:
    """Return a table and the first lines of its legend for a terminal of so many columns."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=True, no_color=not colour, highlight=False
    )
    cells = [[_cell(cell) for cell in row] for row in table.rows]
    _mark(table, cells)
    console.print(Text(table.title, style="bold"))
    for columns in _parts(table.head, cells, width):
        heads = [Column(table.head[0], overflow="fold", max_width=_most(width))]
        heads += [Column(table.head[n], justify="right", overflow="fold") for n in columns]
        grid = Grid(*heads, box=None, padding=(0, _PADDING, 0, 0), pad_edge=False)
        for row in cells:
            grid.add_row(row[0], *(row[n] for n in columns))
        console.print(grid)
    doubts = [line for line in table.legend if line.startswith(_DOUBT)]
    for line in [line for line in table.legend if line not in doubts][:_LEGEND]:
        console.print(Text(line, style="dim"))
    if doubts:
        many = "is a reason" if len(doubts) == 1 else f"are {len(doubts)} reasons"
        text = f"{_DOUBT} There {many} to doubt these: --format md says which (docs/DOUBTS.md)."
        console.print(Text(text))
    return out.getvalue()


def _cell(cell: Cell) -> Text:
    """Return a cell; what stands beside its value goes to further lines, dim."""
    if not isinstance(cell, Share) or cell.interval is None or math.isnan(cell.value):
        return Text(shown(cell))
    low, high = (percent(end) for end in cell.interval)
    text = Text(f"{percent(cell.value)}{cell.mark}")
    if cell.upper is not None:
        text.append(f"\n≤ {percent(cell.upper)}")
    return text.append(f"\n{low}–{high}", style="dim")


def _mark(table: Table, cells: Sequence[Sequence[Text]]) -> None:
    """Make the best number of each column bold, and underline the worst."""
    for n, title in enumerate(table.head):
        found = {
            number: cell.value
            for number, row in enumerate(table.rows)
            if isinstance(cell := row[n], Share) and cell.interval and not math.isnan(cell.value)
        }
        if title in _NEITHER or len(set(found.values())) < 2:
            continue
        ends = min(found.values()), max(found.values())
        best, worst = ends[::-1] if title in _HIGHER else ends
        for number, value in found.items():
            style = {best: "bold", worst: "underline"}.get(value)
            if style:
                first = cells[number][n].plain.partition("\n")[0]
                cells[number][n].stylize(style, 0, len(first))


def _parts(head: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> Iterator[list[int]]:
    """Yield which columns are shown together, besides the first."""
    sizes = [
        max(
            len(line) for text in (title, *(row[n].plain for row in cells)) for line in _lines(text)
        )
        for n, title in enumerate(head)
    ]
    left = width - min(sizes[0], _most(width))
    some: list[int] = []
    for n in range(1, len(head)):
        if some and sum(sizes[one] + _PADDING for one in (*some, n)) > left:
            yield some
            some = []
        some.append(n)
    if some:
        yield some


def _lines(text: str) -> list[str]:
    return text.split("\n") or [""]


def _most(width: int) -> int:
    return max(12, int(_NAMES * width))
