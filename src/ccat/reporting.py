"""From runs to a report: what stages measured and kept, put together with the tables and figures made of it."""

from collections.abc import Sequence
from pathlib import Path

from ccat.report import tables
from ccat.report.analysis import analysis_figures, contact_sheet_figure
from ccat.report.page import Section
from ccat.report.write import write_report
from ccat.results import Evaluation, Measured
from ccat.stages import StageError, analysis_of, contact_sheet, pictures
from ccat.store import Run

PICTURES = 16  # per run and threat


def report(out: Path, runs: Sequence[Run], measured: Sequence[Measured], evaluations: Sequence[Sequence[Evaluation]]) -> Path:
    """Where its page lies. Each run comes with its evaluations at several thresholds; the first is the one that is marked."""
    for one in measured:
        if not one.groups:
            raise StageError(one.notes[0])
    sections = [
        Section(one, at[0], {(group.threat, group.source): pictures(run, group, PICTURES) for group in one.groups})
        for run, one, at in zip(runs, measured, evaluations, strict=True)
    ]
    tpr = evaluations[0][0].tpr_asked or 0.99
    analysed = {one.run: found for run, one in zip(runs, measured, strict=True) if (found := analysis_of(run))}
    plates = analysis_figures(analysed, measured)
    if any(one.corrupted for one in measured):
        name, rows = contact_sheet(runs[0].recipe.dataset)
        plates["corruptions"] = (
            f"{name}: the first test images under every corruption, at its middle severity",
            contact_sheet_figure(rows),
        )
    return write_report(out, sections, tables(evaluations), plates, tpr)
