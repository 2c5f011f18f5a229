"""The report as a folder: index.html, tables/ (md, csv, tex), figures/ (svg, pdf, png)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ccat.files import write_whole
from ccat.report.figures import figures, write_figures
from ccat.report.formats import FORMATS
from ccat.report.page import Section, page
from ccat.report.tables import Table


def write_report(
    out: Path, sections: Sequence[Section], tables: Sequence[Table], analysis: Mapping[str, tuple[str, Figure]], tpr: float
) -> Path:
    """Where the page lies. `analysis` are further figures by name, each with a caption. Files of an earlier report are replaced."""
    drawn = figures([one.measured for one in sections], [one.evaluation for one in sections])
    svg = write_figures(out / "figures", drawn | {name: figure for name, (_, figure) in analysis.items()})
    plates = {caption: svg[name] for name, (caption, _) in analysis.items()}
    title = "ccat: " + ", ".join(one.measured.run for one in sections)
    content = page(title, sections, tables, plates, tpr).encode()
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending, text_of in FORMATS.items():
            write_whole(out / "tables" / f"{table.name}.{ending}", text_of(table).encode())
    write_whole(out / "index.html", content)
    return out / "index.html"
