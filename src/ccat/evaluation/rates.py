"""Every metric of a classifier that may reject, each defined once, as a `Rate`.

A rate is a share that depends on the threshold τ. An example is accepted if its score reaches τ, so
it counts in the part, and in the whole that is divided by, up to some level of τ. From these two
levels of each example follow the value at any τ, the curve over τ, and values on resamples. Tables,
JSON, its schema, intervals, figures and the page all read the definitions here: to add a metric,
define a `Rate` and add it to the list below that it belongs to.

Positives are the correctly classified clean images, negatives the successful adversarial examples
of those. τ = −∞ accepts everything.

Shapes: part, whole, wrong, score (N,).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.outcome import Floats, Outcome, require_same_examples

if TYPE_CHECKING:
    from ccat.threats import Condition

Tau = TypeVar("Tau", float, Floats)


@dataclass(frozen=True, eq=False)
class Levels:
    """Up to which τ each example counts in the part and in the whole (NaN: never, ∞: always)."""

    part: Floats
    whole: Floats

    def at(self, tau: Tau) -> Tau:
        """Return part / whole at one τ, or at each of an array of them.

        It is 0 where nothing is accepted, and NaN where a whole that does not depend on τ is empty.
        """
        part, whole = _reaching(self.part, tau), _reaching(self.whole, tau)
        share = part / np.where(whole > 0, whole, np.nan if self.fixed else 1)
        return share if isinstance(tau, np.ndarray) else float(share)

    @property
    def fixed(self) -> bool:
        """True if the whole does not depend on τ."""
        return bool(np.isinf(self.whole[~np.isnan(self.whole)]).all())

    def __getitem__(self, rows: slice) -> "Levels":
        return Levels(self.part[rows], self.whole[rows])

    def among(self, rows: NDArray[np.bool_]) -> "Levels":
        """Return the same where only some examples count."""
        return Levels(np.where(rows, self.part, np.nan), np.where(rows, self.whole, np.nan))


@dataclass(frozen=True)
class Rate:
    """The definition of a metric; called with outcomes it gives their `Levels`.

    Attributes:
        name: An identifier, the field in JSON and the key on the page.
        title: The head of its column.
        meaning: What is divided by what.
        levels: The function from outcomes to levels. A rate of clean or corrupted images takes
            their outcome, a rate of attacked ones the clean and the adversarial outcome.
        interval: "bootstrap" over images and τ, or "exact" (Clopper & Pearson) at this very τ.
    """

    name: str
    title: str
    meaning: str
    levels: Callable[..., Levels]
    interval: Literal["bootstrap", "exact"] = "bootstrap"

    def __call__(self, *outcomes: Outcome) -> Levels:
        """Return the levels of these outcomes."""
        return self.levels(*outcomes)

    @property
    def legend(self) -> str:
        """The definition as a line below a table: "Err = wrong / accepted"."""
        return f"{self.title} = {self.meaning}"


def _error(examples: Outcome) -> Levels:
    return Levels(np.where(examples.wrong, examples.score, np.nan), examples.score)


def _coverage(examples: Outcome) -> Levels:
    return Levels(examples.score, np.full(len(examples), np.inf))


def _tpr(clean: Outcome) -> Levels:
    part = np.where(clean.wrong, np.nan, clean.score)
    return Levels(part, np.where(clean.wrong, np.nan, np.inf))


def _fpr_of_wrong(examples: Outcome) -> Levels:
    return Levels(_error(examples).part, np.where(examples.wrong, np.inf, np.nan))


def _robust_error(clean: Outcome, adversarial: Outcome) -> Levels:
    """Equation "appr-rte" of the supplement."""
    require_same_examples(clean, adversarial)
    wrong = np.fmax(_error(clean).part, _error(adversarial).part)
    return Levels(wrong, np.maximum(clean.score, adversarial.score))


def _fpr(clean: Outcome, adversarial: Outcome) -> Levels:
    found = successful(clean, adversarial)
    return Levels(np.where(found, adversarial.score, np.nan), np.where(found, np.inf, np.nan))


def _fpr_of_correct(clean: Outcome, adversarial: Outcome) -> Levels:
    return Levels(_fpr(clean, adversarial).part, _tpr(clean).whole)


def _fpr_of_all(clean: Outcome, adversarial: Outcome) -> Levels:
    return Levels(_fpr(clean, adversarial).part, _coverage(clean).whole)


def _accepted_noise(clean: Outcome, adversarial: Outcome) -> Levels:
    return _coverage(adversarial)


def _availability(clean: Outcome, lowest: Outcome) -> Levels:
    require_same_examples(clean, lowest)
    return _tpr(Outcome(clean.wrong, np.minimum(clean.score, lowest.score)))


def _wrong(clean: Outcome, adversarial: Outcome) -> Levels:
    return Levels(_robust_error(clean, adversarial).part, _coverage(clean).whole)


def _answered(clean: Outcome, adversarial: Outcome, lowest: Outcome) -> Levels:
    kept = np.minimum(clean.score, lowest.score)
    return Levels(np.fmax(_wrong(clean, adversarial).part, kept), _coverage(clean).whole)


def successful(clean: Outcome, adversarial: Outcome) -> NDArray[np.bool_]:
    """Return which adversarial examples are wrong although the clean example is right."""
    require_same_examples(clean, adversarial)
    return adversarial.wrong & ~clean.wrong


ERROR = Rate("error", "Err", "wrong / accepted", _error)
COVERAGE = Rate("coverage", "coverage", "accepted / all", _coverage)
TPR = Rate("tpr", "TPR", "correct and accepted / correct", _tpr, interval="exact")
ROBUST_ERROR = Rate(
    "robust_error",
    "RErr",
    "wrong and accepted / accepted, each image clean or as attacked",
    _robust_error,
)
FPR_OF_ALL = Rate(
    "fpr_of_all",
    "FPR",
    "successful adversarial examples accepted / all attacked images",
    _fpr_of_all,
)
FPR_OF_CORRECT = Rate(
    "fpr_of_correct",
    "FPR of correct",
    "successful adversarial examples accepted / correctly classified images",
    _fpr_of_correct,
)
FPR = Rate(
    "fpr",
    "FPR of successful",
    "successful adversarial examples accepted / all successful ones",
    _fpr,
)
ACCEPTED_NOISE = Rate(
    "accepted_noise",
    "accepted noise",
    "adversarial noise images accepted / all of them",
    _accepted_noise,
)
AVAILABILITY = Rate(
    "availability",
    "availability",
    "correct images that stay accepted under attack / correct images",
    _availability,
)
WRONG = Rate(
    "wrong",
    "wrong",
    "images that an attacker makes wrong and accepted, or that are so when clean / all",
    _wrong,
)
ANSWERED = Rate(
    "answered",
    "answered",
    "images that are wrong, or that stay accepted when clean and under attack / all",
    _answered,
)
FPR_OF_WRONG = Rate("fpr_of_wrong", "FPR", "wrong and accepted / wrong", _fpr_of_wrong)

# The first of a list is the headline, which tables of several threats show.
CLEAN_RATES: tuple[Rate, ...] = (ERROR, COVERAGE, TPR)
ATTACK_RATES: tuple[Rate, ...] = (ROBUST_ERROR, FPR_OF_ALL, FPR_OF_CORRECT, FPR)
NOISE_RATES: tuple[Rate, ...] = (ACCEPTED_NOISE,)
REJECTION_RATES: tuple[Rate, ...] = (AVAILABILITY,)
CORRUPTION_RATES: tuple[Rate, ...] = (ERROR, COVERAGE, FPR_OF_WRONG)
CLASS_RATES: tuple[Rate, ...] = (ERROR, COVERAGE)


def rates_of(condition: "Condition") -> tuple[Rate, ...]:
    """Return the rates that are computed under a condition, the headline first."""
    if condition.rejects:
        return REJECTION_RATES
    return NOISE_RATES if condition.on_noise else ATTACK_RATES


def _reaching(levels: Floats, tau: float | Floats) -> Floats:
    """Return how many of the levels reach τ, for each τ."""
    if np.isnan(tau).any():
        raise ValueError("the threshold tau must be a number, not NaN")
    if not isinstance(tau, np.ndarray):
        return np.asarray((levels >= tau).sum(), dtype=np.float64)
    levels = np.sort(levels[~np.isnan(levels)])
    return np.asarray(len(levels) - np.searchsorted(levels, tau, side="left"), dtype=np.float64)
