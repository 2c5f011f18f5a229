"""Reports: functions from results to text and files. None needs torch."""

from ccat.report.document import document
from ccat.report.examples import write_examples
from ccat.report.formats import FORMATS, as_markdown, markdown
from ccat.report.tables import main_table, tables

__all__ = ["FORMATS", "as_markdown", "document", "main_table", "markdown", "tables", "write_examples"]
