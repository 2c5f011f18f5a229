"""Many thresholds at once give what `evaluate` gives at each of them."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import JUDGE, LINF, run_outcomes

from ccat.evaluation import rates
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import headline
from ccat.evaluation.operating import at_coverages, at_given, at_tprs, estimates
from ccat.evaluation.rates import Levels
from ccat.evaluation.resampling import resamples

RUN = run_outcomes()
TPRS = (0.5, 0.9, 0.99)


def test_at_tprs() -> None:
    points, clean = at_tprs(RUN.calibration, TPRS), RUN.clean[JUDGE].outcome
    error = estimates(rates.ERROR(clean), points, resamples(400, 0))
    accepted = estimates(rates.TPR(clean), points)
    robust = estimates(headline(RUN, RUN.groups[0]), points, resamples(100, 0))
    for n, tpr in enumerate(TPRS):
        found = evaluate(RUN, tpr)
        assert points.tau[n] == found.tau
        assert error[n] == pytest.approx(found.rates["error"])
        assert accepted[n] == pytest.approx(found.rates["tpr"])
        assert found.attacks[0].condition == LINF
        assert robust[n] == pytest.approx(found.attacks[0].pooled.headline)


def test_at_coverages_and_a_given_threshold() -> None:
    both = at_coverages(RUN.calibration, (0.99, 0.8)) + at_given(0.6)
    found = estimates(headline(RUN, RUN.groups[1]), both, resamples(100, 0))
    at = evaluate(RUN).attacks[1].selective.at
    assert found[0] == pytest.approx(at[0].rate)
    assert found[1] == pytest.approx(at[-1].rate)
    assert found[2] == pytest.approx(evaluate(RUN, tau=0.6).attacks[1].pooled.headline)


def test_where_nothing_is_accepted_or_nothing_counts() -> None:
    counts = resamples(4, 0)
    levels = Levels(np.array([0.1, np.nan, 0.2, 0.3]), np.array([0.1, 0.2, 0.3, 0.4]))
    assert estimates(levels, at_given(0.9), counts).tolist() == [[0, 0, 1]]
    nothing = Levels(np.full(4, np.nan), np.full(4, np.nan))
    assert np.isnan(estimates(nothing, at_given(0.5), counts)).all()
    everything = estimates(levels, at_given(-np.inf), counts)[0]
    run = replace(RUN, run="as evaluate does")
    assert everything[0] == 0.75
    assert evaluate(run, tau=-np.inf).rates["coverage"].value == 1
