"""The report as one page that needs no network: a single HTML file with data and pictures.

The templates and scripts are in the folder page/ beside this file. Verdicts and tables are part of
the document, so that they can be read without scripts.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ccat.evaluation import rates
from ccat.evaluation.rates import Rate
from ccat.report.embedded import image_url, page_data
from ccat.report.explained import DOUBTS
from ccat.report.formats import shown
from ccat.report.section import Section
from ccat.report.table import PLANTED, PROVED, SEEN, UNFINISHED, Table, definitions, span
from ccat.report.tables import main_table
from ccat.report.verdict import verdict

_HERE = Path(__file__).parent / "page"
_SCRIPTS = (
    "data.js",
    "elements.js",
    "charts.js",
    "hover.js",
    "curves.js",
    "main.js",
    "classes.js",
    "examples.js",
    "controls.js",
)


def page(
    title: str,
    sections: Sequence[Section],
    tables: Sequence[Table],
    plates: Mapping[str, str],
    on: date,
) -> str:
    """Return the page as HTML.

    Args:
        title: Its title.
        sections: One for each run.
        tables: What it shows at the end.
        plates: Further figures, as SVG by caption.
        on: The date of the report.
    """
    templates = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined
    )
    # The template marks css, script and data as safe: without "<" no element can begin in the data.
    data = page_data(sections)
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return templates.get_template("page.html").render(
        title=title,
        heading=_heading(sections),
        on=on.isoformat(),
        version=version("ccat-torch"),
        css=(_HERE / "page.css").read_text(encoding="utf-8"),
        script="\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        data=text,
        verdicts=[_verdict(section, on) for section in sections],
        notes=[note for one in sections for note in one.evaluation.notes],
        first=main_table([one.evaluation for one in sections]),
        definitions=_definitions(sections),
        marks=_marks(sections),
        explained=_explained(data),
        pictures=any(run["gallery"] for run in data["runs"]),
        plates={caption: image_url(svg.encode(), "svg+xml") for caption, svg in plates.items()},
        tables=tables,
        shown=shown,
        runs=[{"name": one.outcomes.run, "facts": _facts(one)} for one in sections],
    )


def _heading(sections: Sequence[Section]) -> str:
    name = sections[0].outcomes
    return name.run if len(sections) == 1 else f"{len(sections)} runs on {name.dataset}"


def _verdict(section: Section, on: date) -> dict[str, str]:
    """Return a run's name, the sentence about it, and what the sentence rests on."""
    run, found = section.outcomes, section.evaluation
    attacked = span(a.pooled.examples for a in found.attacks)
    facts = (
        run.dataset,
        on.isoformat(),
        f"{found.images:,} test images, {attacked} of them attacked",
        f"{len(run.attempts)} attempts",
    )
    return {"name": run.run, "sentence": verdict(found), "facts": " · ".join(facts)}


def _definitions(sections: Sequence[Section]) -> list[str]:
    """Return what each rate of the page divides by what, of those that are there."""
    conditions = [group.condition for one in sections for group in one.outcomes.groups]
    lists: list[tuple[str, Sequence[Rate]]] = [
        ("Under a threat", rates.ATTACK_RATES),
        ("distal", rates.NOISE_RATES),
        ("reject", rates.REJECTION_RATES),
    ]
    return [f"In %, with 95 % intervals. {definitions(rates.CLEAN_RATES)}"] + [
        f"{name}: {definitions(defined)}"
        for name, defined in lists
        if any(rates.rates_of(condition) is defined for condition in conditions)
    ]


def _marks(sections: Sequence[Section]) -> list[str]:
    """Return what marks and small print in the table mean, of those that are there."""
    attacks = [a for one in sections for a in one.evaluation.attacks]
    there = (
        (SEEN, True),
        (UNFINISHED, any(a.unfinished for a in attacks)),
        (PLANTED.replace("In square brackets", "planted"), any(a.planted for a in attacks)),
        (PROVED, any(one.evaluation.certificates for one in sections)),
    )
    return [text for text, is_there in there if is_there]


def _explained(data: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return explanation and place in the documentation of every check that doubts a number."""
    found = {
        one["check"]: (DOUBTS[one["check"]], one["link"])
        for run in data["runs"]
        for attacked in run["attacked"].values()
        for one in attacked["doubts"]
    }
    return {check: found[check] for check in DOUBTS if check in found}


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
