"""A threshold with a promise: P(wrong | accepted) ≤ risk, with a confidence.

Learn then Test (Angelopoulos et al. 2021): a grid of τ is fixed before labels are seen and tested
from the highest τ down. At each τ the hypothesis is that the risk r(τ) = P(wrong | score ≥ τ) is
larger than the one to promise, α. Given that M images are accepted at τ, the number K of errors
among them is Binomial(M, r(τ)), so P(Binomial(M, α) ≤ K) is an exact p-value. Testing stops at the
first p-value above δ = 1 − confidence; the last τ before it is the answer. A promise is broken only
if the first bad τ of the sequence passes: its probability is δ at most, however many τ there are.

What the scores of the calibration images may choose. Not the τ of the grid: an image whose score is
τ is accepted for sure, and no longer a draw like the others. So the default grid is a lattice in
log-odds, the same for all data. But testing may begin at the highest τ that accepts at least m
images. This is valid if the risk does not fall from a bad τ to a lower bad τ (docs/PROMISE.md has
the proof). Where that may not be so, pass a grid whose highest τ is known to accept enough.

Shapes: wrong, score (N,); grid, accepted, errors (T,), from the highest τ to the lowest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccat.checks import require_number
from ccat.evaluation.intervals import Estimate, clopper_pearson
from ccat.evaluation.outcome import Floats, Integers, Outcome

_STEPS = 16  # points of the lattice for each unit of log-odds
_LOG_ODDS = (-12, 40)  # a confidence of 6e-6, and one that is 1 in floating point
_ERRORS = 10  # that are forgiven where testing begins, if there are enough images


@dataclass(frozen=True)
class Promise:
    """A threshold, and the risk that is promised for what it accepts.

    Attributes:
        tau: The threshold; an image is accepted if its score reaches it.
        risk: P(wrong | accepted) is at most this,
        confidence: with at least this probability over the draw of the calibration images.
        images: How many calibration images there are.
        accepted: How many of them are accepted at τ.
        errors: How many of the accepted ones are wrong.
        p_value: Of the hypothesis that the risk at τ is larger than promised.
        coverage: accepted / images, with its exact 95 % interval at this τ.
    """

    tau: float
    risk: float
    confidence: float
    images: int
    accepted: int
    errors: int
    p_value: float
    coverage: Estimate

    @property
    def sentence(self) -> str:
        """What is promised, and for which images."""
        low, high = (f"{100 * end:.1f}" for end in self.coverage[1:])
        return (
            f"at tau = {self.tau:.10g} at most {_percent(self.risk)} of what is accepted is wrong, "
            f"with {_percent(self.confidence)} confidence: of {self.images} calibration images "
            f"{self.accepted} are accepted ({100 * self.coverage.value:.1f} %, 95 % interval "
            f"{low} to {high} %) and {self.errors} of these are wrong. The promise is for images "
            "like these, not for attacked ones"
        )


@dataclass(frozen=True)
class NoPromise:
    """Why a risk cannot be promised, and which one can.

    Attributes:
        risk: The risk that was asked for,
        confidence: and the confidence.
        images: How many calibration images there are.
        needed: How many must be accepted at least, without an error among them.
        tau: Where testing began; if no τ accepts enough images, the lowest τ.
        accepted: How many images are accepted at this τ.
        errors: How many of the accepted ones are wrong.
        possible: The smallest risk that can be promised at this τ with the same confidence; 1 if
            none can. It is a promise like the one asked for: giving it when that fails, in place of
            nothing, leaves the probability of a broken promise at 1 − confidence.
    """

    risk: float
    confidence: float
    images: int
    needed: int
    tau: float
    accepted: int
    errors: int
    possible: float

    @property
    def sentence(self) -> str:
        """Why not, what would be needed, and what can be promised instead."""
        asked = f"{_percent(self.risk)} risk at {_percent(self.confidence)} confidence"
        if self.images < self.needed:
            why = (
                f"{asked} needs at least {self.needed} accepted images without an error, and there "
                f"are {self.images} calibration images: add {self.needed - self.images} or more"
            )
        elif self.accepted < self.needed:
            why = (
                f"{asked} needs at least {self.needed} accepted images without an error, and the "
                f"lowest tau of the grid, {self.tau:.10g}, accepts {self.accepted} of "
                f"{self.images}: pass a grid with lower ones"
            )
        else:
            why = (
                f"{asked} cannot be promised: of the {self.accepted} images accepted at "
                f"tau = {self.tau:.10g}, where testing begins, {self.errors} are wrong"
            )
        if self.possible == 1:
            return f"{why}. At that tau no risk below 100 % can be promised"
        return (
            f"{why}. What can be promised with {_percent(self.confidence)} confidence is a risk of "
            f"{math.ceil(1e4 * self.possible) / 100:.2f} % at tau = {self.tau:.10g}, which accepts "
            f"{self.accepted} images, {self.errors} of them wrong"
        )


def promise(
    calibration: Outcome, risk: float, confidence: float, grid: Sequence[float] | None = None
) -> Promise | NoPromise:
    """Return the lowest τ, and with it the largest coverage, at which a risk can be promised.

    Args:
        calibration: The outcome of clean images that neither trained nor selected the classifier.
        risk: The largest P(wrong | accepted) that is allowed, strictly between 0 and 1.
        confidence: The probability with which the promise holds, strictly between 0 and 1.
        grid: The τ to test, in any order, chosen without looking at the calibration images. By
            default those of `lattice`, for scores in [0, 1].

    Raises:
        ValueError: If a number is out of range, or scores outside [0, 1] come without a grid.
    """
    least = needed(risk, confidence)
    if grid is None:
        tested = lattice(calibration.score, risk, confidence)
    else:
        tested = np.unique(np.asarray(grid, dtype=np.float64))[::-1]
        if len(tested) == 0 or np.isnan(tested).any():
            raise ValueError("the grid of tau must hold at least one number, and no NaN")
    accepted, errors = _counts(calibration, tested)
    delta = 1 - confidence
    enough = np.flatnonzero(accepted >= least)
    first = int(enough[0]) if len(enough) else len(tested) - 1
    p_values = p_value(errors, accepted, risk)
    failed = np.flatnonzero(p_values[first:] > delta)
    last = first + int(failed[0]) - 1 if len(failed) else len(tested) - 1
    if last < first:
        tau, m, k = float(tested[first]), int(accepted[first]), int(errors[first])
        possible = _smallest_risk(k, m, delta)
        return NoPromise(risk, confidence, len(calibration), least, tau, m, k, possible)
    tau, m, k = float(tested[last]), int(accepted[last]), int(errors[last])
    coverage = clopper_pearson(m, len(calibration))
    p = float(p_values[last])
    return Promise(tau, risk, confidence, len(calibration), m, k, p, coverage)


def lattice(score: Floats, risk: float, confidence: float) -> Floats:
    """Return the default grid for confidences, from the highest τ to the lowest, which is 0.

    Its points are equally spaced in log-odds, whatever the scores are. It begins at the highest
    point that accepts a quarter of the images, or as many as forgive ten errors if these are fewer,
    and never fewer than are `needed`. Beginning with the fewest that could do would mean to stop at
    the first error among them, and to promise nothing, for most classifiers that keep the risk.

    Args:
        score: The confidences of the calibration images, in [0, 1]; their labels have no part.
        risk: The risk to promise.
        confidence: The confidence of the promise.
    """
    if score.min() < 0 or score.max() > 1:
        raise ValueError(
            f"scores from {score.min():g} to {score.max():g} are no confidences in [0, 1]: "
            "pass a grid of thresholds, chosen without looking at the calibration images"
        )
    low, high = _LOG_ODDS
    log_odds = np.arange(low * _STEPS, high * _STEPS + 1) / _STEPS
    points = np.append(np.unique(1 / (1 + np.exp(-log_odds)))[::-1], 0.0)
    forgiving = min(needed(risk, confidence, _ERRORS), len(score) // 4)
    begin = max(needed(risk, confidence), forgiving)
    accepted = len(score) - np.searchsorted(np.sort(score), points, side="left")
    return points[min(int((accepted < begin).sum()), len(points) - 1) :]


def needed(risk: float, confidence: float, errors: int = 0) -> int:
    """Return how many images must be accepted to promise a risk with so many errors among them.

    299 without an error promise 1 % with 95 % confidence, because 0.99²⁹⁹ ≤ 0.05.
    """
    require_number("the risk to promise", risk, 0, 1)
    require_number("the confidence of a promise", confidence, 0, 1)
    delta = 1 - confidence
    enough = errors + 1
    while _p(errors, enough, risk) > delta:
        enough *= 2
    few = enough // 2  # does not do, or is fewer than the errors and one
    while enough - few > 1:
        middle = (few + enough) // 2
        if middle > errors and _p(errors, middle, risk) <= delta:
            enough = middle
        else:
            few = middle
    return enough


def p_value(errors: Integers, accepted: Integers, risk: float) -> Floats:
    """Return P(Binomial(accepted, risk) ≤ errors), which is 1 where nothing is accepted."""
    # Imported here because it takes a moment, in every command.
    from scipy.special import betainc  # noqa: PLC0415

    right = np.maximum(accepted - errors, 1)  # all wrong: P = 1, whatever stands here
    values = betainc(right, errors + 1, 1 - risk)
    return np.where(accepted > errors, values, 1.0)


def _p(errors: int, accepted: int, risk: float) -> float:
    return float(p_value(np.array(errors), np.array(accepted), risk))


def _smallest_risk(errors: int, accepted: int, delta: float) -> float:
    """Return the upper end of Clopper & Pearson's one-sided interval: its p-value is δ."""
    from scipy.special import betaincinv  # noqa: PLC0415 (as in p_value)

    if errors == accepted:
        return 1.0
    return float(betaincinv(errors + 1, accepted - errors, 1 - delta))


def _counts(calibration: Outcome, grid: Floats) -> tuple[Integers, Integers]:
    """Return how many images each τ accepts, and how many of these are wrong."""
    order = np.argsort(calibration.score)
    below = np.searchsorted(calibration.score[order], grid, side="left")
    wrong = np.append(0, np.cumsum(calibration.wrong[order]))
    return len(order) - below, wrong[-1] - wrong[below]


def _percent(share: float) -> str:
    return f"{100 * share:.10g} %"
