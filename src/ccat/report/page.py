"""The report as one page that needs no network: template, outcomes and pictures in a single HTML file."""

import base64
import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation import pooled_answers
from ccat.report.examples import png
from ccat.report.formats import shown
from ccat.report.look import looks
from ccat.report.tables import Table
from ccat.results import Answers, Evaluation, Group, Measured, Picture

_HERE = Path(__file__).parent / "page"
_NOBODY = 65535  # no attempt succeeded


@dataclass(frozen=True, eq=False)
class Section:
    """One run on the page. Pictures are by threat and source."""

    measured: Measured
    evaluation: Evaluation
    pictures: Mapping[tuple[str, str], Sequence[Picture]] = field(default_factory=dict)


def page(title: str, sections: Sequence[Section], tables: Sequence[Table], plates: Mapping[str, str], tpr: float) -> str:
    """HTML. `plates` are further figures, SVG by caption."""
    parts = {
        "title": html.escape(title),
        "tpr": f"{100 * tpr:g} %",
        "version": html.escape(version("ccat-torch")),
        "style": (_HERE / "page.css").read_text(),
        "script": (_HERE / "page.js").read_text(),
        "notes": "".join(f'<p class="note">{html.escape(note)}</p>' for one in sections for note in one.evaluation.notes),
        "analysis": _plates(plates),
        "tables": "".join(map(_table, tables)),
        "runs": "".join(map(_made, sections)),
        "data": json.dumps(_data(sections), allow_nan=False).replace("<", "\\u003c"),
    }
    text = (_HERE / "page.html").read_text()
    before, *fields = text.split("{{")
    return before + "".join(parts[name] + rest for name, rest in (one.split("}}", 1) for one in fields))


def _data(sections: Sequence[Section]) -> dict[str, Any]:
    threats: dict[str, dict[str, str]] = {}
    for one in sections:
        for group in one.measured.groups:
            name = f"distal {group.threat}" if group.source == "noise" else group.threat
            threats.setdefault(_key(group), {"key": _key(group), "name": name, "source": group.source})
    ordered = sorted(threats.values(), key=lambda threat: threat["source"] == "noise")
    styles = looks([one.measured for one in sections])
    classes = list(sections[0].measured.classes)
    return {
        "threats": ordered,
        "classes": classes,
        "runs": [{**_run(one), **style._asdict()} for one, style in zip(sections, styles, strict=True)],
    }


def _run(section: Section) -> dict[str, Any]:
    measured = section.measured
    attacked = {}
    for group in measured.groups:
        answers, by = pooled_answers(measured, group.members)
        own = measured.attempts[group.members[0]].clean
        attacked[_key(group)] = {
            **_answers(answers),
            "by": _packed(np.where(by < 0, _NOBODY, by), np.uint16),
            "seen": group.seen,
            "clean": _answers(own) if own else None,
        }
    return {
        "name": measured.run,
        "tau": section.evaluation.tau,
        "labels": _packed(measured.labels, np.uint16),
        "clean": _answers(measured.clean),
        "attacked": attacked,
        "attempts": [f"{one.name}{f' #{one.restart}' * (one.restart > 0)} ({one.threat})" for one in measured.attempts],
        "gallery": {f"{source} {threat}": [_picture(one) for one in pictures] for (threat, source), pictures in section.pictures.items()},
    }


def _key(group: Group) -> str:
    return f"{group.source} {group.threat}"


def _answers(answers: Answers) -> dict[str, str]:
    return {
        "score": _packed(answers.outcome.score, np.float64),
        "wrong": _packed(answers.outcome.wrong, np.uint8),
        "predicted": _packed(answers.predicted, np.uint16),
    }


def _packed(values: NDArray[Any], kind: type[np.generic]) -> str:
    return _base64(np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<")).tobytes())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _picture(picture: Picture) -> dict[str, Any]:
    difference = picture.attacked - picture.image
    largest = float(np.abs(difference).max()) or 1.0
    images = {"image": picture.image, "adversarial": picture.attacked, "difference": 0.5 + difference / (2 * largest)}
    answers = zip(
        ("cleanPredicted", "cleanConfidence", "predicted", "confidence"), (*picture.answer, *picture.attacked_answer), strict=True
    )
    return {
        "row": picture.row,
        "label": picture.label,
        **{name: "data:image/png;base64," + _base64(png(image)) for name, image in images.items()},
        **dict(answers),
    }


def _plates(plates: Mapping[str, str]) -> str:
    if not plates:
        return ""
    figures = "".join(
        f'<figure class="plate"><img alt="{html.escape(caption)}" src="data:image/svg+xml;base64,{_base64(svg.encode())}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, svg in plates.items()
    )
    return f'<section id="analysis"><h2>Analysis</h2><div class="charts">{figures}</div></section>'


def _table(table: Table) -> str:
    def cells(kind: str, texts: Sequence[str]) -> str:
        return "".join(f"<{kind}>{html.escape(text)}</{kind}>" for text in texts)

    rows = "".join(f"<tr>{cells('td', [shown(cell) for cell in row])}</tr>" for row in table.rows)
    head = f"<thead><tr>{cells('th', table.head)}</tr></thead>"
    legend = "<br>".join(html.escape(line) for line in table.legend)
    return (
        f"<details{' open' * (table.name == 'main')}><summary>{html.escape(table.title)}</summary>"
        f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div><p class="legend">{legend}</p></details>'
    )


def _made(section: Section) -> str:
    """Recipe, versions, cost."""
    measured = section.measured
    about = measured.about
    seconds, forwards, backwards = (sum(getattr(a, name) for a in measured.attempts) for name in ("seconds", "forwards", "backwards"))
    cost = f"{_hours(seconds)}, {forwards:,} forwards, {backwards:,} backwards"
    rows = [
        ("weights (SHA-256)", measured.weights),
        ("versions", ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())),
        ("device", f"{about.get('device', '?')}, {about.get('machine', '?')}"),
        ("attacks", f"{len(measured.attempts)} attempts, {cost}"),
        *measured.recipe.items(),
    ]
    body = "".join(f"<tr><td>{html.escape(str(name))}</td><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
    return (
        f'<details><summary>{html.escape(measured.run)}</summary><div class="scroll"><table><tbody>{body}</tbody></table></div></details>'
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} core hours" if seconds > 3600 else f"{math.ceil(seconds)} core seconds"
