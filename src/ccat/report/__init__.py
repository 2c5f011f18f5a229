"""Reports: from results to text, figures and files. Nothing here needs torch.

`tables` makes tables of evaluations, `FORMATS` turns them into text, `to_json` makes a document
that `json_schema` describes:

    for table in tables([[evaluation]]):
        print(as_markdown(table))

Figures and the page are imported where they are made, because matplotlib takes a second:
`ccat.report.figures`, `ccat.report.analysis`, `ccat.report.page`, and `ccat.report.save` for all of
it as a folder.
"""

from ccat.report.comparison import comparison_table, proposition_table, seeds_table
from ccat.report.examples import save_examples
from ccat.report.formats import FORMATS, as_markdown, markdown
from ccat.report.tables import main_table, tables
from ccat.report.to_json import json_schema, to_json

__all__ = [
    "FORMATS",
    "as_markdown",
    "comparison_table",
    "json_schema",
    "main_table",
    "markdown",
    "proposition_table",
    "save_examples",
    "seeds_table",
    "tables",
    "to_json",
]
