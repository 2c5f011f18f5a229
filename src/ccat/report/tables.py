"""The paper's tables, from evaluations. Every table says below what is divided by what."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccat.evaluation import rates
from ccat.evaluation.corruption import MEAN
from ccat.evaluation.evaluate import ALL
from ccat.evaluation.rates import ERROR, Rate
from ccat.evaluation.results import Evaluation, Pooled, UnderAttack
from ccat.report.availability import availability_table, stratified_table
from ccat.report.certificates import certificates_table
from ccat.report.classes import classes_table
from ccat.report.confusion import confusion_table
from ccat.report.corruptions import corruptions_table
from ccat.report.coverage import coverage_table
from ccat.report.table import (
    ASKED,
    ATTACKED,
    PLANTED,
    PROVED,
    REJECTED,
    SEEN,
    SUCCESSFUL,
    UNFINISHED,
    Cell,
    Number,
    Share,
    Table,
    at,
    definitions,
    on_noise,
    on_rejection,
    span,
)
from ccat.report.unrejected import UNREJECTED, unrejected_row

if TYPE_CHECKING:
    from ccat.threats import Condition

_BRIEF = "Err: wrong / accepted, clean or after the worst attack; coverage: accepted / all"


def tables(evaluations: Sequence[Sequence[Evaluation]]) -> list[Table]:
    """Return all tables that are not empty.

    Args:
        evaluations: Of each run those at several thresholds, first the one that tables of one
            threshold show.
    """
    first = [of_run[0] for of_run in evaluations]
    several = [thresholds_table(evaluations)] if len(evaluations[0]) > 1 else []
    found = [
        classes_table(first),
        *several,
        unseen_table(first),
        coverage_table(first),
        attacks_table(first),
        strongest_table(first),
        corruptions_table(first),
        confusion_table(first),
        certificates_table(first),
        availability_table(first),
        stratified_table(first),
    ]
    return [main_table(first), *(table for table in found if len(table.head) > 1 and table.rows)]


def main_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return per run the rates on clean images and each condition's headline; and unrejected."""
    conditions = conditions_of(evaluations, certified=True)
    sets = list(dict.fromkeys(c.set for one in evaluations for c in one.corruptions))
    before, after = clean_columns()
    rows: list[tuple[Cell, ...]] = []
    for one in evaluations:
        upper = {c.condition: c.upper.value for c in one.certificates}
        found = {condition: Share(math.nan, upper=value) for condition, value in upper.items()}
        for a in one.attacks:
            planted = a.planted.text if a.planted else ""
            cell = Share.of(a.pooled.headline, a.mark, planted)
            found[a.condition] = cell._replace(upper=upper.get(a.condition))
        means = {
            c.set: Share(c.rates[ERROR.name])
            for c in one.corruptions
            if c.name == MEAN and c.severity is None
        }
        rows.append(
            (
                one.run,
                *(Share.of(one.rates[rate.name]) for rate in before),
                Number(one.tau, 3),
                *(Share.of(one.rates[rate.name]) for rate in after),
                *(found.get(condition, "–") for condition in conditions),
                *(means.get(name, "–") for name in sets),
                span(a.pooled.examples for a in one.attacks),
            )
        )
        if one.tau > -math.inf:
            rows.append(unrejected_row(one, before, after, conditions, sets))
    head = ("run", *(rate.title for rate in before), "τ", *(rate.title for rate in after))
    columns = (*head, *(condition.title for condition in conditions), *sets, "images")
    legend = (
        f"In %. {REJECTED}",
        f"{definitions(rates.CLEAN_RATES)} Over {span(one.images for one in evaluations)} test "
        f"images; {span(one.calibration for one in evaluations)} others chose τ.",
        *(f"The interval of the {rate.title} takes τ as given." for rate in after),
        UNREJECTED,
        *_headlines(conditions),
        *(f"{name}: {ERROR.title}, mean over corruptions." for name in sets),
        *([f"{SEEN} {_tries(evaluations, conditions)}"] if conditions else []),
        *([PROVED] if any(one.certificates for one in evaluations) else []),
        *_doubts(evaluations),
    )
    title = f"Errors of what is accepted, {at(evaluations)}"
    return Table("main", title, columns, tuple(rows), legend, _BRIEF)


def thresholds_table(evaluations: Sequence[Sequence[Evaluation]]) -> Table:
    """Return the headline and the rate after it at several thresholds, for each run."""
    shown = rates.ATTACK_RATES[:2]
    head = tuple(
        f"{rate.title} at {100 * (one.tpr_asked or math.nan):g} %"
        for one in evaluations[0]
        for rate in shown
    )
    rows = [
        (of_run[0].run, _name(attacks[0]), *(c for a in attacks for c in _cells(a.pooled, shown)))
        for of_run in evaluations
        for attacks in zip(*(one.attacks for one in of_run), strict=True)
    ]
    legend = (f"In %. {REJECTED}", definitions(shown), SUCCESSFUL, ATTACKED, on_noise())
    further = on_rejection(one for of_run in evaluations for one in of_run)
    title = "At several true positive rates"
    return Table("thresholds", title, ("run", "threat", *head), tuple(rows), (*legend, *further))


def unseen_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the worst case over all threats that training has not seen, and without each."""
    columns = list(dict.fromkeys(name for one in evaluations for name in one.unseen))
    rows: list[tuple[Cell, ...]] = []
    for one in evaluations:
        found = {name: Share.of(pooled.headline) for name, pooled in one.unseen.items()}
        rows.append((one.run, *(found.get(name, "–") for name in columns)))
    legend = (
        f"{rates.ATTACK_RATES[0].title} in %. {REJECTED}",
        definitions(rates.ATTACK_RATES[:1]),
        "Each image as the worst attempt over all threats on test images that training has not "
        "seen made of it; without one: over the others. – seen, or no other.",
    )
    head = ("run", *(name if name == ALL else f"without {name}" for name in columns))
    title = f"Worst case over what training has not seen, {at(evaluations)}"
    return Table("unseen", title, head, tuple(rows), legend)


def attacks_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per family of attacks and one for their worst case, with all rates."""
    shown = _shared(rates.ATTACK_RATES, *rates.NOISE_RATES[1:], *rates.REJECTION_RATES[1:])
    rows = [
        (
            one.run,
            _name(a),
            pooled.name,
            str(pooled.attempts),
            Share(pooled.asked),
            Share(pooled.added),
            *_cells(pooled, shown),
            Number(pooled.auc, 3),
            Share(pooled.without_rejection),
            Number(pooled.forwards, 0),
            Number(pooled.backwards, 0),
            Number(pooled.seconds, 3),
        )
        for one in evaluations
        for a in one.attacks
        for pooled in (*a.families, a.pooled)
    ]
    costs = ("forwards", "backwards", "seconds")
    titles = tuple(rate.title for rate in shown)
    counts = ("attempts", "asked", "added")
    head = ("run", "threat", "attack", *counts, *titles, "AUC", "no rejection", *costs)
    legend = (
        f"In %, but AUC and costs. {REJECTED}",
        ASKED,
        definitions(rates.ATTACK_RATES),
        f"{SUCCESSFUL} {ATTACKED}",
        on_noise(),
        *on_rejection(evaluations),
        "AUC: area under the ROC curve of correctly classified clean images against their "
        "successful adversarial examples.",
        f"no rejection: {shown[0].title} where everything is accepted. Costs are per image.",
    )
    return Table("attacks", f"Attack by attack, {at(evaluations)}", head, tuple(rows), legend)


def strongest_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the strongest single attempts beside the worst case."""
    rows = [
        (
            one.run,
            _name(a),
            str(rank),
            pooled.name,
            Share(pooled.asked),
            Share(pooled.found),
            Share(a.pooled.found),
        )
        for one in evaluations
        for a in one.attacks
        for rank, pooled in enumerate(a.strongest, start=1)
    ]
    head = ("run", "threat", "rank", "attempt", "asked", "found", "worst case")
    legend = (
        "In % of the images. asked: attacked by this attempt; the others rested, because an "
        "earlier one had broken them, or a certificate says that nothing can. found: became wrong "
        "with a score of at least τ in this attempt; worst case: in any. A late attempt was asked "
        "only what the others had left.",
        *on_rejection(evaluations)[1:],
    )
    title = f"The strongest single attempts, {at(evaluations)}"
    return Table("strongest", title, head, tuple(rows), legend)


def clean_columns() -> tuple[list[Rate], list[Rate]]:
    """Return the rates that stand before τ, and those after it, which take it as given."""
    before = [rate for rate in rates.CLEAN_RATES if rate.interval == "bootstrap"]
    return before, [rate for rate in rates.CLEAN_RATES if rate.interval == "exact"]


def conditions_of(
    evaluations: Sequence[Evaluation], *, certified: bool = False
) -> list["Condition"]:
    """Return every condition that one of the runs was attacked under, in the order of columns.

    With `certified`, those as well that were only certified.
    """
    found = {a.condition for one in evaluations for a in one.attacks}
    if certified:
        found |= {c.condition for one in evaluations for c in one.certificates}
    return sorted(found, key=lambda condition: condition.order)


def _shared(attack: Sequence[Rate], *others: Rate) -> tuple[Rate, ...]:
    """Return the columns of a table with rows of all kinds, which share that of the headline."""
    known = {rate.name for rate in attack}
    return (*attack, *(rate for rate in others if rate.name not in known))


def _cells(pooled: Pooled, shown: Sequence[Rate]) -> list[Cell]:
    """Return the headline, then the further rates; "–" for those that the condition lacks."""
    rest = (pooled.rates.get(rate.name) for rate in shown[1:])
    return [Share.of(pooled.headline), *(Share.of(one) if one else "–" for one in rest)]


def _headlines(conditions: Sequence["Condition"]) -> list[str]:
    """Return what the columns of conditions show."""
    legend = []
    for defined in (rates.ATTACK_RATES, rates.NOISE_RATES, rates.REJECTION_RATES):
        titles = [one.title for one in conditions if rates.rates_of(one) is defined]
        if titles:
            legend.append(f"{', '.join(titles)}: {definitions(defined[:1])}")
    return [*legend, ATTACKED] if legend else []


def _tries(evaluations: Sequence[Evaluation], conditions: Sequence["Condition"]) -> str:
    attacks = [a for one in evaluations for a in one.attacks]
    tries = (
        f"{span(a.pooled.attempts for a in attacks if a.condition == condition)} for "
        f"{condition.title}"
        for condition in conditions
    )
    return f"Attempts per image: {', '.join(tries)}."


def _doubts(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return what stands beside numbers, of what is there: planted errors, marks, and reasons."""
    attacks = [a for one in evaluations for a in one.attacks]
    legend = [PLANTED] if any(a.planted for a in attacks) else []
    legend += [UNFINISHED] if any(a.unfinished for a in attacks) else []
    return legend + [
        f"‡ {one.run}, {a.condition.title}: {doubt.text} ({doubt.link})."
        for one in evaluations
        for a in one.attacks
        for doubt in a.doubts
    ]


def _name(attack: UnderAttack) -> str:
    return attack.condition.title + attack.mark
