"""Tables that compare: two runs, seeds of one recipe, and the branches of Proposition 1."""

import statistics
from collections.abc import Mapping, Sequence

from ccat.evaluation import rates
from ccat.evaluation.compare import Compared
from ccat.evaluation.intervals import LEVEL
from ccat.evaluation.proposition import Training, condition, solve
from ccat.evaluation.results import Evaluation
from ccat.report.table import Share, Table, at, headlines
from ccat.report.tables import conditions_of


def comparison_table(first: str, second: str, tpr: float, compared: Sequence[Compared]) -> Table:
    """Return two runs, paired image by image.

    Args:
        first: The name of a run.
        second: The name of the other run.
        tpr: The true positive rate that chose τ.
        compared: What `ccat.evaluation.compare.compare` found.
    """
    rows = tuple(
        (
            one.condition.title if one.condition else "clean",
            str(one.images),
            Share.of(one.first),
            Share.of(one.second),
            Share.of(one.difference),
            _p(one.p),
            str(one.only_first_fails),
            str(one.only_second_fails),
        )
        for one in compared
    )
    fails = (f"only {first} fails", f"only {second} fails")
    return Table(
        f"compare-{first}-{second}".replace("/", "-"),
        f"{first} against {second}, each at its own τ at {100 * tpr:g} % TPR",
        ("threat", "images", first, second, "difference", "p", *fails),
        rows,
        (
            headlines(),
            f"difference: {second} minus {first}; in brackets 95 % intervals, from resampling the "
            "images and those that chose τ, the same for both.",
            "p: of no difference, two-sided, from the same resamples: below 0.05 where the "
            "interval of the difference leaves zero out.",
            "An image fails if its answer is wrong and accepted, noise if it is accepted, a "
            "correct image under reject if it is rejected.",
        ),
        f"difference: {second} minus {first}; p < 0.05 where its interval leaves zero out",
    )


def _p(p: float) -> str:
    """Return p with three digits; "<0.050" where these alone would deny what the interval says."""
    text = f"{p:.3f}"
    return f"<{text}" if p < 1 - LEVEL and text == f"{1 - LEVEL:.3f}" else text


def seeds_table(groups: Mapping[str, Sequence[Evaluation]]) -> Table:
    """Return mean and standard deviation over the seeds of each recipe, by the recipe's name."""
    everyone = [one for group in groups.values() for one in group]
    conditions = conditions_of(everyone)
    clean = rates.CLEAN_RATES[0]
    rows = []
    for name, group in groups.items():
        under = [
            [a.pooled.headline.value for one in group for a in one.attacks if a.condition == each]
            for each in conditions
        ]
        columns = [[one.rates[clean.name].value for one in group], *under]
        rows.append((name, str(len(group)), *(_spread(column, len(group)) for column in columns)))
    head = ("recipe", "runs", clean.title, *(condition.title for condition in conditions))
    legend = (f"Mean ± standard deviation over seeds. {headlines()}",)
    return Table("seeds", f"Over seeds, {at(everyone)}", head, tuple(rows), legend)


def _spread(values: Sequence[float], runs: int) -> str:
    if len(values) < runs:
        return "–"
    mean = 100 * statistics.fmean(values)
    return f"{mean:.1f} ± {100 * statistics.stdev(values):.1f}" if runs > 1 else f"{mean:.1f}"


_TRAININGS: tuple[tuple[Training, float], ...] = (
    ("AT-100%", 0.0),
    ("AT-50%", 0.0),
    ("CCAT", 0.0),
    ("CCAT", 0.2),
    ("CCAT", 0.5),
)


def proposition_table() -> Table:
    """Return both branches of every training method, over p₀ and λ."""
    rows = []
    for p0 in (0.1, 0.2, 0.3, 0.5):
        for training, lam in _TRAININGS:
            apart, together = solve(training, p0, lam)
            best = min(apart, together, key=lambda solution: solution.loss)
            ccat = training == "CCAT"
            holds = ("yes" if condition(p0, lam) else "no") if ccat else "–"
            numbers = (
                f"{apart.loss:.4f}",
                f"{together.loss:.4f}",
                f"{best.a:z.3f}",
                f"{best.b:z.3f}",
                Share(best.error),
            )
            rows.append((f"{p0:g}", training, f"{lam:g}" if ccat else "–", holds, *numbers))
    head = ("p₀", "training", "λ", "condition", "loss, a < b", "loss, a ≥ b", "a", "b", "error")
    legend = (
        "a, b and the error in % are those of the branch with the smaller loss. The proposition "
        "states an error of zero for CCAT where its condition holds; it compares no branches.",
    )
    return Table("proposition", "Proposition 1, solved numerically", head, tuple(rows), legend)
