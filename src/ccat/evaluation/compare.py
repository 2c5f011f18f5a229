"""Two runs on the same images: who fails where the other does not; and seeds of one recipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccat.evaluation import rates
from ccat.evaluation.difference import difference
from ccat.evaluation.groups import headline
from ccat.evaluation.intervals import (
    LEVEL,
    Estimate,
    exact_interval,
    percentiles,
)
from ccat.evaluation.outcome import Floats, threshold
from ccat.evaluation.rates import Levels
from ccat.evaluation.resampling import resampled, resampled_thresholds, resamples
from ccat.evaluation.run_outcomes import RunOutcomes

if TYPE_CHECKING:
    from ccat.threats import Condition


@dataclass(frozen=True)
class Compared:
    """The headline rates of two runs on the same images, under one condition or clean.

    Attributes:
        condition: What was attacked; None for clean images.
        images: The number of images that count for both runs.
        first: The rate of the first run.
        second: The rate of the second run.
        difference: The second minus the first, its interval from resampling the images and those
            that choose τ, the same ones for both runs.
        p: How surprising so large a difference is if there is none, over images and τ, from the
            same resamples as the interval: below 0.05 if and only if that leaves zero out.
        only_first_fails: The number of images that only the first run answers wrongly and accepts;
            on noise, that it accepts; where the goal is rejection, that it classifies correctly
            when clean, and rejects clean or as attacked.
        only_second_fails: The same for the second run.
    """

    condition: "Condition | None"
    images: int
    first: Estimate
    second: Estimate
    difference: Estimate
    p: float
    only_first_fails: int
    only_second_fails: int


def compare(
    first: RunOutcomes, second: RunOutcomes, tpr: float = 0.99, seed: int = 0
) -> list[Compared]:
    """Compare two runs on clean images and under every condition that both were attacked with.

    Args:
        first: A run.
        second: Another one, on the same images.
        tpr: The share of correctly classified calibration images that the τ of each run accepts.
        seed: Of the resamples that intervals come from.
    """
    runs = (first, second)
    taus = [threshold(run.calibration, tpr) for run in runs]
    moving = [resampled_thresholds(run.calibration, [tpr], seed)[0] for run in runs]
    clean = [rates.CLEAN_RATES[0](run.clean_answers.outcome) for run in runs]
    found = [_compared(None, clean, taus, moving, seed)]
    others = {group.condition: group for group in second.groups}
    for group in first.groups:
        if group.condition in others:
            pair = [headline(first, group), headline(second, others[group.condition])]
            common = min(len(levels.part) for levels in pair)
            pair = [levels[:common] for levels in pair]
            found.append(_compared(group.condition, pair, taus, moving, seed))
    return found


def _compared(
    condition: "Condition | None",
    pair: Sequence[Levels],
    taus: Sequence[float],
    moving: Sequence[Floats],
    seed: int,
) -> Compared:
    counts = resamples(len(pair[0].part), seed)
    one, other = (
        _Resampled(levels, tau, resampled([levels], counts, each)[0])
        for levels, tau, each in zip(pair, taus, moving, strict=True)
    )
    found, p = difference(one.at_level, other.at_level, other.values - one.values)
    rejects = condition is not None and condition.rejects
    fails = [
        (levels.whole >= tau) & ~(levels.part >= tau) if rejects else levels.part >= tau
        for levels, tau in zip(pair, taus, strict=True)
    ]
    return Compared(
        condition=condition,
        images=len(pair[0].part),
        first=one.at_level(LEVEL),
        second=other.at_level(LEVEL),
        difference=found,
        p=p,
        only_first_fails=int((fails[0] & ~fails[1]).sum()),
        only_second_fails=int((fails[1] & ~fails[0]).sum()),
    )


@dataclass(frozen=True, eq=False)
class _Resampled:
    """A rate of one run at its τ, and its values on resamples."""

    levels: Levels
    tau: float
    values: Floats

    def at_level(self, level: float) -> Estimate:
        """Return the rate with its interval at a level; as `bootstrap` does where it is 0.95."""
        if not (self.levels.whole >= self.tau).any():
            return exact_interval(self.levels, self.tau, level)
        return percentiles(self.levels, self.tau, self.values, level)


def by_recipe(runs: Sequence[RunOutcomes]) -> dict[str, list[RunOutcomes]]:
    """Group runs whose recipes differ in nothing but the seed.

    The name of a group of several says the recipe, the fields in which it differs from the other
    groups, and the seeds; that of a single run is its own.
    """
    groups: list[list[RunOutcomes]] = []
    for run in runs:
        for group in groups:
            if _without_seed(group[0]) == _without_seed(run):
                group.append(run)
                break
        else:
            groups.append([run])
    fields = [_without_seed(group[0]) for group in groups]
    names = {
        name
        for one in fields
        for name in one
        if name != "name" and any(one.get(name) != other.get(name) for other in fields)
    }
    return {_name(group, sorted(names)): group for group in groups}


def _name(group: Sequence[RunOutcomes], differing: Sequence[str]) -> str:
    first = group[0]
    if len(group) == 1:
        return first.run
    same = ", ".join(
        f"{name} {first.recipe.get(name, '–')}" for name in differing if name in first.recipe
    )
    seeds = ", ".join(run.recipe.get("seed", "?") for run in group)
    return f"{first.recipe.get('name', first.run)}{same and f' ({same})'}, seeds {seeds}"


def _without_seed(run: RunOutcomes) -> dict[str, str]:
    return {name: value for name, value in run.recipe.items() if name != "seed"}
