"""What the script on the page reads: numbers as tables show them, and what became of each image.

The page computes no rate. For every stop of its slider there is each rate with its interval, in
tenths of a per cent, and of each image a code that says up to which stop it counts. Arrays are
bytes, or pairs of bytes, in base64; what is the same, pictures as well, is sent once.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation import rates
from ccat.evaluation.certified import between
from ccat.evaluation.confusion import attacked_answers
from ccat.evaluation.doubts import doubts
from ccat.evaluation.groups import counted, pooled_answers, pooled_outcome, told_apart
from ccat.evaluation.metrics import curves
from ccat.evaluation.operating import OperatingPoints, estimates
from ccat.evaluation.outcome import Floats, Outcome
from ccat.evaluation.rates import COVERAGE, ERROR, FPR, TPR, Levels, Rate, rates_of, successful
from ccat.evaluation.resampling import resamples
from ccat.evaluation.results import Answers, Group, Picture, RunOutcomes, UnderAttack
from ccat.evaluation.selective import risk_coverage
from ccat.report.examples import png
from ccat.report.figures import styles
from ccat.report.formats import percent
from ccat.report.section import Section
from ccat.report.stops import Stops, stops_of
from ccat.report.tables import clean_columns

_NOTHING = 65535  # in place of tenths of a per cent: there is no such number
_POINTS = 300  # of a curve
_BINS = 25


@dataclass(frozen=True)
class _Arrays:
    """Arrays and pictures that were sent already, by their content, with their index."""

    sent: dict[str, int] = field(default_factory=dict)

    def index(self, values: NDArray[Any]) -> int:
        return self.place(packed(values))

    def place(self, text: str) -> int:
        return self.sent.setdefault(text, len(self.sent))


@dataclass(frozen=True, eq=False)
class _Run:
    """A run at the stops of the slider."""

    outcomes: RunOutcomes
    points: OperatingPoints
    ladder: Floats  # the distinct thresholds, ascending
    arrays: _Arrays

    def codes(self, levels: Floats) -> int:
        """Return the index of one code per image: 0 never counts, n + 1 does up to n thresholds."""
        reached = np.searchsorted(self.ladder, levels, side="right") + 1
        return self.arrays.index(np.where(np.isnan(levels), 0, reached))

    def rate(self, rate: Rate, levels: Levels) -> str:
        """Return value, low and high at each stop."""
        counts = None if rate.interval == "exact" else resamples(len(levels.part), 0)
        return packed(tenths(estimates(levels, self.points, counts)))


def page_data(sections: Sequence[Section]) -> dict[str, Any]:
    """Return everything that the script on the page reads."""
    arrays, stops = _Arrays(), stops_of(sections)
    style = styles([one.outcomes for one in sections])
    before, after = clean_columns()
    every = {group.condition for one in sections for group in one.outcomes.groups}
    return {
        "clean": {"before": _defined(before), "after": _defined(after)},
        "conditions": [
            {
                "key": condition.key,
                "title": condition.title,
                "noise": condition.on_noise,
                "rejects": condition.rejects,
                "rates": _defined(rates_of(condition)),
            }
            for condition in sorted(every, key=lambda condition: condition.order)
        ],
        "modes": stops.modes,
        "classes": list(sections[0].outcomes.classes),
        "runs": [
            _run(one, stops, arrays) | each._asdict()
            for one, each in zip(sections, style, strict=True)
        ],
        "arrays": list(arrays.sent),
    }


def _defined(defined: Sequence[Rate]) -> list[dict[str, str]]:
    return [{"name": one.name, "title": one.title, "meaning": one.meaning} for one in defined]


def _run(section: Section, stops: Stops, arrays: _Arrays) -> dict[str, Any]:
    outcomes, points = section.outcomes, stops.points(section)
    run = _Run(outcomes, points, np.unique(points.tau), arrays)
    clean, found = outcomes.clean_answers.outcome, section.evaluation
    wrong = ERROR(clean)
    return {
        "name": outcomes.run,
        "tau": [f"{tau:.3f}" if np.isfinite(tau) else "–" for tau in points.tau],
        "needed": (np.searchsorted(run.ladder, points.tau) + 2).tolist(),
        "labels": arrays.index(outcomes.labels),
        "clean": {rate.name: run.rate(rate, rate(clean)) for rate in rates.CLEAN_RATES},
        "wrong": {"part": run.codes(wrong.part), "whole": run.codes(wrong.whole)},
        "unrejected": {name: percent(value) for name, value in found.without_rejection.items()},
        "attacked": {
            group.condition.key: _attacked(run, group, under)
            for group, under in zip(outcomes.groups, found.attacks, strict=True)
        },
        "attempts": [f"{one.title} ({one.condition.title})" for one in outcomes.attempts],
        "gallery": {
            condition.key: [_picture(one, arrays) for one in pictures]
            for condition, pictures in section.pictures.items()
            if pictures
        },
    }


def _attacked(run: _Run, group: Group, under: UnderAttack) -> dict[str, Any]:
    clean, adversarial = pooled_outcome(run.outcomes, group)
    rows = counted(run.outcomes, group)
    shown = {
        rate.name: (rate, rate(clean, adversarial).among(rows))
        for rate in rates_of(group.condition)
    }
    levels = next(iter(shown.values()))[1]
    of_errors = group.condition.on_errors
    answers, by = (attacked_answers if of_errors else pooled_answers)(run.outcomes, group)
    return {
        "mark": "*" * group.seen + "†" * bool(group.unfinished),
        "planted": under.planted.text if under.planted else "",
        "unrejected": percent(under.pooled.without_rejection),
        **_doubted(run, group, levels),
        "rates": {name: run.rate(rate, each) for name, (rate, each) in shown.items()},
        "reached": packed(tenths(COVERAGE(clean).among(rows).at(run.points.tau))),
        **_curves(run, group, COVERAGE(clean).among(rows), {n: e for n, (_, e) in shown.items()}),
        "roc": _roc(run, group, clean, adversarial),
        "histogram": [_shares(scores) for scores in told_apart(run.outcomes, group)],
        "part": run.codes(levels.part),
        "whole": run.codes(levels.whole),
        "fixed": levels.fixed,
        "before": _answers(run.outcomes.clean[group.judge][: len(clean)], run.arrays),
        "after": _answers(answers, run.arrays),
        "by": run.arrays.index(by + 1),  # 0: the image itself is the worst
    }


def _doubted(run: _Run, group: Group, levels: Levels) -> dict[str, Any]:
    """Return the reasons to doubt the headline, and the numbers of those that hold at each stop."""
    known: dict[tuple[str, str, str], int] = {}
    at = {
        tau: [
            known.setdefault((one.check, one.text, one.link), len(known))
            for one in doubts(run.outcomes, group, float(tau), levels.at(float(tau)))
        ]
        for tau in run.ladder
    }
    reasons = [{"check": check, "text": text, "link": link} for check, text, link in known]
    return {"doubts": reasons, "inDoubt": [at[tau] for tau in run.points.tau]}


def _curves(
    run: _Run, group: Group, coverage: Levels, shown: Mapping[str, Levels]
) -> dict[str, Any]:
    """Return each rate over the coverage of clean images, and what certificates allow."""
    first = risk_coverage(next(iter(shown.values())), coverage)
    kept = _spread(len(first.tau))
    tau = first.tau[kept]
    upper = (
        between(run.outcomes, group.condition).upper
        if group.condition in run.outcomes.certified
        else None
    )
    return {
        "curve": {
            "coverage": packed(tenths(first.coverage[kept])),
            "rates": {name: packed(tenths(levels.at(tau))) for name, levels in shown.items()},
            "certified": None if upper is None else packed(tenths(upper.at(tau))),
        },
        "certified": None if upper is None else packed(tenths(upper.at(run.points.tau))),
    }


def _roc(run: _Run, group: Group, clean: Outcome, adversarial: Outcome) -> Any:
    if not (group.condition.on_errors and successful(clean, adversarial).any()):
        return None
    curve, tau = curves(clean, adversarial), run.points.tau
    kept = _spread(len(curve.tau))
    at = (FPR(clean, adversarial).at(tau), TPR(clean).at(tau))
    return {
        "x": packed(tenths(curve.fpr[kept])),
        "y": packed(tenths(curve.tpr[kept])),
        "at": packed(tenths(np.stack(at, axis=1))),
    }


def _spread(count: int) -> NDArray[np.int64]:
    """Return the places of up to 300 points among so many, both ends among them."""
    return np.unique(np.rint(np.linspace(0, count - 1, min(count, _POINTS))).astype(np.int64))


def _shares(scores: Floats) -> list[float]:
    """Return a histogram over [0,1] as shares."""
    known = scores[~np.isnan(scores)]
    counts, _ = np.histogram(np.clip(known, 0, 1), np.linspace(0, 1, _BINS + 1))
    shares: list[float] = np.round(counts / max(1, len(known)), 4).tolist()
    return shares


def _answers(answers: Answers, arrays: _Arrays) -> dict[str, int]:
    scores = tenths(answers.outcome.score)
    return {"predicted": arrays.index(answers.predicted), "score": arrays.index(scores)}


def _picture(picture: Picture, arrays: _Arrays) -> dict[str, Any]:
    difference = picture.attacked - picture.image
    largest = float(np.abs(difference).max()) or 1.0
    images = {
        "image": picture.image,
        "attacked": picture.attacked,
        "difference": 0.5 + difference / (2 * largest),
    }
    return {
        "row": picture.row,
        "label": picture.label,
        "answer": picture.answer and [picture.answer[0], percent(picture.answer[1])],
        "attackedAnswer": [picture.attacked_answer[0], percent(picture.attacked_answer[1])],
        "images": {
            name: arrays.place(image_url(png(image), "png")) for name, image in images.items()
        },
    }


def image_url(content: bytes, kind: str) -> str:
    """Return an image as a URL that holds all of it."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def tenths(shares: NDArray[Any]) -> NDArray[np.int64]:
    """Return shares in tenths of a per cent, rounded as tables round them."""
    flat = np.asarray(shares, dtype=np.float64).ravel().tolist()
    rounded = [_NOTHING if isnan(share) else round(10 * float(percent(share))) for share in flat]
    return np.array(rounded, dtype=np.int64).reshape(np.shape(shares))


def packed(values: NDArray[Any]) -> str:
    """Return whole numbers in base64, after how many bytes each of them takes."""
    numbers = np.ascontiguousarray(values)
    size = 1 if numbers.size == 0 or numbers.max() < 256 else 2
    return f"{size}{base64.b64encode(numbers.astype(f'<u{size}').tobytes()).decode()}"
