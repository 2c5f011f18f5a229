"""The report as one page that needs no network: a single HTML file with data and pictures.

The templates and scripts are in the folder page/ beside this file.
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray

from ccat.evaluation import rates
from ccat.evaluation.certified import between
from ccat.evaluation.confusion import attacked_answers
from ccat.evaluation.groups import pooled_answers, pooled_outcome, told_apart
from ccat.evaluation.rates import COVERAGE, FPR, TPR, Levels, Rate, rates_of, successful
from ccat.evaluation.results import Answers, Evaluation, Group, Picture, RunOutcomes
from ccat.report.examples import png
from ccat.report.figures import styles
from ccat.report.formats import shown
from ccat.report.table import Table, definitions
from ccat.report.tables import clean_columns

if TYPE_CHECKING:
    from ccat.threats import Condition


_NOBODY = 65535  # in place of the number of an attempt: the image itself is the worst


@dataclass(frozen=True, eq=False)
class Section:
    """One run on the page: its outcomes, its evaluation, and pictures by condition."""

    outcomes: RunOutcomes
    evaluation: Evaluation
    pictures: Mapping["Condition", Sequence[Picture]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Arrays:
    """Arrays that were sent already, by their content, with their index."""

    sent: dict[str, int] = field(default_factory=dict)

    def index(self, values: NDArray[Any]) -> int:
        return self.sent.setdefault(_packed(values, np.float64), len(self.sent))

    def levels(self, levels: Levels) -> list[int]:
        """Return the indices of the part and of the whole."""
        return [self.index(levels.part), self.index(levels.whole)]


def page_data(sections: Sequence[Section]) -> dict[str, Any]:
    """Return everything that the script on the page reads."""
    arrays = _Arrays()
    runs = [_run(one, arrays) for one in sections]
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
        "classes": list(sections[0].outcomes.classes),
        "runs": [run | each._asdict() for run, each in zip(runs, style, strict=True)],
        "arrays": list(arrays.sent),
    }


def _defined(defined: Sequence[Rate]) -> list[dict[str, str]]:
    return [{"name": one.name, "title": one.title, "meaning": one.meaning} for one in defined]


def _run(section: Section, arrays: _Arrays) -> dict[str, Any]:
    run = section.outcomes
    clean = run.clean_answers.outcome
    return {
        "name": run.run,
        "tau": section.evaluation.tau if np.isfinite(section.evaluation.tau) else None,
        "labels": _packed(run.labels, np.uint16),
        "clean": {rate.name: arrays.levels(rate(clean)) for rate in rates.CLEAN_RATES},
        "attacked": {
            group.condition.key: _attacked(run, group, arrays)
            | {
                "mark": under.mark,
                "planted": under.planted.text if under.planted else "",
                "doubts": [f"{one.text} ({one.link})" for one in under.doubts],
            }
            for group, under in zip(run.groups, section.evaluation.attacks, strict=True)
        },
        "attempts": [f"{one.title} ({one.condition.title})" for one in run.attempts],
        "gallery": {
            condition.key: [_picture(one) for one in pictures]
            for condition, pictures in section.pictures.items()
        },
    }


def _attacked(run: RunOutcomes, group: Group, arrays: _Arrays) -> dict[str, Any]:
    clean, adversarial = pooled_outcome(run, group)
    errors = group.condition.on_errors
    answers, by = (attacked_answers if errors else pooled_answers)(run, group)
    positives, negatives = told_apart(run, group)
    roc = None
    if errors and successful(clean, adversarial).any():
        levels = {"x": FPR(clean, adversarial), "y": TPR(clean)}
        roc = {axis: arrays.levels(one) for axis, one in levels.items()}
    return {
        "rates": {
            rate.name: arrays.levels(rate(clean, adversarial)) for rate in rates_of(group.condition)
        },
        "coverage": arrays.levels(COVERAGE(clean)),
        "certified": (
            arrays.levels(between(run, group.condition).upper)
            if group.condition in run.certified
            else None
        ),
        "roc": roc,
        "positives": arrays.index(positives),
        "negatives": arrays.index(negatives),
        "clean": _answers(run.clean[group.judge][: len(clean)], arrays),
        "worst": _answers(answers, arrays),
        "by": _packed(np.where(by < 0, _NOBODY, by), np.uint16),
    }


def _answers(answers: Answers, arrays: _Arrays) -> dict[str, Any]:
    return {
        "predicted": _packed(answers.predicted, np.uint16),
        "score": arrays.index(answers.outcome.score),
    }


def _picture(picture: Picture) -> dict[str, Any]:
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
        "answer": picture.answer and list(picture.answer),
        "attackedAnswer": list(picture.attacked_answer),
        "images": {name: image_url(png(image), "png") for name, image in images.items()},
    }


def image_url(content: bytes, kind: str) -> str:
    """Return an image as a URL that holds all of it."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _packed(values: NDArray[Any], kind: type[np.generic]) -> str:
    numbers = np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(numbers.tobytes()).decode()


__all__ = ["Section", "page"]

_HERE = Path(__file__).parent / "page"
_SCRIPTS = ("data.js", "elements.js", "main.js", "charts.js", "examples.js", "controls.js")


def page(
    title: str,
    sections: Sequence[Section],
    tables: Sequence[Table],
    plates: Mapping[str, str],
    tpr: float,
) -> str:
    """Return the page as HTML.

    Args:
        title: Its title.
        sections: One for each run.
        tables: What it shows at the end.
        plates: Further figures, as SVG by caption.
        tpr: The true positive rate that chose the τ of each run.
    """
    templates = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined
    )
    # The template marks css, script and data as safe: without "<" no element can begin in the data.
    data = json.dumps(page_data(sections), allow_nan=False).replace("<", "\\u003c")
    return templates.get_template("page.html").render(
        title=title,
        tpr=f"{100 * tpr:g} %",
        version=version("ccat-torch"),
        css=(_HERE / "page.css").read_text(encoding="utf-8"),
        script="\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        data=data,
        definitions={
            "clean": definitions(rates.CLEAN_RATES),
            "attack": definitions(rates.ATTACK_RATES),
            "noise": definitions(rates.NOISE_RATES),
            "rejection": definitions(rates.REJECTION_RATES),
        },
        notes=[note for one in sections for note in one.evaluation.notes],
        plates={caption: image_url(svg.encode(), "svg+xml") for caption, svg in plates.items()},
        tables=tables,
        shown=shown,
        runs=[{"name": one.outcomes.run, "facts": _facts(one)} for one in sections],
    )


def _facts(section: Section) -> list[tuple[str, Any]]:
    """Return how a run was made: weights, versions, cost, recipe."""
    run = section.outcomes
    seconds, forwards, backwards = (
        sum(getattr(attempt, name) for attempt in run.attempts)
        for name in ("seconds", "forwards", "backwards")
    )
    cost = f"{_hours(seconds)}, {forwards:,} forwards, {backwards:,} backwards"
    versions = run.about.get("versions", {})
    return [
        ("weights (SHA-256)", run.weights),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
        ("device", f"{run.about.get('device', '?')}, {run.about.get('machine', '?')}"),
        ("attacks", f"{len(run.attempts)} attempts, {cost}"),
        *run.recipe.items(),
    ]


def _hours(seconds: float) -> str:
    if math.isnan(seconds):
        return "time not known"
    if seconds > 3600:
        return f"{seconds / 3600:.1f} core hours"
    return f"{math.ceil(seconds)} core seconds"
