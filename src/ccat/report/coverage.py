"""The table that compares runs: errors at equal coverage, and over all coverages."""

from collections.abc import Sequence

from ccat.evaluation.results import AtCoverage, Evaluation, Selective
from ccat.report.table import Cell, Number, Share, Table, headlines

_AT_LEAST = "+"


def coverage_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per run and condition, clean images first: AURC, AUGRC, errors."""
    asked = [f"{100 * one.asked:g} %" for one in evaluations[0].selective.at]
    rows = [
        (one.run, name, *_cells(found))
        for one in evaluations
        for name, found in (
            ("clean", one.selective),
            *((a.condition.title + a.mark, a.selective) for a in one.attacks),
        )
    ]
    bounds = [one for evaluation in evaluations for one in evaluation.attacks]
    legend = (
        headlines(),
        f"at {asked[0]}: at the largest τ that accepts {asked[0]} or more of the calibration "
        "images, right or wrong; reached: the share of the counted images that it accepts when "
        "they are clean. In brackets 95 % intervals, over images and τ.",
        "AURC: mean over the images of the error at τ = the clean score of the image; AUGRC: the "
        "same of wrong and accepted / all. Both times 100; the smaller, the better.",
        *(
            [
                f"{_AT_LEAST} a lower bound: attacks on an image ended once it was accepted at a "
                "lower τ. `ccat attack --complete` goes on."
            ]
            if any(one.selective.lower_bound for one in bounds)
            else []
        ),
    )
    columns = (name for share in asked for name in (f"at {share}", f"reached at {share}"))
    head = ("run", "threat", "AURC", "AUGRC", *columns)
    return Table("coverage", "At equal coverage", head, tuple(rows), legend)


def _cells(found: Selective) -> list[Cell]:
    mark = _AT_LEAST if found.lower_bound else ""
    areas = (Number(100 * area, 2, mark) for area in (found.aurc, found.augrc))
    return [*areas, *(cell for one in found.at for cell in _pair(one))]


def _pair(one: AtCoverage) -> tuple[Cell, Cell]:
    return Share.of(one.rate, _AT_LEAST if one.lower_bound else ""), Share(one.reached)
