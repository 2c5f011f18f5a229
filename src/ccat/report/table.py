"""A table, its cells, and the sentences below it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import NamedTuple

from ccat.evaluation import rates
from ccat.evaluation.intervals import Estimate
from ccat.evaluation.rates import Rate
from ccat.evaluation.results import Evaluation


class Share(NamedTuple):
    """A share between 0 and 1, with its interval where there is one, a mark and a note.

    `upper` is what it is at most, where that was proved; if only that is known, the value is NaN.
    """

    value: float
    interval: tuple[float, float] | None = None
    mark: str = ""
    note: str = ""
    upper: float | None = None

    @classmethod
    def of(cls, estimate: Estimate, mark: str = "", note: str = "") -> "Share":
        """Return an estimate as a cell."""
        return cls(estimate.value, (estimate.low, estimate.high), mark, note)


class Number(NamedTuple):
    """A number of another kind, how many digits after the point are shown, and a mark."""

    value: float
    digits: int
    mark: str = ""


Cell = str | Share | Number


@dataclass(frozen=True)
class Table:
    """A table; its name is that of its files.

    `brief` is the legend in one line of 80 characters, for terminals.
    """

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    legend: tuple[str, ...]
    brief: str = ""

    @property
    def short(self) -> str:
        """The legend in one line; where there is none, the line that says what is divided."""
        if self.brief or not self.legend:
            return self.brief
        return next((line for line in self.legend if " = " in line), self.legend[0])

    def select(self, columns: Sequence[str]) -> "Table":
        """Return the table with the first column and those chosen, in the order of the choice.

        Args:
            columns: Their titles, or patterns such as Linf*; large and small letters are alike.

        Raises:
            ValueError: If there is no such column; names those there are.
        """
        found: dict[int, None] = {0: None}
        for wanted in columns:
            fitting = [
                n for n, title in enumerate(self.head) if fnmatch(title.lower(), wanted.lower())
            ]
            if not fitting:
                there = ", ".join(self.head[1:])
                raise ValueError(f"the table {self.name} has no column {wanted!r}; it has {there}")
            found |= dict.fromkeys(fitting)
        return replace(
            self,
            head=tuple(self.head[n] for n in found),
            rows=tuple(tuple(row[n] for n in found) for row in self.rows),
        )


REJECTED = (
    "Images with a score below τ are rejected; in brackets 95 % intervals, over images and, where "
    "a TPR chose it, over τ."
)
ATTACKED = "An attacked image is what the worst attempt within the threat made of it."
ASKED = (
    "asked: images attacked / all, the others rested because an earlier attack had broken them; "
    "added: images that became accepted errors here and in no attack above / all. The rates of an "
    "attack are over the images that it was asked."
)
SUCCESSFUL = "An adversarial example is successful if it is wrong and its clean image is right."
SEEN = "* training has seen this threat. – not attacked."
_REJECT = (
    "Under reject the attacker wants correct images to be rejected: they are attacked for the "
    "lowest score, and found or added if they were accepted when clean and are rejected then."
)
PLANTED = (
    "In square brackets: errors planted in the model on purpose that the attacks found / planted "
    "(docs/DOUBTS.md)."
)
PROVED = "≤: no attack within the threat can make it more, by a proof (docs/CERTIFICATES.md)."
UNFINISHED = "† attacks that were asked for are not finished, and the number can only get worse."


def definitions(defined: Sequence[Rate]) -> str:
    """Return what each rate divides by what: "Err = wrong / accepted; coverage = …"."""
    return "; ".join(rate.legend for rate in defined) + "."


def headlines() -> str:
    """Return what the first rate of clean images, of a threat and of noise divides by what."""
    every = (rates.CLEAN_RATES, rates.ATTACK_RATES, rates.NOISE_RATES, rates.REJECTION_RATES)
    clean, attack, noise, rejection = (definitions(defined[:1]) for defined in every)
    more = f"distal: {noise} reject: {rejection}"
    return f"In %. On clean images {clean} Under a threat {attack} {ATTACKED} {more}"


def on_noise(defined: Sequence[Rate] | None = None) -> str:
    """Return what the columns of attacked images say of noise (distal)."""
    first, *rest = rates.NOISE_RATES if defined is None else defined
    further = f"; {definitions(rest)}" if rest else "."
    column = rates.ATTACK_RATES[0].title
    return f"distal: under {column} stands {first.legend}{further}"


def on_rejection(evaluations: Iterable[Evaluation]) -> list[str]:
    """Return what columns of attacked images say where the goal is rejection, and what it means.

    Nothing is returned where no attacker has this goal.
    """
    if not any(a.condition.rejects for one in evaluations for a in one.attacks):
        return []
    first, *rest = rates.REJECTION_RATES
    further = f"; {definitions(rest)}" if rest else "."
    column = rates.ATTACK_RATES[0].title
    return [f"reject: under {column} stands {first.legend}{further}", _REJECT]


def at(evaluations: Iterable[Evaluation]) -> str:
    """Return the thresholds of evaluations in words, for a title."""
    asked = {one.tpr_asked for one in evaluations}
    return " and ".join(
        "at a given τ" if tpr is None else f"at {100 * tpr:g} % TPR"
        for tpr in sorted(asked, key=lambda tpr: tpr or 0)
    )


def span(numbers: Iterable[int]) -> str:
    """Return the smallest and the largest of some numbers, "40–100"; "–" if there are none."""
    found = sorted(set(numbers))
    return (
        "–".join(str(number) for number in dict.fromkeys((found[0], found[-1]))) if found else "–"
    )
