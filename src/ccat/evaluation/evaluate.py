"""From outcomes to an evaluation at a threshold. Nothing is attacked and no file is read here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation import metrics, rates
from ccat.evaluation.at_coverage import Chosen, chosen, selective
from ccat.evaluation.availability import availability, stratified
from ccat.evaluation.certified import between
from ccat.evaluation.confusion import attacked_answers, by_class, class_rates
from ccat.evaluation.corruption import under_corruption
from ccat.evaluation.doubts import doubts
from ccat.evaluation.groups import (
    asked,
    broken,
    families,
    headline,
    pooled_outcome,
    rested_at,
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
from ccat.evaluation.rates import COVERAGE, ERROR, Levels, Rate, rates_of
from ccat.evaluation.results import (
    Certified,
    Evaluation,
    Group,
    Pooled,
    RunOutcomes,
    Selective,
    UnderAttack,
)

if TYPE_CHECKING:
    from ccat.threats import Condition

STRONGEST = 5
ALL = "all unseen"


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
        return {
            rate.name: exact_interval(levels, self.tau)
            if rate.interval == "exact"
            else self.estimate(levels)
            for rate, levels in found.items()
        }

    def estimate(self, levels: Levels) -> Estimate:
        """Return a rate at τ with its interval over images and τ."""
        return bootstrap(levels, self.tau, resamples(len(levels.part), self.seed), self.taus)


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
        chosen_tau = threshold(run.calibration, tpr)  # refuses a TPR that is none
        (taus,) = resampled_thresholds(run.calibration, [tpr], seed)
        at = _Threshold(chosen_tau, taus, seed)
    else:
        at = _Threshold(tau, np.full(REPLICATES, float(tau)), seed)
    clean, equal = run.clean_answers.outcome, chosen(run.calibration, seed)
    counts = resamples(len(clean), seed)
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
        selective=selective(ERROR(clean), COVERAGE(clean), equal, counts),
        confusion=by_class(run, run.clean_answers, at.tau),
        classes=class_rates(run, at.tau, at.taus, counts),
        attacks=tuple(_under_attack(run, group, at, equal) for group in run.groups),
        worst=_worst(run, at),
        unseen=_unseen(run, at),
        corruptions=under_corruption(run, at.tau),
        certificates=tuple(_certified(run, condition, at) for condition in run.certified),
        notes=run.notes,
        availability=availability(run, at.tau, at.taus, seed),
        stratified=stratified(run, at.tau, at.taus, seed),
    )


def _under_attack(
    run: RunOutcomes, group: Group, at: _Threshold, equal: Sequence[Chosen]
) -> UnderAttack:
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
        selective=_selective(run, group, equal, at.seed),
        confusion=()
        if group.condition.on_noise
        else by_class(run, attacked_answers(run, group), at.tau),
    )


def _selective(run: RunOutcomes, group: Group, equal: Sequence[Chosen], seed: int) -> Selective:
    """Return the headline over the coverage of the clean versions of the attacked images."""
    rows = asked(run, group)
    clean, _ = pooled_outcome(run, group)
    return selective(
        headline(run, group).among(rows),
        COVERAGE(clean).among(rows),
        equal,
        resamples(len(rows), seed),
        lambda tau: rested_at(run, group, tau) is not None,
        areas=not group.condition.on_noise,
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
    of_errors = group.condition.on_errors
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


def _certified(run: RunOutcomes, condition: "Condition", at: _Threshold) -> Certified:
    found = between(run, condition)
    return Certified(
        condition=condition,
        examples=found.images,
        certified=1 - float((found.upper.part >= at.tau).mean()),
        upper=at.estimate(found.upper),
        lower=None if found.lower is None else at.estimate(found.lower),
        without_rejection=found.upper.at(-math.inf),
    )


def _unseen(run: RunOutcomes, at: _Threshold) -> dict[str, Pooled]:
    """Return the worst case over everything not seen, then without each condition of several."""
    groups = [group for group in run.groups if group.condition.on_errors and not group.seen]
    found = {}
    for left_out in [None, *(groups if len(groups) > 1 else ())]:
        name = left_out.condition.title if left_out else ALL
        pooled = _together(name, run, [one for one in groups if one is not left_out], at)
        if pooled is not None:
            found[name] = pooled
    return found


def _worst(run: RunOutcomes, at: _Threshold) -> Pooled | None:
    """Return the worst case over all threats on test images, seen or not."""
    groups = [group for group in run.groups if group.condition.on_errors]
    return _together("worst case", run, groups, at)


def _together(name: str, run: RunOutcomes, groups: list[Group], at: _Threshold) -> Pooled | None:
    """Return the worst case over several conditions; None without any, or without one judge."""
    members = {member for group in groups for member in group.members}
    if not run.shared_judge or not members:
        return None
    return _pooled(name, run, replace(groups[0], members=tuple(sorted(members))), at)
