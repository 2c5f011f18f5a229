"""Figures for a paper: RErr over the threshold, ROC curves, confidences. One panel per threat, one colour per training method."""

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ccat import metrics
from ccat.evaluation import pooled_outcome, shown_rate
from ccat.files import write_whole
from ccat.report.look import COLOURS, DASHES, Look, looks
from ccat.results import Evaluation, Group, Measured

STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "ccat",  # equal figures are equal files
    "svg.fonttype": "none",
    "text.parse_math": False,  # a run may be called a$b
    "pdf.fonttype": 42,
}
PANEL = 2.3  # inches
_TICKS = (0, 0.5, 1)
_GRID = np.linspace(0, 1, 401)
_DATES: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


class Run(NamedTuple):
    """A run, its evaluation at the threshold to mark, and how it looks."""

    measured: Measured
    evaluation: Evaluation
    look: Look


def as_files(figure: Figure) -> dict[str, bytes]:
    """The figure as SVG, PDF and PNG, by the ending of the file."""
    files = {}
    with rc_context(STYLE):
        for ending, metadata in _DATES.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, dpi=200, bbox_inches="tight", metadata=metadata)
            files[ending] = buffer.getvalue()
    return files


def write_figures(out: Path, figures: Mapping[str, Figure]) -> dict[str, str]:
    """Into a folder, each in all formats; gives them as SVG."""
    drawn = {name: as_files(figure) for name, figure in figures.items()}  # all before the first is written
    out.mkdir(parents=True, exist_ok=True)
    for name, files in drawn.items():
        for ending, content in files.items():
            write_whole(out / f"{name}.{ending}", content)
    return {name: files["svg"].decode() for name, files in drawn.items()}


def figures(measured: Sequence[Measured], evaluations: Sequence[Evaluation]) -> dict[str, Figure]:
    """By name: those that every report has."""
    runs = [Run(*parts) for parts in zip(measured, evaluations, looks(measured), strict=True)]
    with rc_context(STYLE):
        drawn = {"robust-error": _robust_error(runs), "confidences": _confidences(runs)}
        return drawn | ({"roc": _roc(runs)} if any(source == "test" for _, source in _groups(runs)) else {})


def _robust_error(runs: Sequence[Run]) -> Figure:
    groups = _groups(runs)
    figure, panels = _panels(len(groups))
    for panel, (name, source) in zip(panels, groups, strict=True):
        for run, group in _with(runs, name, source):
            rate = shown_rate(run.measured, group.members)
            panel.plot(_GRID, 100 * rate.at(_GRID), **_line(run))
            panel.plot([run.evaluation.tau], [100 * rate.at(run.evaluation.tau)], "o", color=COLOURS[run.look.colour], markersize=4)
        panel.set(title=_title(name, source), xlabel="threshold τ", xlim=(-0.02, 1.02), ylim=(-2, 102), xticks=_TICKS)
        panel.set_ylabel("accepted in %" if source == "noise" else "RErr in %")
    _legend(figure, runs)
    return figure


def _roc(runs: Sequence[Run]) -> Figure:
    groups = [group for group in _groups(runs) if group[1] == "test"]
    figure, panels = _panels(len(groups))
    for panel, (name, source) in zip(panels, groups, strict=True):
        for run, group in _with(runs, name, source):
            clean, adversarial = pooled_outcome(run.measured, group.members)
            if not (adversarial.wrong & ~clean.wrong).any():
                continue
            curve = metrics.curves(clean, adversarial)
            panel.plot(100 * curve.fpr, 100 * curve.tpr, **_line(run))
            tau = run.evaluation.tau
            mark = 100 * metrics.fpr(clean, adversarial, tau), 100 * metrics.tpr(clean, tau)
            panel.plot(*([one] for one in mark), "o", color=COLOURS[run.look.colour], markersize=4)
        panel.set(title=_title(name, source), xlabel="FPR in %", ylabel="TPR in %", xlim=(-2, 102), ylim=(-2, 102))
    _legend(figure, runs)
    return figure


def _confidences(runs: Sequence[Run]) -> Figure:
    groups = _groups(runs)
    figure = Figure(figsize=(PANEL * len(groups), 0.8 * PANEL * len(runs) + 0.5), layout="constrained")
    grid = figure.subplots(len(runs), len(groups), squeeze=False, sharex=True)
    bins = np.linspace(0, 1, 26)
    for number, (row, run) in enumerate(zip(grid, runs, strict=True)):
        correct = run.measured.clean.outcome
        for panel, (name, source) in zip(row, groups, strict=True):
            found = [group for _, group in _with([run], name, source)]
            if found:
                clean, adversarial = pooled_outcome(run.measured, found[0].members)
                bad = adversarial.score[adversarial.wrong & ~clean.wrong] if source == "test" else adversarial.score
                for scores, style in (
                    (bad, {"color": COLOURS[run.look.colour], "alpha": 0.75}),
                    (correct.score[~correct.wrong], {"histtype": "step", "color": "black"}),
                ):
                    if len(scores):
                        panel.hist(scores, bins, weights=np.full(len(scores), 100 / len(scores)), **style)
                panel.axvline(run.evaluation.tau, color="black", linestyle=":", linewidth=1)
            panel.set(xlim=(-0.02, 1.02), ylim=(0, 104), xticks=_TICKS)
            if number == 0:
                panel.set_title(_title(name, source))
            if number == len(runs) - 1:
                panel.set_xlabel("confidence")
        row[0].set_ylabel(f"{textwrap.shorten(run.measured.run, 24, placeholder='…')}\nshare in %")
    shown = [
        Line2D([], [], color="black", label="correctly classified clean images"),
        Patch(color="grey", alpha=0.75, label="successful adversarial examples"),
        Line2D([], [], color="black", linestyle=":", linewidth=1, label="τ"),
    ]
    figure.legend(handles=shown, loc="outside lower center", ncols=3)
    return figure


def _groups(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Threat and source of every panel: images first, then noise."""
    found = dict.fromkeys((group.threat, group.source) for run in runs for group in run.measured.groups)
    return sorted(found, key=lambda group: group[1] == "noise")


def _with(runs: Sequence[Run], threat: str, source: str) -> list[tuple[Run, Group]]:
    return [(run, group) for run in runs for group in run.measured.groups if (group.threat, group.source) == (threat, source)]


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    rows = -(-count // 4)
    columns = -(-count // rows)
    figure = Figure(figsize=(PANEL * columns, PANEL * rows + 0.5), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[count:]:
        unused.remove()
    return figure, panels[:count]


def _line(run: Run) -> dict[str, Any]:
    return {"color": COLOURS[run.look.colour], "linestyle": DASHES[run.look.dash], "linewidth": 1.5}


def _title(threat: str, source: str) -> str:
    return f"distal {threat}" if source == "noise" else threat


def _legend(figure: Figure, runs: Sequence[Run]) -> None:
    lines = [Line2D([], [], label=run.measured.run, **_line(run)) for run in runs]
    figure.legend(handles=lines, loc="outside lower center", ncols=min(3, len(lines)))
