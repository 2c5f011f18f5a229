"""Watch the rejection rate in use: an alarm when it leaves what was calibrated, without labels.

The rate is known from calibration images, within an exact interval. In use a stream of decisions
comes in and is looked at after every image. The probability δ of ever giving a false alarm has two
halves: one that the calibrated interval misses the rate, and one for four tests, above the interval
and below it, of the whole stream and of a part of it that began at an unknown image.

A test is an e-process (Ramdas et al. 2023): it begins at 1 and grows on average only if the rate
lies outside the interval, so that it ever reaches 1/ε with probability ε at most (Ville 1939). With
x = 1 for a rejected image, h the upper end of the interval and q > h, the product over images of
(q/h)^x ((1−q)/(1−h))^(1−x) is one, if every image is rejected with a probability of at most h given
those before it. Averages of e-processes are e-processes:

- Of the whole stream: over q, by the part above h of a Beta(½, ½) distribution (Robbins 1970), in
  closed form. Inverted, it gives the interval of the stream's rate that holds at all times at once
  (Howard et al. 2021, Waudby-Smith & Ramdas 2024).
- Of a part: over a few q, and over the image j that the part begins at, with weights wⱼ of sum 1.
  With R₀ = 0 and Rₙ = (Rₙ₋₁ + wₙ) · ratioₙ for each q it is mean_q Rₙ + Σ_{j>n} wⱼ. The weights
  fall so slowly that a late change is found soon as well. (The detectors of Shin et al. 2024 bound
  the mean time to a false alarm; this bounds the probability of any.)

Below the interval all is mirrored. Shapes: rejected (N,), in order; at, rate, low, high (T,).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ccat.checks import require_count, require_number
from ccat.evaluation.intervals import Estimate, clopper_pearson
from ccat.evaluation.outcome import Floats, Integers

_RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)  # odds of q to the odds of the end
_TESTS = 4
_PRIOR = 0.5  # of the Beta distribution

Side = Literal["above", "below"]


@dataclass(frozen=True)
class Calibrated:
    """How many calibration images the threshold rejects.

    The rate counts as measured at a threshold fixed beforehand, or at a quantile of the scores of
    the same images, for which the exact interval of the former holds as well.

    Attributes:
        rejected: How many images have a score below τ.
        images: How many images there are.
    """

    rejected: int
    images: int

    def __post_init__(self) -> None:
        require_count("Calibrated: images", self.images)
        if isinstance(self.rejected, bool) or not isinstance(self.rejected, int):
            raise ValueError(f"Calibrated: rejected must be a whole number, not {self.rejected!r}")
        if not 0 <= self.rejected <= self.images:
            raise ValueError(
                f"Calibrated: {self.rejected} of {self.images} images cannot be rejected: "
                f"rejected must be 0 to {self.images}"
            )


@dataclass(frozen=True)
class Alarm:
    """The rejection rate has left its calibrated interval.

    Attributes:
        image: After how many images.
        side: Whether the rate is above or below the interval.
        since: The first image of the part with another rate, as far as can be told, from 1.
        rate: The share rejected from that image on, up to the alarm.
    """

    image: int
    side: Side
    since: int
    rate: float


@dataclass(frozen=True, eq=False)
class Watched:
    """The rejection rate of a stream over time.

    Attributes:
        images: How many images came in.
        rejected: How many of them were rejected.
        delta: The probability of a false alarm, at any time.
        calibrated: The calibrated rate, and its interval with confidence 1 − δ/2.
        at: After how many images the three that follow are given, ascending up to `images`.
        rate: The share rejected of the images so far.
        low: The lower end of the interval of the stream's rate, which holds with confidence 1 − δ/4
            at all times at once if the rate is the same at all times.
        high: The upper end.
        alarm: The first alarm, or None.
    """

    images: int
    rejected: int
    delta: float
    calibrated: Estimate
    at: Integers
    rate: Floats
    low: Floats
    high: Floats
    alarm: Alarm | None

    @property
    def sentence(self) -> str:
        """Whether there is an alarm, and the numbers behind it."""
        low, high = (f"{100 * end:.2f}" for end in self.calibrated[1:])
        band = f"the calibrated {low} to {high} %"
        if self.alarm is None:
            return (
                f"no alarm: {self.rejected} of {self.images} images were rejected, "
                f"{100 * self.rejected / self.images:.2f} %, which does not contradict {band}"
            )
        found = self.alarm
        return (
            f"alarm after {found.image} images: since about image {found.since} "
            f"{100 * found.rate:.2f} % were rejected, {found.side} {band}. If nothing has changed, "
            f"an alarm at any time has a probability of at most {100 * self.delta:.10g} %"
        )


def watch(
    rejected: NDArray[np.bool_], calibrated: Calibrated, delta: float = 0.01, points: int = 500
) -> Watched:
    """Return the rejection rate of a stream over time, with the first alarm if there is one.

    Call it again with the longer stream when more images have come in: what it said about the first
    images does not change, and looking often does not make a false alarm more likely.

    Args:
        rejected: True where an image was rejected, in the order in which the images came in, (N,).
        calibrated: How many calibration images are rejected at the same threshold.
        delta: The probability of a false alarm, at any time, strictly between 0 and 1.
        points: At how many times, evenly spaced, the rate and its interval are given; the last
            image and that of the alarm are among them.

    Raises:
        ValueError: If the stream is empty or holds no booleans, or a number is out of range.
    """
    require_number("watch: delta", delta, 0, 1)
    require_count("watch: points", points)
    stream = np.asarray(rejected)
    if stream.dtype != np.bool_ or stream.ndim != 1:
        raise ValueError(
            "watch: the stream must be a list of booleans, True where an image was rejected, "
            f"not {stream.dtype} of shape {stream.shape}"
        )
    if len(stream) == 0:
        raise ValueError("watch: the stream is empty: there is no decision to watch yet")
    band = clopper_pearson(calibrated.rejected, calibrated.images, 1 - delta / 2)
    limit = math.log(2 * _TESTS / delta)
    above = _first(stream, band.high, "above", limit)
    below = _first(~stream, 1 - band.low, "below", limit)
    found = [each for each in (above, below) if each is not None]
    alarm = min(found, key=lambda each: each.image, default=None)
    last = [len(stream)] if alarm is None else [alarm.image, len(stream)]
    at = np.union1d(np.linspace(1, len(stream), min(points, len(stream))).astype(np.int64), last)
    count = np.cumsum(stream)[at - 1]
    low, high = lower_end(count, at, limit), 1 - lower_end(at - count, at, limit)
    total = int(stream.sum())
    return Watched(len(stream), total, delta, band, at, count / at, low, high, alarm)


def lower_end(count: Integers, images: Integers, limit: float) -> Floats:
    """Return the lowest rate that `whole` does not reject at the logarithmic limit, by bisection.

    Args:
        count: How many images were rejected, (T,).
        images: Of how many.
        limit: The logarithm of what the e-process must reach: log 1/ε for a confidence of 1 − ε.
    """
    low, high = np.zeros(len(count)), count / images
    for _ in range(50):
        middle = (low + high) / 2
        reached = whole(count, images, middle) >= limit
        low, high = np.where(reached, middle, low), np.where(reached, high, middle)
    return low


def whole(count: Integers, images: Integers, end: Floats | float) -> Floats:
    """Return the logarithm of the e-process of the whole stream, against rates of at most `end`.

    For k = count, n = images and q > end it is ∫ q^k (1−q)^(n−k) dπ(q) / (end^k (1−end)^(n−k)).
    """
    # Imported here because it takes a moment, in every command.
    from scipy.special import betaincc, betaln, xlog1py, xlogy  # noqa: PLC0415

    k, rest = count + _PRIOR, images - count + _PRIOR
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing lies above: log 0
        above = betaln(k, rest) + np.log(betaincc(k, rest, end))
        prior = betaln(_PRIOR, _PRIOR) + np.log(betaincc(_PRIOR, _PRIOR, end))
        value = above - prior - xlogy(count, end) - xlog1py(images - count, -np.asarray(end))
    return np.where(np.isnan(value), -np.inf, value)


def part(rejected: NDArray[np.bool_], end: float, ratio: float) -> tuple[Floats, Floats]:
    """Return log Rₙ for one q after each image n, and for each j the logarithm of its share in it.

    The share of j in Rₙ is the second at j, up to what depends on n alone.

    Args:
        rejected: The stream, (N,).
        end: The upper end of the calibrated interval.
        ratio: The odds of q, as a multiple of those of the end.
    """
    odds = ratio * end / (1 - end)
    q = odds / (1 + odds)
    gains = np.where(rejected, math.log(q / end), math.log((1 - q) / (1 - end)))
    total = np.cumsum(gains)
    begun = _log_weights(len(rejected)) - (total - gains)
    return total + np.logaddexp.accumulate(begun), begun


@lru_cache(maxsize=1)
def _log_weights(images: int) -> Floats:
    return np.log(-np.diff(later(np.arange(images + 1))))


def later(images: Integers) -> Floats:
    """Return Σ_{j>n} wⱼ = 1 / log₂(n + 2): the weight of changes after n images."""
    weight: Floats = 1 / np.log2(images + 2.0)
    return weight


def changed(rejected: NDArray[np.bool_], end: float) -> Floats:
    """Return the logarithm of the e-process of a part of the stream, after each image."""
    sum_of = np.log(later(np.arange(1, len(rejected) + 1)))
    for ratio in _RATIOS:
        sum_of = np.logaddexp(sum_of, part(rejected, end, ratio)[0] - math.log(len(_RATIOS)))
    return sum_of


def _first(stream: NDArray[np.bool_], end: float, side: Side, limit: float) -> Alarm | None:
    """Return the first alarm of the tests on one side; `below`, the stream is that of accepted."""
    if end >= 1:
        return None  # no rate lies beyond
    images = np.arange(1, len(stream) + 1)
    in_all = whole(np.cumsum(stream), images, end) >= limit
    in_part = changed(stream, end) >= limit
    if not (in_all | in_part).any():
        return None
    image = int((in_all | in_part).argmax()) + 1
    shares = [part(stream[:image], end, ratio) for ratio in _RATIOS]
    _, begun = max(shares, key=lambda each: float(each[0][-1]))
    since = int(begun.argmax()) + 1
    share = float(stream[since - 1 : image].mean())
    return Alarm(image, side, since, share if side == "above" else 1 - share)
