"""Figures of an analysis: how attacks climb, confidences along lines, the transition λ, Prop. 1."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ccat.evaluation.groups import headline, pooled_outcome
from ccat.evaluation.metrics import curves
from ccat.evaluation.proposition import branch_is_global, condition
from ccat.evaluation.rates import FPR, TPR, rates_of
from ccat.evaluation.results import Analysis, Lines, RunOutcomes
from ccat.report.figures import COLOURS, PANEL, RC

_GREYS = "#777777"
Plates = dict[str, tuple[str, Figure]]


def analysis_figures(runs: Mapping[str, Analysis], outcomes: Sequence[RunOutcomes]) -> Plates:
    """Return figures by name, each with a caption.

    Args:
        runs: The analyses by the name of the run; only those of as many images and iterations as
            the first are drawn.
        outcomes: All runs of the report; where they differ in ρ, figures are over ρ.
    """
    numbers = [(one.examples, one.iterations) for one in runs.values()]
    # Beside each other stand the same lines, or none.
    runs = {name: one for name, one in runs.items() if (one.examples, one.iterations) == numbers[0]}
    with rc_context(RC):
        plates: Plates = {}
        if runs:
            plates["climbs"] = (
                "PGD-Conf from the image: mean confidence in another class over iterations, tried "
                "(thin) and best so far",
                climbs(runs),
            )
            plates["directions"] = (
                "Confidences along adversarial directions, κ = 1 at ε: means over images, and all "
                "classes of one image",
                directions(runs),
            )
            plates["between"] = (
                "Confidences between test images of two classes: all classes of three pairs, and "
                "means over many",
                between(runs),
            )
        if len(by_rho := _by_rho(outcomes)) > 1:
            plates["transition"] = (
                "λ, the weight of the label in CCAT's target, over the size of the perturbation",
                transition(sorted(by_rho)),
            )
            plates["rho"] = (
                "CCAT trained with several ρ: RErr over τ (above) and ROC curves (below)",
                over_rho(by_rho),
            )
        return plates


def climbs(runs: Mapping[str, Analysis]) -> Figure:
    """Draw one panel per run, one line per variant of the attack."""
    figure = Figure(figsize=(1.3 * PANEL * len(runs), PANEL + 0.6), layout="constrained")
    panels = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
    for panel, (name, analysis) in zip(panels, runs.items(), strict=True):
        for colour, (variant, climb) in zip(COLOURS, analysis.climbs.items(), strict=False):
            panel.plot(climb.tried, color=colour, linewidth=0.6, alpha=0.6)
            panel.plot(climb.best, color=colour, label=variant)
        panel.set(title=name, xlabel="iteration", ylim=(-0.02, 1.02))
    panels[0].set_ylabel("confidence")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def directions(runs: Mapping[str, Analysis]) -> Figure:
    """Draw one row per run; for each threat means, then one image."""
    threats = list(
        dict.fromkeys(threat for analysis in runs.values() for threat in analysis.directions)
    )
    figure = Figure(
        figsize=(PANEL * 2 * len(threats), 0.8 * PANEL * len(runs) + 0.6), layout="constrained"
    )
    grid = figure.subplots(len(runs), 2 * len(threats), squeeze=False, sharex=True, sharey=True)
    for number, (row, (name, analysis)) in enumerate(zip(grid, runs.items(), strict=True)):
        for column, threat in enumerate(threats):
            if threat in analysis.directions:
                lines = analysis.directions[threat]
                _means(row[2 * column], lines, "true class", "attacked class")
                _classes(row[2 * column + 1], lines, 0)
            for panel in row[2 * column : 2 * column + 2]:
                panel.axvline(1, color="black", linestyle=":", linewidth=1)
            if number == 0:
                row[2 * column].set_title(f"{threat}, means")
                row[2 * column + 1].set_title(f"{threat}, one image")
        row[0].set_ylabel(f"{name}\nconfidence")
    for panel in grid[-1]:
        panel.set_xlabel("κ, in units of ε")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def between(runs: Mapping[str, Analysis]) -> Figure:
    """Draw the images of the first pairs above each run's confidences, means at the right."""
    first = next(iter(runs.values())).between
    pairs = len(first.images)
    figure = Figure(
        figsize=(PANEL * (pairs + 1), 0.8 * PANEL * len(runs) + 1.4), layout="constrained"
    )
    grid = figure.subplots(
        len(runs) + 1, pairs + 1, squeeze=False, height_ratios=[0.6] + [1] * len(runs)
    )
    for panel, images in zip(grid[0], first.images, strict=False):
        strip = (
            np.concatenate([np.moveaxis(np.asarray(image), 0, -1) for image in images], axis=1)
            / 255
        )
        panel.imshow(strip.squeeze(), cmap="gray", vmin=0, vmax=1)
        panel.set_title("κ = 0, ½, 1")
    for panel in grid[0]:
        panel.axis("off")
    for row, (name, analysis) in zip(grid[1:], runs.items(), strict=True):
        for column in range(pairs):
            _classes(row[column], analysis.between, column)
        _means(row[-1], analysis.between, "class of the first image", "class of the second")
        row[0].set_ylabel(f"{name}\nconfidence")
    for panel in grid[-1]:
        panel.set_xlabel("κ")
    grid[1][-1].set_title("means")
    figure.legend(*grid[1][-1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def transition(rhos: Sequence[float]) -> Figure:
    """Draw λ = (1 − min(1, ‖δ‖/ε))^ρ (equation 6) for each ρ."""
    figure = Figure(figsize=(1.3 * PANEL, PANEL), layout="constrained")
    panel = figure.subplots()
    size = np.linspace(0, 1.1, 221)
    for shade, rho in zip(np.linspace(0.15, 0.95, len(rhos)), rhos, strict=True):
        values = (1 - np.minimum(1, size)) ** rho
        panel.plot(size, values, color=_shade(shade), label=f"ρ = {rho:g}")
    panel.set(xlabel="‖δ‖ / ε", ylabel="λ", xlim=(0, 1.75))
    panel.legend()
    return figure


def over_rho(runs: Mapping[float, RunOutcomes]) -> Figure:
    """Draw RErr over τ and ROC curves, one shade per ρ, one column per threat."""
    attacked = {
        group.condition
        for run in runs.values()
        for group in run.groups
        if not (group.condition.on_noise or group.condition.rejects)
    }
    conditions = sorted(attacked, key=lambda condition: condition.order)
    figure = Figure(figsize=(PANEL * len(conditions), 2 * PANEL + 0.5), layout="constrained")
    grid = figure.subplots(2, len(conditions), squeeze=False)
    taus = np.linspace(0, 1, 201)
    shades = np.linspace(0.15, 0.95, len(runs))
    for shade, (rho, run) in zip(shades, sorted(runs.items()), strict=True):
        for group in run.groups:
            if group.condition in attacked:
                above, below = grid[:, conditions.index(group.condition)]
                values = 100 * headline(run, group).at(taus)
                above.plot(taus, values, color=_shade(shade), label=f"ρ = {rho:g}")
                curve = curves(*pooled_outcome(run, group))
                below.plot(100 * curve.fpr, 100 * curve.tpr, color=_shade(shade))
    for (above, below), attack in zip(grid.T, conditions, strict=True):
        name = rates_of(attack)[0].title
        above.set(title=attack.title, xlabel="threshold τ", ylabel=f"{name} in %", ylim=(-2, 102))
        below.set(xlabel=f"{FPR.title} in %", ylabel=f"{TPR.title} in %")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def contact_sheet_figure(rows: Sequence[tuple[str, NDArray[np.float32]]]) -> Figure:
    """Draw the same images under every corruption, to see that each is what its name says.

    Args:
        rows: The name of a corruption and the images (N, C, H, W) in [0,1] under it.
    """
    height, width = rows[0][1].shape[2:]
    with rc_context(RC):
        figure = Figure(
            figsize=(0.012 * width * len(rows[0][1]) + 1.5, 0.012 * height * len(rows)),
            layout="constrained",
        )
        for panel, (name, images) in zip(
            figure.subplots(len(rows), 1, squeeze=False)[:, 0], rows, strict=True
        ):
            strip = np.concatenate(list(images.transpose(0, 2, 3, 1)), axis=1)
            panel.imshow(strip.squeeze(), cmap="gray", vmin=0, vmax=1)
            panel.set(xticks=[], yticks=[])
            panel.set_ylabel(name, rotation=0, ha="right", va="center")
            for spine in panel.spines.values():
                spine.set_visible(False)
    return figure


def proposition_figure(points: int = 201) -> Figure:
    """Draw where the stated condition holds over p₀ and λ, and where CCAT's optimum is right."""
    p0, lam = np.linspace(0.005, 0.995, points), np.linspace(0, 0.995, points)
    kinds = np.array(
        [[0 if not condition(p, one) else 1 + branch_is_global(p, one) for p in p0] for one in lam]
    )
    colours = ("#e5e5e5", COLOURS[1], COLOURS[2])
    with rc_context(RC):
        figure = Figure(figsize=(2 * PANEL, 1.5 * PANEL), layout="constrained")
        panel = figure.subplots()
        panel.imshow(
            kinds,
            origin="lower",
            extent=(p0[0], p0[-1], lam[0], lam[-1]),
            aspect="auto",
            cmap=ListedColormap(colours),
            vmin=0,
            vmax=2,
        )
        panel.set(xlabel="p₀, probability of x = 0", ylabel="λ(ε)")
        names = (
            "condition fails",
            "condition holds, but the optimum misclassifies",
            "condition holds, error zero",
        )
        figure.legend(
            [Patch(color=colour) for colour in colours], names, loc="outside lower center", ncols=1
        )
    return figure


def _means(panel: Axes, lines: Lines, first: str, second: str) -> None:
    for values, name, colour in zip(
        (lines.first, lines.second, lines.rest),
        (first, second, "likeliest other"),
        COLOURS,
        strict=False,
    ):
        panel.plot(lines.steps, values, color=colour, label=name)
    panel.set_ylim(-0.02, 1.02)


def _classes(panel: Axes, lines: Lines, line: int) -> None:
    """Draw all classes of one line: the two that it is about in colour, the others in grey."""
    for number, values in enumerate(np.asarray(lines.confidences[line]).T):
        special = {lines.second_class[line]: COLOURS[1], lines.first_class[line]: COLOURS[0]}
        panel.plot(
            lines.steps,
            values,
            color=special.get(number, _GREYS),
            linewidth=1.5 if number in special else 0.6,
        )
    panel.set_ylim(-0.02, 1.02)


def _by_rho(outcomes: Sequence[RunOutcomes]) -> dict[float, RunOutcomes]:
    return {
        float(one.recipe["method.rho"]): one
        for one in outcomes
        if "method.rho" in one.recipe and one.groups
    }


def _shade(share: float) -> tuple[float, float, float]:
    """Return a colour from light to dark blue."""
    return 0.75 * (1 - share), 0.85 - 0.55 * share, 0.95 - 0.35 * share
