"""Self-checks: reasons to doubt a number that attacks found, one sentence each.

An attack gives a lower bound of an error. These checks look at how it came about, after Pintor et
al. 2022 (indicators of failure), Zimmermann et al. 2022 (planted errors) and Tramèr 2022.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ccat.evaluation.groups import broken, rested_at, singles, without_gradient
from ccat.evaluation.run_outcomes import Group, RunOutcomes

if TYPE_CHECKING:
    from ccat.threats import Condition

_BLIND = 0.5  # the share of images without a gradient from which on a number is in doubt
_FOUND = 0.9  # of the planted errors
_RISING = 0.25  # the share of images at which every attack was still rising when it ended
_PAYING = 0.01  # the share of images that the last attack, or attacks without gradients, may add
_REJECTED = 5  # calibration images below τ

# The lowest robust errors that were published for a data set, without rejection.
_KNOWN = {
    ("mnist", "Linf", 0.3): (0.0366, "Gowal et al. 2020"),
    ("cifar10", "Linf", 8 / 255): (0.2629, "Bartoldson et al. 2024"),
    ("cifar10", "L2", 0.5): (0.1503, "Wang et al. 2023"),
}


@dataclass(frozen=True)
class Doubt:
    """A reason to doubt a number.

    Attributes:
        check: Which check found it.
        text: The reason, in a sentence.
        link: Where it is explained.
    """

    check: str
    text: str
    link: str


def doubts(run: RunOutcomes, group: Group, tau: float, error: float) -> tuple[Doubt, ...]:
    """Return all reasons to doubt the error that attacks found under one condition.

    Args:
        run: What is known of the run.
        group: The attempts under the condition.
        tau: The threshold.
        error: The error at this threshold.
    """
    found = {
        "dead-gradients": _blind(run, group),
        "planted-errors": _missed(run, group.condition),
        "black-box": _black_box(run, group, tau),
        "still-rising": _still_rising(run, group),
        "still-paying": _still_paying(run, group, tau),
        "rest": _rested(run, group, tau),
        "calibration": _few(run, tau),
        "probabilities": _probabilities(run),
        "half": _beyond_half(run, group, error),
    }
    return tuple(
        Doubt(check, text, f"docs/DOUBTS.md#{check}") for check, text in found.items() if text
    )


def _blind(run: RunOutcomes, group: Group) -> str:
    share = without_gradient(run, group)
    if share <= _BLIND:
        return ""
    return (
        f"at {100 * share:.0f} % of the images the gradient was exactly zero wherever an attack "
        f"asked for it: there was nothing to climb"
    )


def _missed(run: RunOutcomes, condition: "Condition") -> str:
    one = run.planted.get(condition)
    if one is None or (one.planted and one.found >= _FOUND * one.planted):
        return ""
    if not one.planted:
        return (
            "no error could be planted, because the model's features are the same all over the "
            "ball: nothing shows that the attacks would find one"
        )
    return f"the attacks found only {one.found} of {one.planted} planted errors"


def _black_box(run: RunOutcomes, group: Group, tau: float) -> str:
    """Black-box attempts find what those with gradients were asked for as well, and missed."""
    blind = [one for one in singles(group) if not run.attempts[one.members[0]].backwards]
    seeing = [one for one in singles(group) if run.attempts[one.members[0]].backwards]
    if not blind or not seeing:
        return ""
    errors = [[broken(run, one, tau) for one in some] for some in (blind, seeing)]
    count = min(len(one) for some in errors for one in some)
    first, second = (np.any([one[:count] for one in some], axis=0) for some in errors)
    added = int((first & ~second).sum())
    if added < max(2, _PAYING * count):
        return ""
    what = "rejections" if group.condition.rejects else "errors"
    return f"attacks without gradients found {added} {what} that those with gradients missed"


def _still_rising(run: RunOutcomes, group: Group) -> str:
    shares = [
        one.rising / one.counted.sum()
        for one in (run.attempts[member] for member in group.members)
        if one.asked.any()
    ]
    share = min(shares, default=0.0)
    if share <= _RISING:
        return ""
    return (
        f"at {100 * share:.0f} % of the images every attack was still rising when it ended: more "
        f"iterations would find more"
    )


def _still_paying(run: RunOutcomes, group: Group, tau: float) -> str:
    own = [m for m in group.members if run.attempts[m].condition == group.condition]
    if len(own) < 2:
        return ""
    last = max(own, key=lambda member: run.attempts[member].position)
    if run.attempts[last].position == 0:
        return ""
    each = {one.members[0]: broken(run, one, tau) for one in singles(group)}
    count = min(map(len, each.values()))
    before = np.any([found[:count] for member, found in each.items() if member != last], axis=0)
    added = int((each[last][:count] & ~before).sum())
    if added < max(2, _PAYING * count):
        return ""
    return (
        f"the last attack, {run.attempts[last].title}, still found {added} errors that no other "
        f"had: more attacks would find more"
    )


def _rested(run: RunOutcomes, group: Group, tau: float) -> str:
    rest = rested_at(run, group, tau)
    if rest is None:
        return ""
    return (
        f"attacks on an image ended once it was accepted at the τ of {100 * rest:g} % TPR, "
        f"which lies below this τ: the number is a lower bound"
    )


def _few(run: RunOutcomes, tau: float) -> str:
    positives = run.calibration.score[~run.calibration.wrong]
    below = int((positives < tau).sum())
    if not math.isfinite(tau) or below >= _REJECTED:
        return ""
    return (
        f"τ lies above only {below} of {len(positives)} correctly classified calibration images: "
        f"other images would choose another τ"
    )


def _probabilities(run: RunOutcomes) -> str:
    """Probabilities taken for logits can give a confidence of at most e/(e+K−1)."""
    clean = run.clean_answers.outcome
    classes = int(max(run.labels.max(), run.clean_answers.predicted.max())) + 1
    most = math.e / (math.e + classes - 1)
    if run.judge != "confidence" or clean.score.max() > most + 1e-6 or clean.wrong.mean() > 0.5:
        return ""
    return (
        f"no confidence exceeds {most:.3f}, as if the model returned probabilities instead of "
        f"logits"
    )


def _beyond_half(run: RunOutcomes, group: Group, error: float) -> str:
    """Rejection that is robust at ε gives a robust classifier at ε/2, at a large cost."""
    condition = group.condition
    if condition.on_noise or condition.rejects or math.isnan(error):
        return ""
    kind, epsilon = type(condition.threat).__name__, condition.size
    for (dataset, of, known_at), (known, who) in _KNOWN.items():
        if run.dataset == dataset and kind == of and epsilon / 2 >= known_at and error < known:
            return (
                f"it would imply a classifier with this error at half of ε, where the best that "
                f"was published is {100 * known:.1f} % ({who})"
            )
    return ""
