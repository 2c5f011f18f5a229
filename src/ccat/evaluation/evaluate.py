"""From outcomes to an evaluation at a threshold. Nothing is attacked and no file is read here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation import metrics, rates
from ccat.evaluation.availability import availability, stratified
from ccat.evaluation.doubts import doubts
from ccat.evaluation.groups import (
    asked,
    broken,
    families,
    pooled_outcome,
    singles,
    without_gradient,
)
from ccat.evaluation.intervals import (
    REPLICATES,
    Estimate,
    bootstrap,
    exact_interval,
    resampled_thresholds,
    resamples,
)
from ccat.evaluation.outcome import Floats, Outcome, threshold
from ccat.evaluation.rates import FPR_OF_WRONG, Levels, Rate, rates_of
from ccat.evaluation.results import (
    Evaluation,
    Group,
    Pooled,
    RunOutcomes,
    UnderAttack,
    UnderCorruption,
)

MEAN, POOLED = "mean", "pooled"


def under_corruption(run: RunOutcomes, tau: float) -> tuple[UnderCorruption, ...]:
    """Return the rates of each corruption, then for each set those over all of its corruptions.

    These are the mean at every severity where there are several, the mean over everything, and the
    rates of all images pooled as if they were one set.
    """
    clean = run.clean_answers.outcome
    found: list[UnderCorruption] = []
    for name in dict.fromkeys(one.set for one in run.corrupted):
        members = [one for one in run.corrupted if one.set == name]
        single = [
            _rated(name, one.name, one.severity, one.answers.outcome, clean, tau) for one in members
        ]
        severities = sorted({one.severity for one in members})
        means = [
            _mean([one for one in single if one.severity == severity], severity)
            for severity in severities
            if len(severities) > 1
        ]
        pooled = Outcome(
            np.concatenate([one.answers.outcome.wrong for one in members]),
            np.concatenate([one.answers.outcome.score for one in members]),
        )
        found += [*single, *means, _mean(single, None)]
        found.append(_rated(name, POOLED, None, pooled, clean, tau))
    return tuple(found)


def _rated(
    name: str, corruption: str, severity: int | None, outcome: Outcome, clean: Outcome, tau: float
) -> UnderCorruption:
    return UnderCorruption(
        set=name,
        name=corruption,
        severity=severity,
        examples=len(outcome),
        rates={rate.name: rate(outcome).at(tau) for rate in rates.CORRUPTION_RATES},
        without_rejection=rates.CORRUPTION_RATES[0](outcome).at(-math.inf),
        tnr=1 - FPR_OF_WRONG(outcome).at(tau),
        auc=metrics.area(clean.score[~clean.wrong], outcome.score[outcome.wrong]),
    )


def _mean(parts: Sequence[UnderCorruption], severity: int | None) -> UnderCorruption:
    """Return the mean of every number over the corruptions that have it."""
    return UnderCorruption(
        set=parts[0].set,
        name=MEAN,
        severity=severity,
        examples=min(part.examples for part in parts),
        rates={name: _over([part.rates[name] for part in parts]) for name in parts[0].rates},
        without_rejection=_over([part.without_rejection for part in parts]),
        tnr=_over([part.tnr for part in parts]),
        auc=_over([part.auc for part in parts]),
    )


def _over(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


STRONGEST = 5
ALL = "all unseen"

_counts = lru_cache(maxsize=3)(resamples)


@dataclass(frozen=True)
class _Threshold:
    """τ, and τ on resamples of the calibration images; all resamples are drawn with one seed."""

    tau: float
    taus: Floats
    seed: int

    def estimates(
        self,
        rates: Sequence[Rate],
        *outcomes: Outcome,
        among: NDArray[np.bool_] | None = None,
    ) -> dict[str, Estimate]:
        found = {rate: rate(*outcomes) for rate in rates}
        if among is not None:
            found = {rate: levels.among(among) for rate, levels in found.items()}
        return {rate.name: self._estimate(rate, levels) for rate, levels in found.items()}

    def _estimate(self, rate: Rate, levels: Levels) -> Estimate:
        if rate.interval == "exact":
            return exact_interval(levels, self.tau)
        return bootstrap(levels, self.tau, _counts(len(levels.part), self.seed), self.taus)


def evaluate(
    run: RunOutcomes, tpr: float = 0.99, tau: float | None = None, seed: int = 0
) -> Evaluation:
    """Return the rates of a run at a threshold, with 95 % intervals.

    Args:
        run: What is known of the run.
        tpr: The share of correctly classified calibration images that τ accepts.
        tau: The threshold itself instead; −∞ rejects nothing.
        seed: Of the resamples that intervals come from.
    """
    if tau is None:
        chosen = threshold(run.calibration, tpr)
        at = _Threshold(chosen, resampled_thresholds(run.calibration, tpr, seed), seed)
    else:
        at = _Threshold(tau, np.full(REPLICATES, float(tau)), seed)
    clean = run.clean_answers.outcome
    return Evaluation(
        run=run.run,
        method=run.method,
        dataset=run.dataset,
        weights=run.weights,
        tpr_asked=tpr if tau is None else None,
        tau=at.tau,
        images=len(clean),
        calibration=len(run.calibration),
        rates=at.estimates(rates.CLEAN_RATES, clean),
        without_rejection={rate.name: rate(clean).at(-math.inf) for rate in rates.CLEAN_RATES},
        attacks=tuple(_under_attack(run, group, at) for group in run.groups),
        unseen=_unseen(run, at),
        corruptions=under_corruption(run, at.tau),
        notes=run.notes,
        availability=availability(run, at.tau, at.taus, seed),
        stratified=stratified(run, at.tau, at.taus, seed),
    )


def _under_attack(run: RunOutcomes, group: Group, at: _Threshold) -> UnderAttack:
    ranked = sorted(singles(group), key=lambda one: -int(broken(run, one, at.tau).sum()))
    pooled = _pooled("worst case", run, group, at)
    return UnderAttack(
        condition=group.condition,
        seen=group.seen,
        unfinished=group.unfinished,
        no_gradient=without_gradient(run, group),
        doubts=doubts(run, group, at.tau, pooled.headline.value),
        planted=run.planted.get(group.condition),
        pooled=pooled,
        families=_families(run, group, at),
        strongest=tuple(_pooled(_single(run, one), run, one, at) for one in ranked[:STRONGEST]),
    )


def _families(run: RunOutcomes, group: Group, at: _Threshold) -> tuple[Pooled, ...]:
    """Return each kind of attack, in the order in which they were made, and what it added."""
    found, before = [], np.zeros(len(asked(run, group)), dtype=np.bool_)
    for name, part in families(run, group).items():
        errors = broken(run, part, at.tau)[: len(before)]
        added = float((errors & ~before).mean())
        found.append(replace(_pooled(name, run, part, at), added=added))
        before |= errors
    return tuple(found)


def _single(run: RunOutcomes, group: Group) -> str:
    """Return the title of the only attempt, with its condition where that is not the group's."""
    attempt = run.attempts[group.members[0]]
    own = attempt.condition == group.condition
    return attempt.title if own else f"{attempt.title}, {attempt.condition.title}"


def _pooled(name: str, run: RunOutcomes, group: Group, at: _Threshold) -> Pooled:
    clean, adversarial = pooled_outcome(run, group)
    shown, rows = rates_of(group.condition), asked(run, group)
    errors = float(broken(run, group, at.tau).mean())
    of_errors = not (group.condition.on_noise or group.condition.rejects)
    attempts = [run.attempts[member] for member in group.members]
    shares = [1 / attempt.examples for attempt in attempts]
    forwards, backwards, seconds = (
        sum(getattr(one, cost) * share for one, share in zip(attempts, shares, strict=True))
        for cost in ("forwards", "backwards", "seconds")
    )
    return Pooled(
        name=name,
        attempts=len(attempts),
        examples=len(clean),
        asked=float(rows.mean()),
        found=errors,
        added=errors,
        rates=at.estimates(shown, clean, adversarial, among=rows),
        without_rejection=shown[0](clean, adversarial).among(rows).at(-math.inf),
        auc=metrics.auc(clean, adversarial) if of_errors else math.nan,
        forwards=forwards,
        backwards=backwards,
        seconds=seconds,
    )


def _unseen(run: RunOutcomes, at: _Threshold) -> dict[str, Pooled]:
    """Return the worst case over everything not seen, then without each condition of several."""
    if not run.shared_judge:
        return {}
    groups = [
        group
        for group in run.groups
        if not (group.condition.on_noise or group.condition.rejects or group.seen)
    ]
    found = {}
    for left_out in [None, *(groups if len(groups) > 1 else ())]:
        members = {n for group in groups if group is not left_out for n in group.members}
        if members:
            name = left_out.condition.title if left_out else ALL
            every = replace(groups[0], members=tuple(sorted(members)))
            found[name] = _pooled(name, run, every, at)
    return found
