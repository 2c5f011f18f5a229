"""Figures for a paper: RErr over threshold and coverage, ROC curves, confidences.

One panel per condition; one colour per training method, in a palette that colour-blind readers can
tell apart (Okabe & Ito).
"""

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ccat.evaluation.certified import between
from ccat.evaluation.groups import headline, pooled_outcome, told_apart
from ccat.evaluation.metrics import curves
from ccat.evaluation.rates import COVERAGE, FPR, TPR, rates_of, successful
from ccat.evaluation.results import Evaluation, Group, RunOutcomes
from ccat.evaluation.selective import risk_coverage
from ccat.files import write_whole

if TYPE_CHECKING:
    from ccat.threats import Condition


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9")
DASHES = ("-", "--", ":", "-.")
_FIRST = {"Normal": 1, "Adversarial": 0, "ConfidenceCalibrated": 2}


class Style(NamedTuple):
    """The number of a colour, and that of a dash pattern."""

    colour: int
    dash: int


def styles(runs: Sequence[RunOutcomes]) -> list[Style]:
    """Return a style for each run: the colour is the method's, dashes tell its runs apart.

    Where the dashes of a colour are used up, other colours follow.
    """
    colours = dict(_FIRST)
    for run in runs:
        colours.setdefault(run.method, len(colours) % len(COLOURS))
    others = sorted(range(len(COLOURS)), key=lambda n: n in colours.values())
    found: list[Style] = []
    for run in runs:
        ranked = (colours[run.method], *others)
        own = [Style(colour, dash) for colour in ranked for dash in range(len(DASHES))]
        found.append(next((style for style in own if style not in found), own[0]))
    return found


RC: Any = {
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
_DATES: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {},
}


class Series(NamedTuple):
    """A run as figures draw it: its outcomes, its evaluation at the τ to mark, and its style."""

    outcomes: RunOutcomes
    evaluation: Evaluation
    style: Style

    @property
    def colour(self) -> str:
        """The colour of its training method."""
        return COLOURS[self.style.colour]

    @property
    def line(self) -> dict[str, Any]:
        """How its curves are drawn."""
        dash = DASHES[self.style.dash]
        return {"color": self.colour, "linestyle": dash, "linewidth": 1.5}

    def group(self, condition: "Condition") -> Group | None:
        """Return its attempts under a condition; None if there are none."""
        found = (group for group in self.outcomes.groups if group.condition == condition)
        return next(found, None)


def as_files(figure: Figure) -> dict[str, bytes]:
    """Return the figure as SVG, PDF and PNG, by the ending of the file."""
    files = {}
    with rc_context(RC):
        for ending, metadata in _DATES.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, dpi=200, bbox_inches="tight", metadata=metadata)
            files[ending] = buffer.getvalue()
            figure.set_layout_engine("none")  # laid out once is enough, and takes a third
    return files


def save_figures(out: Path, figures: Mapping[str, Figure]) -> dict[str, str]:
    """Save figures into a folder, each in all formats, and return them as SVG, by name."""
    # All are drawn before the first is written.
    drawn = {name: as_files(figure) for name, figure in figures.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name, files in drawn.items():
        for ending, content in files.items():
            write_whole(out / f"{name}.{ending}", content)
    return {name: files["svg"].decode() for name, files in drawn.items()}


def figures(
    outcomes: Sequence[RunOutcomes], evaluations: Sequence[Evaluation]
) -> dict[str, Figure]:
    """Return the figures that every report has, by name."""
    runs = [Series(*parts) for parts in zip(outcomes, evaluations, styles(outcomes), strict=True)]
    every = {group.condition for run in outcomes for group in run.groups}
    conditions = sorted(every, key=lambda condition: condition.order)
    on_images = [one for one in conditions if one.on_errors]
    with rc_context(RC):
        drawn = {
            "robust-error": _headlines(runs, conditions),
            "risk-coverage": _risk_coverage(runs, conditions),
            "confidences": _confidences(runs, conditions),
        }
        return drawn | ({"roc": _roc(runs, on_images)} if on_images else {})


def _headlines(runs: Sequence[Series], conditions: Sequence["Condition"]) -> Figure:
    figure, panels = _panels(len(conditions))
    for panel, condition in zip(panels, conditions, strict=True):
        for run in runs:
            if group := run.group(condition):
                levels, tau = headline(run.outcomes, group), run.evaluation.tau
                panel.plot(_GRID, 100 * levels.at(_GRID), **run.line)
                if condition in run.outcomes.certified:
                    both = between(run.outcomes, condition)
                    ends = (100 * levels.at(_GRID), 100 * both.upper.at(_GRID))
                    panel.fill_between(_GRID, *ends, color=run.colour, alpha=0.18, linewidth=0)
                panel.plot([tau], [100 * levels.at(tau)], "o", color=run.colour, markersize=4)
        panel.set(
            title=condition.title,
            xlabel="threshold τ",
            ylabel=f"{rates_of(condition)[0].title} in %",
            xlim=(-0.02, 1.02),
            ylim=(-2, 102),
            xticks=_TICKS,
        )
    _legend(figure, runs)
    return figure


def _risk_coverage(runs: Sequence[Series], conditions: Sequence["Condition"]) -> Figure:
    """Draw the headlines over the coverage of the attacked images when they are clean."""
    figure, panels = _panels(len(conditions))
    for panel, condition in zip(panels, conditions, strict=True):
        for run in runs:
            if group := run.group(condition):
                levels, tau = headline(run.outcomes, group), run.evaluation.tau
                coverage = COVERAGE(pooled_outcome(run.outcomes, group)[0])
                curve = risk_coverage(levels, coverage)
                panel.plot(100 * curve.coverage, 100 * curve.risk, **run.line)
                if condition in run.outcomes.certified:
                    upper = 100 * between(run.outcomes, condition).upper.at(curve.tau)
                    ends = (100 * curve.coverage, 100 * curve.risk, upper)
                    panel.fill_between(*ends, color=run.colour, alpha=0.18, linewidth=0)
                x, y = 100 * coverage.at(tau), 100 * levels.at(tau)
                panel.plot([x], [y], "o", color=run.colour, markersize=4)
        panel.set(
            title=condition.title,
            xlabel="clean coverage in %",
            ylabel=f"{rates_of(condition)[0].title} in %",
            xlim=(-2, 102),
            ylim=(-2, 102),
        )
    _legend(figure, runs)
    return figure


def _roc(runs: Sequence[Series], conditions: Sequence["Condition"]) -> Figure:
    figure, panels = _panels(len(conditions))
    for panel, condition in zip(panels, conditions, strict=True):
        for run in runs:
            if group := run.group(condition):
                clean, adversarial = pooled_outcome(run.outcomes, group)
                if successful(clean, adversarial).any():
                    curve, tau = curves(clean, adversarial), run.evaluation.tau
                    panel.plot(100 * curve.fpr, 100 * curve.tpr, **run.line)
                    x, y = 100 * FPR(clean, adversarial).at(tau), 100 * TPR(clean).at(tau)
                    panel.plot([x], [y], "o", color=run.colour, markersize=4)
        panel.set(
            title=condition.title,
            xlabel=f"{FPR.title} in %",
            ylabel=f"{TPR.title} in %",
            xlim=(-2, 102),
            ylim=(-2, 102),
        )
    _legend(figure, runs)
    return figure


def _confidences(runs: Sequence[Series], conditions: Sequence["Condition"]) -> Figure:
    figure = Figure(
        figsize=(PANEL * len(conditions), 0.8 * PANEL * len(runs) + 0.5), layout="constrained"
    )
    grid = figure.subplots(len(runs), len(conditions), squeeze=False, sharex=True)
    for row, run in zip(grid, runs, strict=True):
        for panel, condition in zip(row, conditions, strict=True):
            if group := run.group(condition):
                positives, negatives = told_apart(run.outcomes, group)
                _histogram(panel, negatives, color=run.colour, alpha=0.75)
                _histogram(panel, positives, histtype="step", color="black")
                panel.axvline(run.evaluation.tau, color="black", linestyle=":", linewidth=1)
            panel.set(xlim=(-0.02, 1.02), ylim=(0, 104), xticks=_TICKS)
        name = textwrap.shorten(run.outcomes.run, 24, placeholder="…")
        row[0].set_ylabel(f"{name}\nshare in %")
    for first, last, condition in zip(grid[0], grid[-1], conditions, strict=True):
        first.set_title(condition.title)
        last.set_xlabel("confidence")
    shown = [
        Line2D([], [], color="black", label="correctly classified clean images"),
        Patch(color="grey", alpha=0.75, label="successful adversarial examples"),
        Line2D([], [], color="black", linestyle=":", linewidth=1, label="τ"),
    ]
    figure.legend(handles=shown, loc="outside lower center", ncols=3)
    return figure


def _histogram(panel: Axes, levels: Any, **style: Any) -> None:
    scores = levels[~np.isnan(levels)]
    if len(scores):
        weights = np.full(len(scores), 100 / len(scores))
        panel.hist(scores, np.linspace(0, 1, 26).tolist(), weights=weights, **style)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    rows = -(-count // 4)
    columns = -(-count // rows)
    figure = Figure(figsize=(PANEL * columns, PANEL * rows + 0.5), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[count:]:
        unused.remove()
    return figure, panels[:count]


def _legend(figure: Figure, runs: Sequence[Series]) -> None:
    lines = [Line2D([], [], label=run.outcomes.run, **run.line) for run in runs]
    figure.legend(handles=lines, loc="outside lower center", ncols=min(3, len(lines)))
