"""From runs to a report: what the pipeline kept, put together with tables and figures."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from ccat.errors import PipelineError
from ccat.evaluation.results import Evaluation, RunOutcomes
from ccat.pipeline.corrupt import contact_sheet
from ccat.pipeline.examples import pictures
from ccat.report import tables
from ccat.report.analysis import analysis_figures, contact_sheet_figure
from ccat.report.save import save_report
from ccat.report.section import Section
from ccat.runs import Run

_PICTURES = 64  # per condition, of all runs together
_MOST = 16  # of one run
_LEAST = 4


def report(
    out: Path,
    runs: Sequence[Run],
    outcomes: Sequence[RunOutcomes],
    evaluations: Sequence[Sequence[Evaluation]],
) -> Path:
    """Write a report of runs and return where its page lies.

    Args:
        out: The folder to write to.
        runs: The runs.
        outcomes: What each of them holds.
        evaluations: Of each run at several thresholds; the first one is marked.

    Raises:
        PipelineError: If a run was not attacked.
    """
    for one in outcomes:
        if not one.groups:
            raise PipelineError(one.notes[0])
    count = pictures_of_each(len(runs))
    sections = [
        Section(
            one,
            at[0],
            {group.condition: pictures(run, one, group, count) for group in one.groups},
        )
        for run, one, at in zip(runs, outcomes, evaluations, strict=True)
    ]
    stored = {one.run: run.analysis() for run, one in zip(runs, outcomes, strict=True)}
    analysed = {name: found for name, found in stored.items() if found}
    plates = analysis_figures(analysed, outcomes)
    if any(one.corrupted for one in outcomes):
        name, rows = contact_sheet(runs[0].recipe.dataset)
        caption = f"{name}: the first test images under every corruption, at its middle severity"
        plates["corruptions"] = (caption, contact_sheet_figure(rows))
    return save_report(out, sections, tables(evaluations), plates, date.today())


def pictures_of_each(runs: int) -> int:
    """Return how many pictures of each condition a report shows of each of so many runs."""
    return max(_LEAST, min(_MOST, _PICTURES // runs))
