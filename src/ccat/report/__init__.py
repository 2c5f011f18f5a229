"""Reports: functions from results to text and files."""

from ccat.report.examples import write_examples
from ccat.report.tables import main_table, markdown

__all__ = ["main_table", "markdown", "write_examples"]
