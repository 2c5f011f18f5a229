"""What commands print: tables that fit the terminal, Markdown elsewhere."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ccat.cli.ascii import fitting
from ccat.report.formats import FORMATS, markdown
from ccat.report.table import Table


class Screen(NamedTuple):
    """A terminal: its width, and whether colours are wanted."""

    width: int
    colour: bool


def screen() -> Screen | None:
    """Return the terminal that output goes to; None if there is none, or it cannot show styles."""
    if not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return None
    return Screen(shutil.get_terminal_size().columns, not os.environ.get("NO_COLOR"))


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of texts."""
    if found := screen():
        from ccat.report.terminal import rows_on_terminal  # noqa: PLC0415 (rich takes time)

        print(
            rows_on_terminal(head, rows, found.width, colour=found.colour, fit=fitting).rstrip("\n")
        )
    else:
        print(markdown(head, rows))


def print_tables(tables: Sequence[Table], form: str | None, notes: Sequence[str]) -> None:
    """Print tables; notes below those to be read, and to stderr beside those for programs.

    Without a format it is what fits a terminal, or Markdown where the output is no terminal.
    """
    if form is None and (found := screen()):
        from ccat.report.terminal import as_terminal  # noqa: PLC0415 (rich takes time)

        texts = [as_terminal(one, found.width, colour=found.colour, fit=fitting) for one in tables]
    else:
        texts = [FORMATS[form or "md"](table) for table in tables]
    print("\n\n".join(text.rstrip("\n") for text in texts))
    for note in notes:
        if form in (None, "md"):
            print(f"\n{note}")
        else:
            print(f"ccat: {note}", file=sys.stderr)
