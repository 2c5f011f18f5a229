"""The table of certificates: errors from above, beside what attacks found."""

from collections.abc import Sequence

from ccat.evaluation import rates
from ccat.evaluation.results import Certified, Evaluation
from ccat.report.table import REJECTED, Cell, Share, Table, at, definitions

VACUOUS = 0.995  # from this error on a bound says nothing
_WHY = (
    "at most 100: the bounds prove nothing here. Intervals grow from layer to layer, unless "
    "training keeps them small; `ccat certify --bounds linear` is tighter (docs/CERTIFICATES.md)."
)


def certificates_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row for each run and certified condition."""
    found = [(one, each) for one in evaluations for each in one.certificates]
    rows: list[tuple[Cell, ...]] = [
        (
            one.run,
            each.condition.title,
            str(each.examples),
            Share(each.certified),
            "–" if each.lower is None else Share.of(each.lower),
            Share.of(each.upper),
            in_words(each),
            Share(each.without_rejection),
        )
        for one, each in found
    ]
    head = ("run", "threat", "images", "certified", "at least", "at most", "in words")
    legend = (
        f"In %. {REJECTED}",
        "certified: images for which no wrong answer that τ accepts is possible / all; on noise, "
        "no answer at all.",
        f"at least: what attacks found; at most: what bounds allow, on the same images. "
        f"Both are {definitions(rates.ATTACK_RATES[:1])} distal: "
        f"{definitions(rates.NOISE_RATES[:1])}",
        "no rejection: the bound where everything is accepted.",
        *([_WHY] if any(each.upper.value >= VACUOUS for _, each in found) else []),
    )
    title = f"Errors from both sides, {at(evaluations)}"
    return Table("certificates", title, (*head, "no rejection"), tuple(rows), legend)


def in_words(certified: Certified) -> str:
    """Return the bounds in words: "between 9.0 and 14.5 %"."""
    upper = 100 * certified.upper.value
    if certified.lower is None:
        return f"at most {upper:.1f} %"
    return f"between {100 * certified.lower.value:.1f} and {upper:.1f} %"
