"""Tables of rejection as an attacker's goal: what becomes of images, and rejection within αε."""

from collections.abc import Sequence

from ccat.evaluation.rates import AVAILABILITY, WRONG
from ccat.evaluation.results import Evaluation
from ccat.report.table import REJECTED, Cell, Share, Table, at

_GOALS = (
    "One attacker wants errors that are accepted, another wants rejection; each image counts as "
    "the worst attempt of each left it."
)


def availability_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per run and threat attacked with both goals: what becomes of images."""
    rows: list[tuple[Cell, ...]] = [
        (
            one.run,
            found.condition.title,
            str(found.examples),
            *map(Share.of, (found.availability, found.correct, found.wrong, found.rejected)),
        )
        for one in evaluations
        for found in one.availability
    ]
    head = ("run", "threat", "images", AVAILABILITY.title, "correct", WRONG.title, "rejected")
    legend = (
        f"In %. {REJECTED}",
        f"{_GOALS} {AVAILABILITY.legend}; {WRONG.legend}; rejected = images that are not wrong, "
        "but rejected when clean or under attack / all; correct = all others / all.",
    )
    title = f"If attackers want errors or rejection, {at(evaluations)}"
    return Table("availability", title, head, tuple(rows), legend)


def stratified_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per run and threat: errors within ε or rejection within αε, over α."""
    alphas = {alpha for one in evaluations for found in one.stratified for alpha in found.total}
    columns = sorted(alphas, key=float)
    rows: list[tuple[Cell, ...]] = []
    for one in evaluations:
        for found in one.stratified:
            total = {alpha: Share.of(share) for alpha, share in found.total.items()}
            cells = (total.get(alpha, "–") for alpha in columns)
            rows.append((one.run, found.condition.title, str(found.examples), *cells))
    legend = (
        f"In %. {REJECTED}",
        f"{_GOALS} total(α) = images that are wrong within ε, or rejected within αε / all; α = 0: "
        "rejected when clean (Chen et al. 2023, arXiv 2305.01139).",
        "– no attack on rejection within αε: `ccat attack RUN --threat reject:Linf:0.075` makes "
        "one, at α = 0.25 of Linf:0.3.",
    )
    head = ("run", "threat", "images", *(f"α = {alpha}" for alpha in columns))
    title = f"Errors within ε or rejection within αε, {at(evaluations)}"
    return Table("stratified", title, head, tuple(rows), legend)
