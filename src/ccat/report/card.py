"""A model card: what a classifier that may reject withstands, with both bounds, on one screen.

It is made of an evaluation alone, so that anybody who has the attempts can make it again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ccat.evaluation import rates
from ccat.evaluation.results import Evaluation
from ccat.report.certificates import in_words
from ccat.report.formats import markdown, percent, shown
from ccat.report.table import Cell, Share, definitions
from ccat.report.to_json import to_json

_HERE = Path(__file__).parent / "page"


@dataclass(frozen=True)
class Facts:
    """What a card says of a model beside its numbers.

    Attributes:
        name: What the model is called.
        architecture: Its network.
        parameters: The number of its weights.
        method: How it was trained.
        seen: The threats that training has seen.
        suites: The attacks that were made, as commands name them.
        scored: The names of attempts that were made elsewhere.
        no_certificate: Why there is no bound from above; empty if there is one.
        versions: Of the software.
    """

    name: str
    architecture: str
    parameters: int
    method: str
    seen: tuple[str, ...]
    suites: tuple[str, ...]
    scored: tuple[str, ...]
    no_certificate: str
    versions: dict[str, str]


def card_json(facts: Facts, evaluation: Evaluation) -> dict[str, Any]:
    """Return a card as what JSON can store."""
    return {"facts": asdict(facts), "evaluation": to_json([evaluation])}


def card_markdown(facts: Facts, evaluation: Evaluation) -> str:
    """Return a card as Markdown."""
    head, rows = _table(evaluation)
    return "\n".join(
        [
            f"# {facts.name}",
            "",
            *(f"{line}\n" for line in _verdict(evaluation)),
            markdown(head, [[shown(cell) for cell in row] for row in rows]),
            "",
            *(f"{line}  " for line in _legend(evaluation)),
            "",
            *(f"- {line}" for line in _doubts(facts, evaluation)),
            "",
            "## The model",
            "",
            markdown(["", ""], [[name, value] for name, value in _about(facts, evaluation)]),
            "",
            "## Verify it, or lower it",
            "",
            *(f"{line}  " for line in HOW),
            "",
        ]
    )


def card_html(facts: Facts, evaluation: Evaluation) -> str:
    """Return a card as one HTML file."""
    templates = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined
    )
    head, rows = _table(evaluation)
    return templates.get_template("card.html").render(
        name=facts.name,
        css=(_HERE / "page.css").read_text(encoding="utf-8"),
        verdict=_verdict(evaluation),
        head=head,
        rows=[[shown(cell) for cell in row] for row in rows],
        legend=_legend(evaluation),
        doubts=_doubts(facts, evaluation),
        about=_about(facts, evaluation),
        how=HOW,
    )


HOW = (
    "`ccat verify CARD` checks every file of this folder, has the model answer the stored images "
    "again, and computes the numbers of this card from them.",
    "If you find worse images, send them as an .npz with the array x_adv, an image for each of the "
    "first test images. `ccat score CARD yours.npz --threat THREAT --name YOU` adds them, and "
    "writes the card again.",
)


def _table(evaluation: Evaluation) -> tuple[list[str], list[list[Cell]]]:
    above = {one.condition: one for one in evaluation.certificates}
    rows: list[list[Cell]] = []
    for a in evaluation.attacks:
        known = above.get(a.condition)
        rows.append(
            [
                a.condition.title + a.mark,
                Share.of(a.pooled.headline),
                "–" if known is None else Share.of(known.upper),
                Share(a.pooled.without_rejection) if not a.condition.on_noise else "–",
                a.planted.text if a.planted else "–",
                str(a.pooled.attempts),
                str(a.pooled.examples),
            ]
        )
    if evaluation.worst is not None:
        worst = evaluation.worst
        rows.append(
            [
                "worst case of all",
                Share.of(worst.headline),
                "–",
                Share(worst.without_rejection),
                "–",
                str(worst.attempts),
                str(worst.examples),
            ]
        )
    head = ["threat", "at least", "at most", "no rejection", "planted", "attempts", "images"]
    return head, rows


def _verdict(evaluation: Evaluation) -> list[str]:
    clean = {name: percent(one.value) for name, one in evaluation.rates.items()}
    lines = [
        f"On clean images it answers {clean[rates.COVERAGE.name]} % and is wrong in "
        f"{clean[rates.ERROR.name]} % of its answers; it rejects the others."
    ]
    if evaluation.worst is not None:
        lines.append(
            f"If an attacker may choose among all threats below, at least "
            f"{percent(evaluation.worst.headline.value)} % of what it accepts is wrong."
        )
    proved = [f"{one.condition.title} {in_words(one)}" for one in evaluation.certificates]
    if proved:
        lines.append(f"From both sides: {'; '.join(proved)}.")
    return lines


def _legend(evaluation: Evaluation) -> list[str]:
    tpr = evaluation.tpr_asked
    chosen = "at the τ given" if tpr is None else f"at the τ that accepts {100 * tpr:g} %"
    return [
        f"In % {chosen} of the correctly classified calibration images (τ = {evaluation.tau:.4f}); "
        f"in brackets 95 % intervals.",
        f"at least: what attacks found, {definitions(rates.ATTACK_RATES[:1])} On noise (distal) "
        f"{definitions(rates.NOISE_RATES[:1])}",
        "at most: what bounds prove; – no bound. no rejection: what attacks found where "
        "everything is accepted. planted: errors planted on purpose that the attacks found.",
        "* training has seen this threat. ‡ there is a reason to doubt the number, below.",
    ]


def _doubts(facts: Facts, evaluation: Evaluation) -> Sequence[str]:
    found = [
        f"{a.condition.title}: {doubt.text} ({doubt.link})."
        for a in evaluation.attacks
        for doubt in a.doubts
    ]
    return found + (
        [f"No bound from above: {facts.no_certificate}."] if facts.no_certificate else []
    )


def _about(facts: Facts, evaluation: Evaluation) -> list[tuple[str, str]]:
    return [
        ("network", f"{facts.architecture}, {facts.parameters:,} weights"),
        ("trained by", facts.method),
        ("threats seen in training", ", ".join(facts.seen) or "none"),
        (
            "data",
            f"{evaluation.dataset}, {evaluation.images} test images, {evaluation.calibration} "
            "others for τ",
        ),
        ("attacks", "; ".join((*facts.suites, *(f"scored: {one}" for one in facts.scored)))),
        ("weights (SHA-256)", evaluation.weights),
        ("versions", ", ".join(f"{name} {number}" for name, number in facts.versions.items())),
    ]
