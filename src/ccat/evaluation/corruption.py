"""The rates of corrupted images: each corruption, and those over whole sets of them."""

import math
from collections.abc import Sequence

import numpy as np

from ccat.evaluation import metrics, rates
from ccat.evaluation.outcome import Outcome
from ccat.evaluation.rates import FPR_OF_WRONG
from ccat.evaluation.results import UnderCorruption
from ccat.evaluation.run_outcomes import RunOutcomes

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
