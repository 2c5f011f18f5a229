"""Tables as text: Markdown that reads well in a terminal, CSV with all digits, LaTeX (booktabs)."""

import csv
import io
import math
import re
from collections.abc import Callable, Sequence

from ccat.report.extremes import extremes
from ccat.report.table import Cell, Number, Share, Table

_TEX = {
    "%": r"\%",
    "#": r"\#",
    "&": r"\&",
    "_": r"\_",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_TEX |= {
    "τ": r"$\tau$",
    "ε": r"$\epsilon$",
    "–": "--",
    "\\": r"\textbackslash{}",
    "…": r"\dots{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "λ": r"$\lambda$",
    "₀": "$_0$",
}
_NORMS = {"Linf": r"$L_\infty$", "L2": "$L_2$", "L1": "$L_1$", "L0": "$L_0$", "Frame": "frame"}
_THREAT = rf"\b({'|'.join(_NORMS)}):(?=\d)"  # as in Linf:0.3


def as_markdown(table: Table) -> str:
    """Return title, table and legend as Markdown."""
    rows = [[shown(cell) for cell in row] for row in table.rows]
    return "\n".join(
        [
            f"**{table.title}**",
            "",
            markdown(table.head, rows),
            "",
            *(f"{line}  " for line in table.legend),
        ]
    )


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns of numbers are aligned to the right."""
    head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    columns = list(zip(head, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numbers = [all(map(_is_number, column[1:])) for column in columns]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.rjust(width) if n else cell.ljust(width)
            for cell, width, n in zip(cells, widths, numbers, strict=True)
        ]
        return "| " + " | ".join(aligned) + " |"

    rule = "|".join(
        "-" * (width + 1) + ":" if n else "-" * (width + 2)
        for width, n in zip(widths, numbers, strict=True)
    )
    return "\n".join([line(head), f"|{rule}|", *(line(row) for row in rows)])


def as_csv(table: Table) -> str:
    """Return a table as CSV: shares from 0 to 1 with all digits.

    Intervals are in two more columns, what was proved in one more, where there are any.
    """
    columns = [[c for c in column if isinstance(c, Share)] for column in zip(*table.rows)]  # noqa: B905
    more = [
        [" low", " high"] * any(cell.interval is not None for cell in column)
        + [" at most"] * any(cell.upper is not None for cell in column)
        for column in columns
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = zip(table.head, more, strict=True)
    writer.writerow([name + ending for name, endings in heads for ending in ("", *endings)])
    for row in table.rows:
        cells = zip(row, more, strict=True)
        writer.writerow([value for cell, endings in cells for value in _values(cell, endings)])
    return out.getvalue()


def as_tex(table: Table) -> str:
    """Return a LaTeX table environment with a booktabs tabular; the best of a column is bold.

    The legend stands before it as a comment, because a caption is one sentence.
    """
    columns = "".join(
        "r" if all(_is_number(cell) for cell in column) else "l"
        for column in zip(*table.rows, strict=True)
    )
    marked = extremes(table)
    rows = [
        line
        for n, row in enumerate(table.rows)
        for line in _tex_lines([(cell, marked.get((n, m)) == "best") for m, cell in enumerate(row)])
    ]
    lines = [
        *(f"% {line}" for line in table.legend),
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{_caption(table, bold='best' in marked.values())}}}",
        rf"\label{{tab:{re.sub('[^A-Za-z0-9]+', '-', table.name)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(_escaped, table.head)) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {"md": as_markdown, "csv": as_csv, "tex": as_tex}


def _is_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or cell[:1].isdigit() or cell[:1] in "-–<≤"


def shown(cell: Cell) -> str:
    """Return a cell as Markdown and the page show it."""
    if isinstance(cell, str):
        return cell
    proved = (
        f"≤ {percent(cell.upper)}" if isinstance(cell, Share) and cell.upper is not None else ""
    )
    if math.isnan(cell.value):
        return proved or "–"
    if isinstance(cell, Number):
        return f"{cell.value:.{cell.digits}f}{cell.mark}"
    if cell.interval is None:
        return f"{percent(cell.value)}{cell.mark} {proved}".rstrip()
    to = " to " if cell.interval[0] < 0 else "–"
    low, high = (percent(bound) for bound in cell.interval)
    note = f" [{cell.note}]" if cell.note else ""
    return f"{percent(cell.value)}{cell.mark} ({low}{to}{high}) {proved}".rstrip() + note


def percent(share: float) -> str:
    """Return a share in per cent with one digit after the point, as tables and the page do."""
    return f"{100 * share:z.1f}"


def _values(cell: Cell, more: Sequence[str]) -> list[str]:
    """Return the value of a cell, then those of the columns beside it."""
    if isinstance(cell, str):
        return ["" if cell == "–" else cell, *("" for _ in more)]
    low, high = (isinstance(cell, Share) and cell.interval) or (math.nan, math.nan)
    upper = cell.upper if isinstance(cell, Share) and cell.upper is not None else math.nan
    beside = {" low": low, " high": high, " at most": upper}
    numbers = [cell.value, *(beside[ending] for ending in more)]
    return ["" if math.isnan(number) else repr(number) for number in numbers]


def _caption(table: Table, *, bold: bool) -> str:
    """Return the title of a table as a sentence that also says what its numbers are."""
    shares = [cell for row in table.rows for cell in row if isinstance(cell, Share)]
    parts = [table.title, *["in %"] * bool(shares)]
    parts += ["with 95 % intervals in brackets"] * any(cell.interval for cell in shares)
    return _escaped(", ".join([*parts, *["the best in bold"] * bold]) + ".")


def _tex_lines(row: Sequence[tuple[Cell, bool]]) -> list[list[str]]:
    """Return a row and, where there are intervals, a second line with these."""
    intervals = [
        rf"\scriptsize [{percent(cell.interval[0])}, {percent(cell.interval[1])}]"
        if isinstance(cell, Share) and cell.interval and not math.isnan(cell.value)
        else ""
        for cell, _ in row
    ]
    return [[_tex(cell, bold=bold) for cell, bold in row], *[intervals] * any(intervals)]


def _tex(cell: Cell, *, bold: bool) -> str:
    if not isinstance(cell, Share) or math.isnan(cell.value):
        return _escaped(shown(cell))
    mark = cell.mark.replace("†", r"\dagger").replace("‡", r"\ddagger")
    note = rf" {{\scriptsize {_escaped(cell.note)}}}" if cell.note else ""
    proved = rf" $\le$ {percent(cell.upper)}" if cell.upper is not None else ""
    value = rf"\textbf{{{percent(cell.value)}}}" if bold else percent(cell.value)
    return f"{value}{mark and f'$^{{{mark}}}$'}{proved}{note}"


def _escaped(text: str) -> str:
    """Return a text as LaTeX prints it; a threat such as Linf:0.3 as mathematics."""
    pattern = "|".join([_THREAT, *map(re.escape, _TEX)])
    return re.sub(
        pattern, lambda found: f"{_NORMS[found[1]]} " if found[1] else _TEX[found[0]], text
    )
