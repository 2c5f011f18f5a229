"""The paper's tables, from evaluations. Every table says below what is divided by what.

A cell is a share, shown in per cent, with its interval if it has one, or a text.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ccat.comparison import Compared
from ccat.evaluation import ALL, MEAN
from ccat.intervals import Estimate
from ccat.proposition import Training, condition, solve
from ccat.results import Evaluation, UnderAttack


class Share(NamedTuple):
    """A share between 0 and 1, with its interval where there is one, and a mark beside it."""

    value: float
    interval: tuple[float, float] | None = None
    mark: str = ""

    @classmethod
    def of(cls, estimate: Estimate, mark: str = "") -> "Share":
        return cls(estimate.value, (estimate.low, estimate.high), mark)


class Number(NamedTuple):
    """A number of another kind, shown with so many digits after the point."""

    value: float
    digits: int


Cell = str | Share | Number


@dataclass(frozen=True)
class Table:
    """Its name is that of its files."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    legend: tuple[str, ...]


_REJECTED = "Images with a confidence below τ are rejected; in brackets 95 % intervals, over images and, where a TPR chose it, over τ."
_RERR = "RErr: wrong and accepted of accepted, each image clean or as the worst attempt within the threat left it."
_FPR = "FPR: successful adversarial examples accepted, of all attacked images. Positives are the correctly classified clean images."


def main_table(evaluations: Sequence[Evaluation]) -> Table:
    """One row per run: clean error, coverage, and the error under each threat."""
    threats = _threats(evaluations)
    sets = list(dict.fromkeys(c.set for one in evaluations for c in one.corruptions))
    rows = []
    for one in evaluations:
        found = {(a.source, a.threat): Share.of(a.pooled.error, "*" * a.seen) for a in one.attacks}
        means = {c.set: Share(c.error) for c in one.corruptions if c.name == MEAN and c.severity is None}
        sizes = {a.pooled.examples for a in one.attacks}
        numbers = (Share.of(one.error), Share.of(one.coverage), Number(one.tau, 3), Share.of(one.tpr))
        rows.append(
            (one.run, *numbers, *(found.get(threat, "–") for threat in threats), *(means.get(name, "–") for name in sets), _range(sizes))
        )
    tries = [_range({a.pooled.attempts for one in evaluations for a in one.attacks if (a.source, a.threat) == t}) for t in threats]
    held_out = _range({one.held_out for one in evaluations})
    return Table(
        "main",
        f"Errors of what is accepted, {_at(evaluations)}",
        ("run", "Err", "accepted", "τ", "TPR", *map(_column, threats), *sets, "images"),
        tuple(rows),
        (
            f"In %. {_REJECTED}",
            f"Err: wrong of accepted; accepted: of all; TPR: accepted of correct; over {_range({one.images for one in evaluations})} test "
            f"images. τ was chosen on {held_out} others; the interval of the TPR is that of this τ.",
            f"{', '.join(_column(t) for t in threats if t[0] == 'test') or 'Threats'}: RErr, {_RERR.removeprefix('RErr: ')}",
            *(f"{name}: Err, mean over corruptions." for name in sets),
            "distal: adversarial noise images accepted, of all of them (an FPR). * training has seen this threat. – not attacked.",
            *(
                ["Attempts per image: " + ", ".join(f"{n} for {_column(t)}" for n, t in zip(tries, threats, strict=True)) + "."]
                * bool(threats)
            ),
        ),
    )


def thresholds_table(at: Sequence[Sequence[Evaluation]]) -> Table:
    """RErr and FPR at several thresholds: for each run its evaluations at them."""
    head = tuple(f"{name} at {100 * (one.tpr_asked or math.nan):g} %" for one in at[0] for name in ("RErr", "FPR"))
    rows = []
    for evaluations in at:
        for attacks in zip(*(one.attacks for one in evaluations), strict=True):
            first = attacks[0]
            cells = [(Share.of(a.pooled.error), "–" if a.source == "noise" else Share.of(a.pooled.fpr_of_all)) for a in attacks]
            rows.append((evaluations[0].run, _name(first), *(cell for pair in cells for cell in pair)))
    legend = (f"In %. {_REJECTED}", _RERR, _FPR, "distal: under RErr the share of adversarial noise images accepted.")
    return Table("thresholds", "At several true positive rates", ("run", "threat", *head), tuple(rows), legend)


def unseen_table(evaluations: Sequence[Evaluation]) -> Table:
    """The worst case over all threats that training has not seen, and without each of them."""
    columns = list(dict.fromkeys(name for one in evaluations for name in one.unseen))
    rows = [(one.run, *(Share.of(one.unseen[name].error) if name in one.unseen else "–" for name in columns)) for one in evaluations]
    legend = (
        f"RErr in %. {_REJECTED}",
        _RERR,
        "Over all threats on test images that training has not seen; without one: the others. – seen, or no other.",
    )
    head = ("run", *(name if name == ALL else f"without {name}" for name in columns))
    return Table("unseen", f"Worst case over what training has not seen, {_at(evaluations)}", head, tuple(rows), legend)


def families_table(evaluations: Sequence[Evaluation]) -> Table:
    """Attack by attack."""
    rows = []
    for one in evaluations:
        for a in one.attacks:
            for pooled in (*a.families, a.pooled):
                noise = a.source == "noise"
                fpr: Cell = "–" if noise else Share.of(pooled.fpr_of_all)
                auc = Number(pooled.auc, 3)
                cost = (Number(pooled.forwards, 0), Number(pooled.backwards, 0), Number(pooled.seconds, 3))
                without = Share(pooled.error_without_rejection)
                rows.append((one.run, _name(a), pooled.name, str(pooled.attempts), Share.of(pooled.error), fpr, auc, without, *cost))
    head = ("run", "threat", "attack", "attempts", "RErr", "FPR", "AUC", "no rejection", "forwards", "backwards", "seconds")
    legend = (
        f"In %, but AUC and costs. {_REJECTED}",
        f"{_RERR} On noise (distal) the share accepted.",
        _FPR,
        "AUC: of telling correctly classified clean images from their successful adversarial examples by confidence.",
        "no rejection: RErr where everything is accepted. Costs are per image.",
    )
    return Table("attacks", f"Attack by attack, {_at(evaluations)}", head, tuple(rows), legend)


def corruptions_table(evaluations: Sequence[Evaluation]) -> Table:
    """Corruption by corruption."""
    rows: list[tuple[Cell, ...]] = []
    for one in evaluations:
        for c in one.corruptions:
            which = (one.run, c.set, c.name, "–" if c.severity is None else str(c.severity), str(c.examples))
            shares = (Share(value) for value in (c.error, c.error_without_rejection, c.coverage, c.tnr, c.fpr))
            rows.append((*which, *shares, Number(c.auc, 3)))
    head = ("run", "set", "corruption", "severity", "images", "Err", "no rejection", "accepted", "TNR", "FPR", "AUC")
    legend = (
        "In %, but AUC. A confidence below τ is rejected. Err: wrong of accepted; no rejection: wrong of all; accepted: of all.",
        "TNR and FPR: rejected and accepted, of the wrong answers. AUC: of telling correctly classified clean images from wrong answers.",
        "mean: over corruptions, each counting the same; pooled: all their images as one set.",
    )
    return Table("corruptions", f"Corrupted images, {_at(evaluations)}", head, tuple(rows), legend)


def strongest_table(evaluations: Sequence[Evaluation]) -> Table:
    """The strongest single attempts beside the worst case."""
    rows = []
    for one in evaluations:
        for a in one.attacks:
            for rank, pooled in enumerate(a.strongest, start=1):
                rows.append((one.run, _name(a), str(rank), pooled.name, Share.of(pooled.error), Share.of(a.pooled.error)))
    head = ("run", "threat", "rank", "attempt", "RErr", "worst case")
    legend = (f"RErr in %, on noise (distal) the share accepted. {_REJECTED}", "worst case: each image under the worst of all attempts.")
    return Table("strongest", f"The strongest single attempts, {_at(evaluations)}", head, tuple(rows), legend)


def comparison_table(first: str, second: str, tpr: float, compared: Sequence[Compared]) -> Table:
    """Two runs, paired image by image."""
    rows = []
    for one in compared:
        name = "clean" if one.source == "clean" else _column((one.source, one.threat))
        p = f"{one.p:.3f}" if one.p >= 0.001 else "<0.001"
        split = (str(one.only_first_fails), str(one.only_second_fails))
        rows.append((name, str(one.images), Share.of(one.first), Share.of(one.second), Share.of(one.difference), *split, p))
    return Table(
        f"compare-{first}-{second}".replace("/", "-"),
        f"{first} against {second}, each at its own τ at {100 * tpr:g} % TPR",
        ("threat", "images", first, second, "difference", f"only {first} fails", f"only {second} fails", "p"),
        tuple(rows),
        (
            "In %: Err on clean images, RErr under a threat (wrong and accepted of accepted), on noise (distal) the share accepted.",
            f"difference: {second} minus {first}; in brackets 95 % intervals: images and those that chose τ resampled, the same for both.",
            "An image fails if its answer is wrong and accepted. p: McNemar's exact test on the images where only one of the two fails.",
        ),
    )


def proposition_table() -> Table:
    """Proposition 1, both branches of every method, over p₀ and λ."""
    trainings: tuple[tuple[Training, float], ...] = (("AT-100%", 0.0), ("AT-50%", 0.0), ("CCAT", 0.0), ("CCAT", 0.2), ("CCAT", 0.5))
    rows = []
    for p0 in (0.1, 0.2, 0.3, 0.5):
        for training, lam in trainings:
            apart, together = solve(training, p0, lam)
            best = min(apart, together, key=lambda solution: solution.loss)
            ccat = training == "CCAT"
            holds = ("yes" if condition(p0, lam) else "no") if ccat else "–"
            numbers = (f"{apart.loss:.4f}", f"{together.loss:.4f}", f"{best.a:z.3f}", f"{best.b:z.3f}", Share(best.error))
            rows.append((f"{p0:g}", training, f"{lam:g}" if ccat else "–", holds, *numbers))
    head = ("p₀", "training", "λ", "condition", "loss, a < b", "loss, a ≥ b", "a", "b", "error")
    legend = (
        "a, b and the error in % are those of the branch with the smaller loss. The proposition states an error of zero for CCAT where its "
        "condition holds; it compares no branches.",
    )
    return Table("proposition", "Proposition 1, solved numerically", head, tuple(rows), legend)


def seeds_table(groups: Mapping[str, Sequence[Evaluation]]) -> Table:
    """Mean and standard deviation over the seeds of each recipe."""
    everyone = [one for group in groups.values() for one in group]
    threats = _threats(everyone)
    rows = []
    for name, group in groups.items():
        under = [[a.pooled.error.value for one in group for a in one.attacks if (a.source, a.threat) == threat] for threat in threats]
        columns = [[one.error.value for one in group], *under]
        rows.append((name, str(len(group)), *(_spread(column, len(group)) for column in columns)))
    legend = (
        "In %, mean ± standard deviation over seeds; Err: wrong of accepted, under a threat RErr, on noise (distal) the share accepted.",
    )
    return Table("seeds", f"Over seeds, {_at(everyone)}", ("recipe", "runs", "Err", *map(_column, threats)), tuple(rows), legend)


def _spread(values: Sequence[float], runs: int) -> str:
    if len(values) < runs:
        return "–"
    mean = 100 * statistics.fmean(values)
    return f"{mean:.1f} ± {100 * statistics.stdev(values):.1f}" if runs > 1 else f"{mean:.1f}"


def tables(at: Sequence[Sequence[Evaluation]]) -> list[Table]:
    """All of them; for each run its evaluations, the one that tables of one threshold show first."""
    first = [evaluations[0] for evaluations in at]
    several = [thresholds_table(at)] if len(at[0]) > 1 else []
    found = [*several, unseen_table(first), families_table(first), strongest_table(first), corruptions_table(first)]
    return [main_table(first), *(table for table in found if len(table.head) > 1 and table.rows)]


def _threats(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    """Source and threat of every column: images first, then noise."""
    threats = list(dict.fromkeys((a.source, a.threat) for one in evaluations for a in one.attacks))
    return sorted(threats, key=lambda threat: threat[0] == "noise")


def _column(threat: tuple[str, str]) -> str:
    return f"distal {threat[1]}" if threat[0] == "noise" else threat[1]


def _name(attack: UnderAttack) -> str:
    return _column((attack.source, attack.threat)) + "*" * attack.seen


def _at(evaluations: Sequence[Evaluation]) -> str:
    asked = {one.tpr_asked for one in evaluations}
    return " and ".join("at a given τ" if tpr is None else f"at {100 * tpr:g} % TPR" for tpr in sorted(asked, key=lambda tpr: tpr or 0))


def _range(numbers: set[int]) -> str:
    return "–".join(str(number) for number in sorted({min(numbers), max(numbers)})) if numbers else "–"
