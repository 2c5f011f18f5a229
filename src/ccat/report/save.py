"""The report as a folder: index.html, tables/ (md, csv, tex), figures/ (svg, pdf, png)."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from matplotlib.figure import Figure

from ccat.files import write_whole
from ccat.report.figures import figures, save_figures
from ccat.report.formats import FORMATS
from ccat.report.page import page
from ccat.report.section import Section
from ccat.report.table import Table


def save_report(
    out: Path,
    sections: Sequence[Section],
    tables: Sequence[Table],
    analysis: Mapping[str, tuple[str, Figure]],
    on: date,
) -> Path:
    """Save a report, replacing the files of an earlier one, and return the path of its page.

    Args:
        out: The folder.
        sections: One for each run.
        tables: Those that the page and the folder show.
        analysis: Further figures by name, each with a caption.
        on: The date of the report.
    """
    drawn = figures([one.outcomes for one in sections], [one.evaluation for one in sections])
    further = {name: figure for name, (_, figure) in analysis.items()}
    svg = save_figures(out / "figures", drawn | further)
    plates = {caption: svg[name] for name, (caption, _) in analysis.items()}
    title = "ccat: " + ", ".join(one.outcomes.run for one in sections)
    content = page(title, sections, tables, plates, on).encode()
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending, text_of in FORMATS.items():
            write_whole(out / "tables" / f"{table.name}.{ending}", text_of(table).encode())
    write_whole(out / "index.html", content)
    return out / "index.html"
