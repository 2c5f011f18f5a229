"""From what was measured to an evaluation at a threshold. Nothing is attacked and no file is read here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ccat import metrics
from ccat.intervals import REPLICATES, Estimate, bootstrap, clopper_pearson, resampled_thresholds, resamples
from ccat.metrics import Floats, Outcome, Rate
from ccat.results import Answers, Attacked, Evaluation, Group, Integers, Measured, Pooled, UnderAttack, UnderCorruption

STRONGEST = 5
ALL = "all unseen"
MEAN, POOLED = "mean", "pooled"
_NOTHING = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class _Threshold:
    """τ, and τ on resamples of the held-out images; all resamples are drawn with one seed."""

    tau: float
    taus: Floats
    seed: int

    def estimate(self, rate: Rate) -> Estimate:
        return bootstrap(rate, self.tau, _counts(len(rate.part), self.seed), self.taus)


_counts = lru_cache(maxsize=3)(resamples)


def evaluate(measured: Measured, tpr: float = 0.99, tau: float | None = None, seed: int = 0) -> Evaluation:
    """At the τ that accepts a share `tpr` of the correctly classified held-out images, or at a given one."""
    if tau is None:
        at = _Threshold(metrics.threshold(measured.held_out, tpr), resampled_thresholds(measured.held_out, tpr, seed), seed)
    else:
        at = _Threshold(tau, np.full(REPLICATES, float(tau)), seed)
    clean = measured.clean.outcome
    correct = clean.score[~clean.wrong]
    return Evaluation(
        run=measured.run,
        method=measured.method,
        dataset=measured.dataset,
        weights=measured.weights,
        tpr_asked=tpr if tau is None else None,
        tau=at.tau,
        images=len(clean),
        held_out=len(measured.held_out),
        tpr=clopper_pearson(int((correct >= at.tau).sum()), len(correct)) if len(correct) else _NOTHING,
        coverage=at.estimate(metrics.coverage_rate(clean)),
        error=at.estimate(metrics.error_rate(clean)),
        error_without_rejection=metrics.error(clean, -math.inf),
        attacks=tuple(_under_attack(measured, group, at) for group in measured.groups),
        unseen=_unseen(measured, at),
        corruptions=_corruptions(measured, at.tau),
        notes=measured.notes,
    )


def pooled_outcome(measured: Measured, members: Sequence[int]) -> tuple[Outcome, Outcome]:
    """Clean and worst attacked outcomes of the images that all these attempts attacked."""
    attempts = [measured.attempts[member].answers.outcome for member in members]
    examples = min(len(attempt) for attempt in attempts)
    clean = measured.clean_of(members).outcome[:examples]
    return clean, metrics.worst(clean, [attempt[:examples] for attempt in attempts])


def pooled_answers(measured: Measured, members: Sequence[int]) -> tuple[Answers, Integers]:
    """The answers to the worst of some attempts, and whose they are: −1 where none is wrong, and the answer is the clean one."""
    clean, adversarial = pooled_outcome(measured, members)
    predicted, by = measured.clean_of(members).predicted[: len(clean)].copy(), np.full(len(clean), -1)
    for member in reversed(members):
        answers = measured.attempts[member].answers[: len(clean)]
        own = answers.outcome.wrong & adversarial.wrong & (answers.outcome.score == adversarial.score)
        predicted[own], by[own] = answers.predicted[own], member
    return Answers(predicted, adversarial), by


def shown_rate(measured: Measured, members: Sequence[int]) -> Rate:
    """What a table shows of some attempts: RErr on test images, the share accepted on noise."""
    clean, adversarial = pooled_outcome(measured, members)
    on_noise = measured.attempts[members[0]].source == "noise"
    return metrics.coverage_rate(adversarial) if on_noise else metrics.robust_error_rate(clean, adversarial)


def _under_attack(measured: Measured, group: Group, at: _Threshold) -> UnderAttack:
    families: dict[str, list[int]] = {}
    for member in group.members:
        families.setdefault(measured.attempts[member].family, []).append(member)
    values = {member: shown_rate(measured, [member]).at(at.tau) for member in group.members}
    strongest = sorted(group.members, key=lambda member: (-values[member], member))[:STRONGEST]
    return UnderAttack(
        threat=group.threat,
        source=group.source,
        seen=group.seen,
        pooled=_pooled("worst case", measured, group.members, at),
        families=tuple(_pooled(name, measured, members, at) for name, members in families.items()),
        strongest=tuple(_pooled(_single(measured.attempts[member], group), measured, [member], at) for member in strongest),
    )


def _single(attempt: Attacked, group: Group) -> str:
    """The name of an attempt, with its restart and, where that is not the group's own, its threat."""
    threat = f", {attempt.threat}" * (attempt.threat != group.threat)
    return f"{attempt.name}{f' #{attempt.restart}' * (attempt.restart > 0)}{threat}"


def _pooled(name: str, measured: Measured, members: Sequence[int], at: _Threshold) -> Pooled:
    clean, adversarial = pooled_outcome(measured, members)
    on_noise = measured.attempts[members[0]].source == "noise"
    shown = shown_rate(measured, members)
    fprs = [metrics.fpr_rate, metrics.fpr_of_correct_rate, metrics.fpr_of_all_rate]
    fpr, of_correct, of_all = [_NOTHING] * 3 if on_noise else [at.estimate(rate(clean, adversarial)) for rate in fprs]
    attempts = [measured.attempts[member] for member in members]
    per_image = [1 / len(attempt.answers.predicted) for attempt in attempts]
    return Pooled(
        name,
        len(members),
        len(clean),
        at.estimate(shown),
        shown.at(-math.inf),
        fpr,
        of_correct,
        of_all,
        auc=math.nan if on_noise else metrics.auc(clean, adversarial),
        forwards=sum(attempt.forwards * share for attempt, share in zip(attempts, per_image, strict=True)),
        backwards=sum(attempt.backwards * share for attempt, share in zip(attempts, per_image, strict=True)),
        seconds=sum(attempt.seconds * share for attempt, share in zip(attempts, per_image, strict=True)),
    )


def _unseen(measured: Measured, at: _Threshold) -> dict[str, Pooled]:
    if any(attempt.clean for attempt in measured.attempts):
        return {}  # a detector for each threat: there is no one that would face them all
    unseen = [group for group in measured.groups if group.source == "test" and not group.seen]
    left_out = [None, *(group.threat for group in unseen if len(unseen) > 1)]
    found = {}
    for threat in left_out:
        members = sorted({member for group in unseen if group.threat != threat for member in group.members})
        if members:
            found[threat or ALL] = _pooled(threat or ALL, measured, members, at)
    return found


def _corruptions(measured: Measured, tau: float) -> tuple[UnderCorruption, ...]:
    """Each on its own, then for each set the mean over them, at every severity where there are several, and all pooled."""
    clean = measured.clean.outcome
    found: list[UnderCorruption] = []
    for name in dict.fromkeys(one.set for one in measured.corrupted):
        members = [one for one in measured.corrupted if one.set == name]
        single = [_corrupted(name, one.name, one.severity, one.answers.outcome, clean, tau) for one in members]
        severities = sorted({one.severity for one in members})
        means = [_mean([one for one in single if one.severity == severity], severity) for severity in severities if len(severities) > 1]
        outcomes = [one.answers.outcome for one in members]
        pooled = Outcome(np.concatenate([one.wrong for one in outcomes]), np.concatenate([one.score for one in outcomes]))
        found += [*single, *means, _mean(single, None), _corrupted(name, POOLED, None, pooled, clean, tau)]
    return tuple(found)


def _corrupted(name: str, corruption: str, severity: int | None, outcome: Outcome, clean: Outcome, tau: float) -> UnderCorruption:
    wrong = outcome.score[outcome.wrong]
    fpr = float((wrong >= tau).mean()) if len(wrong) else math.nan
    right = clean.score[~clean.wrong]
    return UnderCorruption(
        set=name,
        name=corruption,
        severity=severity,
        examples=len(outcome),
        error=metrics.error(outcome, tau),
        error_without_rejection=metrics.error(outcome, -math.inf),
        coverage=metrics.coverage(outcome, tau),
        tnr=1 - fpr,
        fpr=fpr,
        auc=metrics.area(right, wrong),
    )


def _mean(parts: Sequence[UnderCorruption], severity: int | None) -> UnderCorruption:
    """Of every number, over the corruptions that have it."""
    names = ("error", "error_without_rejection", "coverage", "tnr", "fpr", "auc")
    values = {name: [value for part in parts if not math.isnan(value := getattr(part, name))] for name in names}
    means = {name: float(np.mean(found)) if found else math.nan for name, found in values.items()}
    return UnderCorruption(parts[0].set, MEAN, severity, min(part.examples for part in parts), **means)
