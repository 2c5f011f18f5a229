"""Tables on a terminal: they fit its width, with intervals on a second line.

A table that is too wide is shown in parts, each with the first column. The best number of a column
is bold and the worst is underlined, so that neither needs colour. Below stand two lines, in place
of a legend that would be longer than the table.
"""

import io
import math
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from ccat.report.extremes import extremes
from ccat.report.formats import percent, shown
from ccat.report.table import Cell, Share, Table

_PADDING = 2  # columns of the terminal between two of a table
_NAMES = 0.3  # of the width that names of rows take at most
_DOUBT = "‡"
_STYLES = {"best": "bold green", "worst": "underline red"}


def as_terminal(
    table: Table, width: int, *, colour: bool = True, fit: Callable[[str], str] = str
) -> str:
    """Return a table and two lines below it for a terminal.

    Args:
        table: The table.
        width: The columns of the terminal.
        colour: Use colours, which say nothing that bold and underlined do not.
        fit: Replaces what the terminal cannot show.
    """
    out = io.StringIO()
    console = _console(out, width, colour)
    cells = [[_cell(cell, fit) for cell in row] for row in table.rows]
    marked = extremes(table)
    for (row, column), extreme in marked.items():
        text = cells[row][column]
        text.stylize(_STYLES[extreme], 0, len(text.plain.partition("\n")[0]))
    console.print(Text(fit(table.title), style="bold"))
    head = [fit(title) for title in table.head]
    for columns in _parts(head, cells, width):
        titles = [Column(head[0], overflow="fold", max_width=_most(width))]
        titles += [Column(head[n], justify="right", overflow="fold") for n in columns]
        console.print(_grid(titles, [[row[0], *(row[n] for n in columns)] for row in cells]))
    doubts = sum(line.startswith(_DOUBT) for line in table.legend)
    for line in (_how_to_read(table, bool(marked)), table.short):
        console.print(Text(_cut(fit(line), width, fit), style="dim"), end="\n" if line else "")
    if doubts:
        many = "is a reason" if doubts == 1 else f"are {doubts} reasons"
        line = f"{_DOUBT} There {many} to doubt these: --format md says which (docs/DOUBTS.md)."
        console.print(Text(fit(line)))
    return out.getvalue()


def rows_on_terminal(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    colour: bool = True,
    fit: Callable[[str], str] = str,
) -> str:
    """Return rows of texts for a terminal; a text that is too long goes on in the next line."""
    out = io.StringIO()
    titles = [Column(fit(title), overflow="fold") for title in head]
    cells = [[Text(fit(cell)) for cell in row] for row in rows]
    _console(out, width, colour).print(_grid(titles, cells))
    return out.getvalue()


def _console(out: io.StringIO, width: int, colour: bool) -> Console:
    return Console(file=out, width=width, force_terminal=True, no_color=not colour, highlight=False)


def _grid(titles: Sequence[Column], rows: Sequence[Sequence[Text]]) -> Grid:
    grid = Grid(*titles, box=None, padding=(0, _PADDING, 0, 0), pad_edge=False)
    for row in rows:
        grid.add_row(*row)
    return grid


def _how_to_read(table: Table, marked: bool) -> str:
    """Return the first line below a table: what numbers are, and how they are marked."""
    shares = [cell for row in table.rows for cell in row if isinstance(cell, Share)]
    parts = ["In %"] * bool(shares)
    parts += ["below a number its 95 % interval"] * any(cell.interval for cell in shares)
    parts += ["best bold, worst underlined"] * marked
    return "; ".join([*parts, "--format md says more."])


def _cut(line: str, width: int, fit: Callable[[str], str]) -> str:
    """Return a line that fits: one that is too long ends after a word."""
    if len(line) <= width:
        return line
    more = fit(" …")
    begin = line[: width - len(more)]
    return begin[: begin.rfind(" ")].rstrip(" ;") + more


def _cell(cell: Cell, fit: Callable[[str], str]) -> Text:
    """Return a cell; what stands beside its value goes to further lines, dim."""
    if not isinstance(cell, Share) or cell.interval is None or math.isnan(cell.value):
        return Text(fit(shown(cell)))
    low, high = (percent(end) for end in cell.interval)
    to = " to " if cell.interval[0] < 0 else "–"
    text = Text(fit(f"{percent(cell.value)}{cell.mark}"))
    if cell.upper is not None:
        text.append(fit(f"\n≤ {percent(cell.upper)}"))
    return text.append(fit(f"\n{low}{to}{high}"), style="dim")


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
