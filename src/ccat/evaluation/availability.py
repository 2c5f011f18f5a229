"""What is left of a classifier if one attacker wants errors and another wants rejection.

At a threshold every attacked image is one of three. It is *wrong* if it is an accepted error when
clean, or if attacks on errors make it one. Otherwise it is *rejected* if it is so when clean, or if
attacks on rejection get it rejected. All others are *correct*: whatever was tried, the answer is
right and accepted.

The stratified curve (Chen et al. 2023, arXiv 2305.01139, with a step as rejection loss) excuses the
rejection of images that are far from clean: total(α) is the share of images that are wrong within
ε, or rejected within αε.

Shapes: part, wrong, score (N,); counts (B, N); taus (B,).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.groups import pooled_outcome
from ccat.evaluation.intervals import LEVEL, Estimate, bootstrap, clopper_pearson
from ccat.evaluation.outcome import Floats, Outcome
from ccat.evaluation.parts import Availability, Stratified
from ccat.evaluation.rates import ANSWERED, AVAILABILITY, WRONG, Levels
from ccat.evaluation.resampling import resampled, resamples
from ccat.evaluation.run_outcomes import Group, RunOutcomes

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
_ROUNDING = 1e-6  # relative, of αε


class _Draws(NamedTuple):
    """τ, and the resamples that intervals come from: how often each holds an image, and its τ."""

    tau: float
    counts: NDArray[np.int16]
    taus: Floats


def availability(run: RunOutcomes, tau: float, taus: Floats, seed: int) -> tuple[Availability, ...]:
    """Return what becomes of images, for each threat that was attacked with both goals.

    Args:
        run: What is known of the run.
        tau: The threshold.
        taus: The thresholds of the resamples that intervals come from.
        seed: Of these resamples.
    """
    found = []
    for errors, within in _attacked(run):
        if 1.0 not in within:
            continue
        clean, adversarial, (lowest,) = _common(run, errors, [within[1.0]])
        draws = _Draws(tau, resamples(len(clean), seed), taus)
        answered, wrong = ANSWERED(clean, adversarial, lowest), WRONG(clean, adversarial)
        stays, found_wrong, answers = bootstrap(
            [AVAILABILITY(clean, lowest), wrong, answered], *draws
        )
        found.append(
            Availability(
                condition=errors.condition,
                examples=len(clean),
                availability=stays,
                correct=_difference(answered, wrong, draws),
                wrong=found_wrong,
                rejected=_rest(answers),
            )
        )
    return tuple(found)


def stratified(run: RunOutcomes, tau: float, taus: Floats, seed: int) -> tuple[Stratified, ...]:
    """Return total(α) for each threat, at every α whose αε was attacked for rejection as well.

    The arguments are those of `availability`. At α = 0 only what is rejected when clean counts.
    """
    found = []
    for errors, within in _attacked(run):
        clean, adversarial, lowest = _common(run, errors, list(within.values()))
        draws = _Draws(tau, resamples(len(clean), seed), taus)
        wrong, total = WRONG(clean, adversarial), {}
        for alpha, reached in zip((0.0, *within), (clean, *lowest), strict=True):
            answered = ANSWERED(clean, adversarial, reached)
            total[f"{alpha:g}"] = _rest(_difference(answered, wrong, draws))
        found.append(Stratified(errors.condition, len(clean), total))
    return tuple(found)


def _attacked(run: RunOutcomes) -> Iterator[tuple[Group, Mapping[float, Group]]]:
    """Yield attacks on errors within ε, with those on rejection within αε, by α in order.

    Only where there are some, for α in `ALPHAS`, judged in the same way.
    """
    for errors in run.groups:
        if not errors.condition.on_errors:
            continue
        within = {}
        for alpha in ALPHAS[1:]:
            for group in run.groups:
                same = replace(group.condition, goal="error") if group.condition.rejects else None
                size = alpha * errors.condition.size
                if (
                    same is not None
                    and group.judge == errors.judge
                    and errors.condition.includes(same)
                    and math.isclose(same.size, size, rel_tol=_ROUNDING)
                ):
                    within[alpha] = group
        if within:
            yield errors, within


def _common(
    run: RunOutcomes, errors: Group, rejections: list[Group]
) -> tuple[Outcome, Outcome, list[Outcome]]:
    """Return clean, worst and lowest outcomes of the images that all of these attacked."""
    pairs = [pooled_outcome(run, group) for group in (errors, *rejections)]
    rows = slice(min(len(clean) for clean, _ in pairs))
    clean, adversarial = pairs[0]
    return clean[rows], adversarial[rows], [lowest[rows] for _, lowest in pairs[1:]]


def _difference(more: Levels, fewer: Levels, draws: _Draws) -> Estimate:
    """Return the share of images that count in one and not in the other, which is a part of it."""
    tau, counts, taus = draws
    count = int((more.part >= tau).sum() - (fewer.part >= tau).sum())
    least = clopper_pearson(count, len(more.part))
    many, few = resampled([more, fewer], counts, taus)
    low, high = np.quantile(many - few, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(least.value, min(float(low), least.low), max(float(high), least.high))


def _rest(share: Estimate) -> Estimate:
    """Return what is left of a whole."""
    return Estimate(1 - share.value, 1 - share.high, 1 - share.low)
