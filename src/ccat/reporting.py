"""From runs to a report: what stages measured and kept, put together with the tables and figures made of it."""

from collections.abc import Sequence
from pathlib import Path

from ccat.report import tables
from ccat.report.analysis import analysis_figures
from ccat.report.page import Section
from ccat.report.write import write_report
from ccat.results import Evaluation, Measured
from ccat.stages import StageError, analysis_of, pictures
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
    return write_report(out, sections, tables(evaluations), analysis_figures(analysed, measured), tpr)
