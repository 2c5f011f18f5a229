"""Two runs on the same images: who fails where the other does not; and several seeds of one recipe."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccat import metrics
from ccat.evaluation import shown_rate
from ccat.intervals import LEVEL, Estimate, bootstrap, resampled_thresholds, resamples
from ccat.metrics import Rate
from ccat.results import Measured


@dataclass(frozen=True)
class Compared:
    """One threat, or clean images, on which an image fails if its answer is wrong and accepted (on noise: accepted).

    The difference is the second run's error minus the first one's, its interval from resampling images and held-out images, the same
    ones for both. `p` is that of McNemar's exact test over all images at these thresholds: how surprising so uneven a split of the
    disagreements is if both fail as often.
    """

    threat: str
    source: str
    images: int
    first: Estimate
    second: Estimate
    difference: Estimate
    only_first_fails: int
    only_second_fails: int
    p: float


def compare(first: Measured, second: Measured, tpr: float = 0.99, seed: int = 0) -> list[Compared]:
    """On clean images and on every threat that both were attacked with."""
    taus = [metrics.threshold(one.held_out, tpr) for one in (first, second)]
    moving = [resampled_thresholds(one.held_out, tpr, seed) for one in (first, second)]
    pairs = {("", "clean"): [metrics.error_rate(one.clean.outcome) for one in (first, second)]}
    groups = [{(group.threat, group.source): group for group in one.groups} for one in (first, second)]
    for key in groups[0]:
        if key in groups[1]:
            rates = [shown_rate(one, of[key].members) for one, of in zip((first, second), groups, strict=True)]
            common = min(len(rate.part) for rate in rates)
            pairs[key] = [Rate(rate.part[:common], rate.whole[:common]) for rate in rates]
    found = []
    for (threat, source), rates in pairs.items():
        counts = resamples(len(rates[0].part), seed)
        values = [rate.resampled(counts, tau) for rate, tau in zip(rates, moving, strict=True)]
        low, high = np.quantile(values[1] - values[0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        one, other = (bootstrap(rate, tau, counts, each) for rate, tau, each in zip(rates, taus, moving, strict=True))
        fails = [rate.part >= tau for rate, tau in zip(rates, taus, strict=True)]
        only = int((fails[0] & ~fails[1]).sum()), int((fails[1] & ~fails[0]).sum())
        value = other.value - one.value
        if one.value in (0, 1) or other.value in (0, 1):  # nothing to vary in one of them: the bounds of the two intervals instead
            low = min(low, value - np.hypot(other.value - other.low, one.high - one.value))
            high = max(high, value + np.hypot(other.high - other.value, one.value - one.low))
        difference = Estimate(value, min(float(low), value), max(float(high), value))
        found.append(Compared(threat, source, len(rates[0].part), one, other, difference, *only, p=mcnemar(*only)))
    return found


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of the exact test."""
    from scipy.stats import binomtest  # noqa: PLC0415 (it takes a second to import, in every worker process)

    return float(binomtest(only_first, only_first + only_second).pvalue) if only_first + only_second else 1.0


def by_recipe(runs: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Runs of one recipe, but for the seed, together. Their name says the recipe, the fields in which it differs from others, and seeds."""
    groups: list[list[Measured]] = []
    for run in runs:
        for group in groups:
            if _without_seed(group[0]) == _without_seed(run):
                group.append(run)
                break
        else:
            groups.append([run])
    fields = [_without_seed(group[0]) for group in groups]
    names = sorted({name for one in fields for name in one if name != "name" and any(one.get(name) != other.get(name) for other in fields)})
    return {_name(group, names): group for group in groups}


def _name(group: Sequence[Measured], differing: Sequence[str]) -> str:
    first = group[0]
    if len(group) == 1:
        return first.run
    same = ", ".join(f"{name} {first.recipe.get(name, '–')}" for name in differing if name in first.recipe)
    seeds = ", ".join(run.recipe.get("seed", "?") for run in group)
    return f"{first.recipe.get('name', first.run)}{same and f' ({same})'}, seeds {seeds}"


def _without_seed(run: Measured) -> dict[str, str]:
    return {name: value for name, value in run.recipe.items() if name != "seed"}
