"""Reports: functions from results to text and files. None needs torch; figures and pages are imported where they are made."""

from ccat.report.document import document
from ccat.report.examples import write_examples
from ccat.report.formats import FORMATS, as_markdown, markdown
from ccat.report.tables import comparison_table, main_table, proposition_table, seeds_table, tables

__all__ = [
    "FORMATS",
    "as_markdown",
    "comparison_table",
    "document",
    "main_table",
    "markdown",
    "proposition_table",
    "seeds_table",
    "tables",
    "write_examples",
]
