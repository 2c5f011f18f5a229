"""Watching rejection rates: false alarms enumerated and simulated, changes planted."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from ccat import Outcome, threshold
from ccat.api import load
from ccat.cli import main
from ccat.evaluation.watch import Calibrated, Watched, changed, later, lower_end, watch, whole

STREAMS = 700
RATIOS = (1.25, 1.5, 2, 3, 5, 10, 30, 100)


def stream(rate: float, images: int, seed: int = 0) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random(images) < rate


def counts(rejected: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.cumsum(rejected), np.arange(1, len(rejected) + 1)


def test_the_mixture_over_rates_is_its_integral() -> None:
    for count, images, end in ((0, 5, 0.1), (3, 10, 0.1), (12, 400, 0.01), (40, 50, 0.9)):

        def ratio(q: float, k: int = count, n: int = images, h: float = end) -> float:
            log = k * math.log(q / h) + (n - k) * math.log((1 - q) / (1 - h))
            return math.exp(log) / math.sqrt(q * (1 - q))

        above, _ = integrate.quad(ratio, end, 1, limit=500)
        mass, _ = integrate.quad(lambda q: 1 / math.sqrt(q * (1 - q)), end, 1, limit=500)
        value = whole(np.array([count]), np.array([images]), end)
        assert value[0] == pytest.approx(math.log(above / mass), abs=1e-5)


def test_the_process_of_a_part_is_the_literal_sum_over_beginnings() -> None:
    rejected, end = stream(0.3, 40), 0.2
    found = changed(rejected, end)
    for n in range(1, 41):
        total = 1 - sum(1 / math.log2(j + 1) - 1 / math.log2(j + 2) for j in range(1, n + 1))
        for ratio in RATIOS:
            odds = ratio * end / (1 - end)
            q = odds / (1 + odds)
            for j in range(1, n + 1):
                value = 1 / math.log2(j + 1) - 1 / math.log2(j + 2)
                for x in rejected[j - 1 : n]:
                    value *= q / end if x else (1 - q) / (1 - end)
                total += value / len(RATIOS)
        assert found[n - 1] == pytest.approx(math.log(total))
    assert later(np.array([0])) == 1


@pytest.mark.parametrize("rate", [0.3, 0.2, 0.05])
def test_every_stream_enumerated_the_processes_grow_and_alarm_no_more_than_they_may(
    rate: float,
) -> None:
    """The end is 0.3: at that rate both are martingales, below it they shrink."""
    end, images = 0.3, 11
    means, reached = np.zeros((2, images)), {limit: np.zeros(2) for limit in (2, 5, 20)}
    for decisions in product([False, True], repeat=images):
        rejected = np.array(decisions)
        chance = rate ** rejected.sum() * (1 - rate) ** (~rejected).sum()
        values = np.exp([whole(*counts(rejected), end), changed(rejected, end)])
        means += chance * values
        for limit in reached:
            reached[limit] += chance * (values >= limit).any(1)
    if rate == end:
        assert means == pytest.approx(np.ones_like(means))
    else:
        assert (np.diff(means, axis=1) < 0).all()
    for limit, sums in reached.items():
        assert (sums <= 1 / limit).all()
    assert (reached[2] > 0).all()


@pytest.mark.parametrize("place", ["low", "high", "inside"])
def test_false_alarms_are_as_rare_as_stated_within_the_calibrated_interval(place: str) -> None:
    g = np.random.default_rng(3)
    calibrated, delta = Calibrated(60, 600), 0.4
    band = watch(stream(0.1, 1), calibrated, delta).calibrated
    rate = {"low": band.low, "high": band.high, "inside": band.value}[place]
    alarms = sum(
        watch(g.random(300) < rate, calibrated, delta, 1).alarm is not None for _ in range(STREAMS)
    )
    assert stats.binomtest(alarms, STREAMS, delta / 2, "greater").pvalue >= 1e-4
    assert alarms > 0  # a test that never alarms would pass


def test_false_alarms_are_as_rare_as_stated_over_calibration_and_stream() -> None:
    """Also if the threshold is that of a TPR, measured on the calibration images themselves."""
    g = np.random.default_rng(4)
    delta, alarms = 0.4, 0
    for _ in range(STREAMS):
        score, wrong = g.random(300), g.random(300) < 0.05
        tau = threshold(Outcome(wrong, score), 0.9)
        calibrated = Calibrated(int((score < tau).sum()), 300)
        alarms += watch(g.random(300) < tau, calibrated, delta, 1).alarm is not None
    assert stats.binomtest(alarms, STREAMS, delta, "greater").pvalue >= 1e-4
    assert alarms > 0


def test_the_interval_of_the_rate_holds_at_all_times_at_once() -> None:
    g = np.random.default_rng(5)
    calibrated, delta, missed = Calibrated(10, 100), 0.4, 0
    for _ in range(200):
        found = watch(g.random(100) < 0.1, calibrated, delta, 100)
        missed += bool(((found.low > 0.1) | (found.high < 0.1)).any())
    assert stats.binomtest(missed, 200, delta / 4, "greater").pvalue >= 1e-4
    assert missed > 0


def test_the_end_of_the_interval_is_where_the_process_reaches_its_limit() -> None:
    count, images, limit = np.array([0, 1, 7, 300]), np.array([9, 9, 20, 10_000]), math.log(40)
    low = lower_end(count, images, limit)
    assert low[0] == 0
    assert whole(count, images, low)[1:] == pytest.approx(np.full(3, limit))
    for share in np.linspace(0.01, 0.99, 50):  # what lies below is rejected, what lies above is not
        assert (whole(count, images, low * share)[1:] > limit).all()
        assert (whole(count, images, low + (count / images - low) * share)[1:] < limit).all()


def test_a_doubled_rate_is_found_within_ten_thousand_images() -> None:
    found = [watch(stream(0.02, 10_000, n), Calibrated(500, 50_000), 0.01, 1) for n in range(40)]
    alarms = [each.alarm for each in found if each.alarm is not None]
    assert len(alarms) == 40
    assert {alarm.side for alarm in alarms} == {"above"}
    assert np.median([alarm.image for alarm in alarms]) < 3500


def test_a_late_change_is_found_soon_and_its_beginning_too() -> None:
    late = np.concatenate([stream(0.01, 1_000_000), stream(0.02, 12_000, 1)])
    found = watch(late, Calibrated(500, 50_000))
    assert found.alarm is not None
    assert 1_000_000 < found.alarm.image < 1_010_000
    assert abs(found.alarm.since - 1_000_000) < 3000
    since = late[found.alarm.since - 1 : found.alarm.image]
    assert found.alarm.rate == pytest.approx(since.mean())
    assert found.low[-1] < 0.0102  # the mean over all images has hardly moved


def test_a_rate_that_falls_is_found_and_everything_rejected_at_once() -> None:
    none = watch(np.zeros(5000, dtype=np.bool_), Calibrated(90, 9000))
    assert none.alarm is not None
    assert (none.alarm.side, none.alarm.rate) == ("below", 0)
    assert "0.00 % were rejected, below the calibrated 0.73 to 1.33 %" in none.sentence
    everything = watch(np.ones(20, dtype=np.bool_), Calibrated(90, 9000))
    assert everything.alarm is not None
    assert (everything.alarm.side, everything.alarm.rate) == ("above", 1)
    assert everything.alarm.image <= 3


def test_of_two_alarms_the_first_counts() -> None:
    calm = np.zeros(5000, dtype=np.bool_)
    for first, then, side in ((calm, ~calm, "below"), (~calm, calm, "above")):
        found = watch(np.concatenate([first, then]), Calibrated(90, 9000))
        assert found.alarm is not None
        assert found.alarm.image < 5000
        assert found.alarm.side == side


def test_what_was_said_does_not_change_when_more_images_come() -> None:
    rejected = np.concatenate([stream(0.05, 3000), stream(0.3, 500, 1)])
    full = watch(rejected, Calibrated(50, 1000), 0.05, len(rejected))
    assert full.alarm is not None
    for images in (1, 100, full.alarm.image - 1, full.alarm.image, 3400):
        first = watch(rejected[:images], Calibrated(50, 1000), 0.05, images)
        assert first.alarm == (full.alarm if images >= full.alarm.image else None)
        assert first.at.tolist() == list(range(1, images + 1))
        for now, then in zip(lines(first), lines(full), strict=True):
            assert now == pytest.approx(then[:images])


def counted(found: Watched) -> NDArray[np.int64]:
    return np.rint(found.rate * found.at).astype(np.int64)


def lines(found: Watched) -> list[NDArray[np.float64]]:
    return [found.rate, found.low, found.high]


def test_the_rate_is_given_at_a_few_times_with_the_last_and_that_of_the_alarm() -> None:
    rejected = stream(0.3, 4321)
    found = watch(rejected, Calibrated(50, 1000), 0.05, 10)
    assert found.alarm is not None
    assert len(found.at) <= 11
    assert {1, found.alarm.image, 4321} <= set(found.at.tolist())
    assert found.rate[-1] == rejected.mean() == found.rejected / found.images
    assert (found.low < found.rate).all() or found.rate[0] == 0
    assert found.low == pytest.approx(lower_end(counted(found), found.at, math.log(8 / 0.05)))
    assert 1 - found.high == pytest.approx(
        lower_end(found.at - counted(found), found.at, math.log(8 / 0.05))
    )
    exact = stats.binomtest(50, 1000).proportion_ci(0.975)
    assert found.calibrated == pytest.approx((0.05, exact.low, exact.high))
    quiet = watch(np.arange(300) % 24 == 23, Calibrated(50, 1000))
    assert quiet.sentence.startswith("no alarm: 12 of 300 images were rejected, 4.00 %, which")


@pytest.mark.parametrize("rejected", [0, 20])
def test_where_calibration_rejected_none_or_all_one_side_is_watched(rejected: int) -> None:
    calibrated = Calibrated(rejected, 20)
    same = watch(np.full(5000, rejected > 0), calibrated)
    assert same.alarm is None
    other = watch(np.full(5000, rejected == 0), calibrated)
    assert other.alarm is not None
    assert other.alarm.side == ("above" if rejected == 0 else "below")


def test_bad_input_is_refused_with_a_sentence() -> None:
    calibrated = Calibrated(1, 10)
    with pytest.raises(ValueError, match="the stream is empty"):
        watch(np.zeros(0, dtype=np.bool_), calibrated)
    for rejected in (np.array([0, 1]), np.zeros((2, 2), dtype=np.bool_)):
        with pytest.raises(ValueError, match="must be a list of booleans"):
            watch(rejected, calibrated)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="watch: delta must be a number above 0 and below 1"):
            watch(np.array([True]), calibrated, delta)
    with pytest.raises(ValueError, match="watch: points must be a whole number of at least 1"):
        watch(np.array([True]), calibrated, points=0)
    for count, images in ((-1, 10), (11, 10)):
        with pytest.raises(ValueError, match=f"{count} of {images} images cannot be rejected"):
            Calibrated(count, images)
    with pytest.raises(ValueError, match="images must be a whole number of at least 1"):
        Calibrated(0, 0)
    with pytest.raises(ValueError, match=r"rejected must be a whole number, not 0\.5"):
        Calibrated(0.5, 10)  # type: ignore[arg-type]


def test_decisions_of_one_moment_keep_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As sorted rows, the rejected ones came first within a millisecond."""
    name = "zoo:mnist-ibp-wide"
    tau, when = load(name).tau, "2026-01-01T00:00:00.000+00:00"
    labels = ["7"] * 100 + ["rejected"] * 20
    rows = [f"{when},x.png,{label},0.5,{tau!r}" for label in labels]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["time,picture,label,confidence,tau", *rows]) + "\n")
    with pytest.raises(SystemExit):
        main(["monitor", name, str(log)])
    assert "since about image 101 " in capsys.readouterr().out
