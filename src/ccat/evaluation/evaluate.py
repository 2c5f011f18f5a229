"""From outcomes to an evaluation at a threshold. Nothing is attacked and no file is read here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ccat.evaluation import metrics, rates
from ccat.evaluation.at_coverage import chosen, selective
from ccat.evaluation.availability import availability, stratified
from ccat.evaluation.certified import between
from ccat.evaluation.confusion import attacked_answers, by_class, class_rates
from ccat.evaluation.corruption import under_corruption
from ccat.evaluation.doubts import doubts
from ccat.evaluation.groups import (
    asked,
    broken,
    counted,
    families,
    headline,
    pooled_outcome,
    rested_at,
    singles,
    without_gradient,
)
from ccat.evaluation.intervals import Estimate, bootstrap, exact_interval
from ccat.evaluation.once import once
from ccat.evaluation.outcome import Floats, threshold
from ccat.evaluation.rates import COVERAGE, ERROR, Levels, Rate, rates_of
from ccat.evaluation.resampling import REPLICATES, resampled_thresholds, resamples
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

    def estimates(self, rates: Mapping[Rate, Levels]) -> dict[str, Estimate]:
        """Return the rates of some images at τ, each with the interval that it asks for."""
        varied = [rate for rate in rates if rate.interval == "bootstrap"]
        found = dict(zip(varied, self.bootstrap([rates[rate] for rate in varied]), strict=True))
        return {
            rate.name: found[rate] if rate in found else exact_interval(levels, self.tau)
            for rate, levels in rates.items()
        }

    def bootstrap(self, many: Sequence[Levels]) -> list[Estimate]:
        """Return rates at τ with intervals over images and τ; those of as many images together."""
        found: dict[int, Estimate] = {}
        for size in {len(levels.part) for levels in many}:
            places = [n for n, levels in enumerate(many) if len(levels.part) == size]
            counts = resamples(size, self.seed)
            together = bootstrap([many[n] for n in places], self.tau, counts, self.taus)
            found |= dict(zip(places, together, strict=True))
        return [found[n] for n in range(len(many))]


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
    clean, (worst, unseen) = run.clean_answers.outcome, _over_threats(run, at)
    return Evaluation(
        run=run.run,
        method=run.method,
        dataset=run.dataset,
        weights=run.weights,
        tpr_asked=tpr if tau is None else None,
        tau=at.tau,
        images=len(clean),
        calibration=len(run.calibration),
        rates=at.estimates({rate: rate(clean) for rate in rates.CLEAN_RATES}),
        without_rejection={rate.name: rate(clean).at(-math.inf) for rate in rates.CLEAN_RATES},
        selective=_clean_selective(run, seed),
        confusion=by_class(run, run.clean_answers, at.tau),
        classes=class_rates(run, at.tau, at.taus, resamples(len(clean), seed)),
        attacks=tuple(_under_attack(run, group, at) for group in run.groups),
        worst=worst,
        unseen=unseen,
        corruptions=under_corruption(run, at.tau),
        certificates=tuple(_certified(run, condition, at) for condition in run.certified),
        notes=run.notes,
        availability=availability(run, at.tau, at.taus, seed),
        stratified=stratified(run, at.tau, at.taus, seed),
    )


def _under_attack(run: RunOutcomes, group: Group, at: _Threshold) -> UnderAttack:
    parts, added = _families(run, group, at.tau)
    ranked = sorted(singles(group), key=lambda one: -int(broken(run, one, at.tau).sum()))
    strongest = [(_single(run, one), one) for one in ranked[:STRONGEST]]
    pooled, *others = _pooled([("worst case", group), *parts, *strongest], run, at)
    families = zip(others, added, strict=False)  # the strongest follow
    return UnderAttack(
        condition=group.condition,
        seen=group.seen,
        unfinished=group.unfinished,
        no_gradient=without_gradient(run, group),
        doubts=doubts(run, group, at.tau, pooled.headline.value),
        planted=run.planted.get(group.condition),
        pooled=pooled,
        families=tuple(replace(one, added=share) for one, share in families),
        strongest=tuple(others[len(parts) :]),
        selective=_selective(run, group, at.seed),
        confusion=()
        if group.condition.on_noise
        else by_class(run, attacked_answers(run, group)[0], at.tau),
    )


@once
def _clean_selective(run: RunOutcomes, seed: int) -> Selective:
    """Return the error on clean images over their coverage."""
    clean, equal = run.clean_answers.outcome, chosen(run.calibration, seed)
    return selective(ERROR(clean), COVERAGE(clean), equal, resamples(len(clean), seed))


@once
def _selective(run: RunOutcomes, group: Group, seed: int) -> Selective:
    """Return the headline over the coverage of the clean versions of the attacked images."""
    rows = counted(run, group)
    clean, _ = pooled_outcome(run, group)
    return selective(
        headline(run, group).among(rows),
        COVERAGE(clean).among(rows),
        chosen(run.calibration, seed),
        resamples(len(rows), seed),
        lambda tau: rested_at(run, group, tau) is not None,
        areas=not group.condition.on_noise,
    )


def _families(
    run: RunOutcomes, group: Group, tau: float
) -> tuple[list[tuple[str, Group]], list[float]]:
    """Return each kind of attack, in the order in which they were made, and what it added."""
    found, before = [], np.zeros(len(asked(run, group)), dtype=np.bool_)
    parts = list(families(run, group).items())
    for _, part in parts:
        errors = broken(run, part, tau)[: len(before)]
        found.append(float((errors & ~before).mean()))
        before |= errors
    return parts, found


def _single(run: RunOutcomes, group: Group) -> str:
    """Return the title of the only attempt, with its condition where that is not the group's."""
    attempt = run.attempts[group.members[0]]
    own = attempt.condition == group.condition
    return attempt.title if own else f"{attempt.title}, {attempt.condition.title}"


def _pooled(parts: Sequence[tuple[str, Group]], run: RunOutcomes, at: _Threshold) -> list[Pooled]:
    """Return the worst case of each of several named groups, at τ."""
    each = [_levels(run, group) for _, group in parts]
    found = iter(at.bootstrap([levels for one in each for levels in one.values()]))
    return [
        replace(
            _costed(name, run, group, at.tau),
            rates={rate.name: next(found) for rate in levels},
            without_rejection=next(iter(levels.values())).at(-math.inf),
        )
        for (name, group), levels in zip(parts, each, strict=True)
    ]


def _levels(run: RunOutcomes, group: Group) -> dict[Rate, Levels]:
    """Return the levels of a group's rates among the images that it attacked or are certified."""
    outcomes, rows = pooled_outcome(run, group), counted(run, group)
    return {rate: rate(*outcomes).among(rows) for rate in rates_of(group.condition)}


def _costed(name: str, run: RunOutcomes, group: Group, tau: float) -> Pooled:
    """Return what a group was asked, what it found and what it cost, still without its rates."""
    errors, rows = float(broken(run, group, tau).mean()), asked(run, group)
    attempts = [run.attempts[member] for member in group.members]
    shares = [1 / attempt.examples for attempt in attempts]
    forwards, backwards, seconds = (
        sum(getattr(one, cost) * share for one, share in zip(attempts, shares, strict=True))
        for cost in ("forwards", "backwards", "seconds")
    )
    return Pooled(
        name=name,
        attempts=len(attempts),
        examples=len(rows),
        asked=float(rows.mean()),
        found=errors,
        added=errors,
        rates={},
        without_rejection=math.nan,
        auc=_auc(run, group),
        forwards=forwards,
        backwards=backwards,
        seconds=seconds,
    )


@once
def _auc(run: RunOutcomes, group: Group) -> float:
    return metrics.auc(*pooled_outcome(run, group)) if group.condition.on_errors else math.nan


def _certified(run: RunOutcomes, condition: "Condition", at: _Threshold) -> Certified:
    found = between(run, condition)
    both = [found.upper] if found.lower is None else [found.upper, found.lower]
    upper, *lower = at.bootstrap(both)
    return Certified(
        condition=condition,
        examples=found.images,
        certified=1 - float((found.upper.part >= at.tau).mean()),
        upper=upper,
        lower=lower[0] if lower else None,
        without_rejection=found.upper.at(-math.inf),
    )


def _over_threats(run: RunOutcomes, at: _Threshold) -> tuple[Pooled | None, dict[str, Pooled]]:
    """Return the worst case over all threats on test images, and over those not seen.

    The latter over everything not seen, then without each condition of several. There is none
    without attempts, or without one judge.
    """
    every = [group for group in run.groups if group.condition.on_errors] * run.shared_judge
    unseen = [group for group in every if not group.seen]
    parts = {ALL: unseen} if unseen else {}
    if len(unseen) > 1:
        parts |= {
            left_out.condition.title: [group for group in unseen if group is not left_out]
            for left_out in unseen
        }
    named = [(name, _together(groups)) for name, groups in parts.items()]
    if not every:
        return None, {}
    worst, *others = _pooled([("worst case", _together(every)), *named], run, at)
    return worst, {one.name: one for one in others}


def _together(groups: Sequence[Group]) -> Group:
    """Return one group of the attempts of several."""
    members = {member for group in groups for member in group.members}
    return replace(groups[0], members=tuple(sorted(members)))
