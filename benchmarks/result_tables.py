"""The tables of docs/RESULTS.md, from the evaluations that are stored in docs/results.

NAME.json is what `ccat evaluate --format json` says of a row; NAME-paper.json, of the same model
attacked by the paper's gradient attacks alone; NAME-again.json, of what was attacked again under
one threat, which takes the place of what the row has there; NAME-proved.json has bounds on all
images.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORED, PAGE = ROOT / "docs" / "results", ROOT / "docs" / "RESULTS.md"
ROWS = {
    "mnist-normal-small": "Normal",
    "mnist-at-small": "AT-50 %",
    "mnist-at100-small": "AT-100 %",
    "mnist-atconf-small": "AT-Conf",
    "mnist-madry-small": "Madry",
    "mnist-trades-small": "TRADES",
    "mnist-msd-small": "MSD",
    "mnist-ccat-small": "CCAT",
    "mnist-at-wide": "AT-50 %, wide",
    "mnist-ccat-wide": "CCAT, wide",
    "mnist-ccat-union": "CCAT, four threats, wide",
    "mnist-ibp-small": "IntervalBound",
    "mnist-ibp-wide": "IntervalBound, wide",
    "mnist-ibp-steep": "IntervalBound, steep",
    "mnist-beyond-steep": "IntervalBound and CCAT, steep",
}
CERTIFIED = ("mnist-ibp-small", "mnist-ibp-wide", "mnist-ibp-steep", "mnist-beyond-steep")
# what the paper says of MNIST, where it says it
PUBLISHED: dict[str, dict[str, float]] = {
    "mnist-normal-small": {"noise Linf:0.3": 100.0, "MNIST-C": 32.8, "unseen": 100.0},
    "mnist-at-small": {
        "Linf:0.3": 1.7,
        "Frame:2": 73.7,
        "noise Linf:0.3": 100.0,
        "MNIST-C": 12.6,
        "unseen": 100.0,
    },
    "mnist-at100-small": {
        "Frame:2": 62.3,
        "noise Linf:0.3": 100.0,
        "MNIST-C": 17.6,
        "unseen": 100.0,
    },
    "mnist-trades-small": {"noise Linf:0.3": 100.0, "MNIST-C": 7.9, "unseen": 99.9},
    "mnist-msd-small": {"Frame:2": 8.8, "noise Linf:0.3": 100.0, "MNIST-C": 6.0, "unseen": 99.2},
    "mnist-ccat-small": {
        "Linf:0.3": 7.4,
        "Frame:2": 0.2,
        "noise Linf:0.3": 0.0,
        "MNIST-C": 5.7,
        "unseen": 23.9,
    },
}
PAPER = (*PUBLISHED, "mnist-ccat-wide")  # attacked by the paper's gradient attacks as well
_BESIDE = ("Linf:0.3", "Frame:2", "noise Linf:0.3", "MNIST-C", "unseen")
PAPER_EXAMPLES, ALONE, AGAIN, PROVED = 200, "-paper", "-again", "-proved"
BOXES = ("Linf:0.3", "Linf:0.4", "Frame:2")
PROVABLE = ("Linf:0.3", "Linf:0.4", "noise Linf:0.3")  # on all images
COLUMNS = {
    "Linf:0.3": "L∞ 0.3",
    "Linf:0.4": "L∞ 0.4",
    "L2:3": "L2 3",
    "L1:18": "L1 18",
    "L0:15": "L0 15",
    "Frame:2": "frame 2",
    "noise Linf:0.3": "noise, L∞ 0.3",
}


def tables() -> dict[str, str]:
    """Return the tables by name, from the stored evaluations."""
    stored = renewed()
    head = ["", "Err", "coverage", *COLUMNS.values(), "any unseen", "MNIST-C", "images"]
    main = [_row(ROWS[recipe], at[0]) for recipe, at in stored.items()]
    others = [
        [f"{ROWS[recipe]}, {100 * one['tpr_asked']:g} %", *_row("", one)[1:]]
        for recipe, at in stored.items()
        for one in at[1:]
    ]
    paper = [
        _alone(ROWS[name.removesuffix(ALONE)], at[0])
        for name, at in _stored([f"{recipe}{ALONE}" for recipe in PAPER]).items()
    ]
    proved = [
        _proved(ROWS[name.removesuffix(PROVED)], at[0])
        for name, at in _stored([f"{recipe}{PROVED}" for recipe in CERTIFIED]).items()
    ]
    return {
        "main": _markdown(head, main),
        "proved": _markdown(["", "Err", *(COLUMNS[box] for box in PROVABLE), "images"], proved),
        "other TPRs": _markdown(head, others),
        "paper": _markdown(["", *COLUMNS.values(), "any unseen", "images"], paper),
        "published": _markdown(
            ["", *(COLUMNS.get(key, key) for key in _BESIDE[:-1]), "any unseen"],
            [_beside(recipe, stored[recipe][0]) for recipe in PUBLISHED if recipe in stored],
        ),
    }


def renewed() -> dict[str, list[dict[str, Any]]]:
    """Return the evaluations of all rows at each TPR, with what was attacked again since."""
    return _renewed(_stored(ROWS), _stored([f"{recipe}{AGAIN}" for recipe in ROWS]))


def filled(page: str) -> str:
    """Return a page with the tables of today between its marks."""
    for name, table in tables().items():
        mark = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        found = re.search(mark, page, flags=re.S)
        if found is None:
            sys.exit(f"{PAGE} has no place for the table {name!r}")
        page = page[: found.end(1)] + table + page[found.start(2) :]
    return page


def _stored(names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return what is stored of some runs, at each TPR."""
    files = {name: STORED / f"{name}.json" for name in names}
    return {
        name: json.loads(file.read_text())["evaluations"]
        for name, file in files.items()
        if file.is_file()
    }


def _renewed(
    stored: dict[str, list[dict[str, Any]]], later: dict[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """Return what is stored, with what was attacked again in the place of what it replaces."""
    return {
        recipe: [
            _updated(one, new)
            for one, new in zip(at, later.get(f"{recipe}{AGAIN}", at), strict=True)
        ]
        for recipe, at in stored.items()
    }


def _updated(one: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation with the attacks of a later one in the place of its own.

    Images were not kept, so of worst cases over threats the larger one is what is known.
    """

    def larger(old: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return max(old, other, key=lambda each: float(each["rates"]["robust_error"]["value"]))

    # Under the name of a threat stands the worst case over all unseen threats but that one.
    renewed = {attack["condition"]["threat"] for attack in new["attacks"]}
    everything = new["unseen"].get("all unseen")
    unseen = {
        name: old if everything is None or name in renewed else larger(old, everything)
        for name, old in one["unseen"].items()
    }
    attacks = list((_found(one) | _found(new)).values())
    worst = larger(one["worst"], new["worst"]) if one["worst"] and new["worst"] else one["worst"]
    return {**one, "attacks": attacks, "unseen": unseen, "worst": worst}


def _row(name: str, one: dict[str, Any]) -> list[str]:
    found = _found(one)
    proved = {_key(bound["condition"]): bound for bound in one["certificates"]}
    cells = [_cell(found.get(key), proved.get(key)) for key in COLUMNS]
    error, coverage = (_percent(one["rates"][key]["value"]) for key in ("error", "coverage"))
    return [name, error, coverage, *cells, _unseen(one), _corrupted(one), _sizes(found)]


def _alone(name: str, one: dict[str, Any]) -> list[str]:
    """Return a row of what the paper's attacks find."""
    found = _found(one)
    return [name, *(_cell(found.get(key), None) for key in COLUMNS), _unseen(one), _sizes(found)]


def _beside(recipe: str, one: dict[str, Any]) -> list[str]:
    """Return a row of our numbers, each with the paper's behind it where the paper has one."""
    found, paper = _found(one), PUBLISHED[recipe]
    ours = {key: _percent(_rate(attack)["value"]) for key, attack in found.items()}
    ours |= {"MNIST-C": _corrupted(one), "unseen": _unseen(one)}
    cells = [
        ours.get(key, "–") + (f" / {paper[key]:.1f}" if key in paper else "") for key in _BESIDE
    ]
    return [ROWS[recipe], *cells]


def _corrupted(one: dict[str, Any]) -> str:
    """Return the mean Err over the corruptions."""
    means = [each["rates"]["error"] for each in one["corruptions"] if each["name"] == "mean"]
    return _percent(means[0]) if means else "–"


def _proved(name: str, one: dict[str, Any]) -> list[str]:
    """Return a row of what is possible at most."""
    bounds = {_key(bound["condition"]): bound for bound in one["certificates"]}
    cells = [f"≤ {_percent(bounds[box]['upper']['value'])}" for box in PROVABLE]
    error = _interval(one["rates"]["error"])
    return [name, error, *cells, str(bounds[PROVABLE[0]]["examples"])]


def _interval(rate: dict[str, Any]) -> str:
    low, high = (_percent(rate[end]) for end in ("low", "high"))
    return f"{_percent(rate['value'])} ({low}–{high})"


def _found(one: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {_key(attack["condition"]): attack for attack in one["attacks"]}


def _unseen(one: dict[str, Any]) -> str:
    """Return RErr if the attacker chooses the threat for each image, of those not trained on."""
    pooled = one["unseen"].get("all unseen")  # missing if no unseen threat was attacked
    return "–" if pooled is None else _percent(pooled["rates"]["robust_error"]["value"])


def _sizes(found: dict[str, dict[str, Any]]) -> str:
    """Return how many images were attacked, the fewest and the most."""
    sizes = [found[key]["pooled"]["examples"] for key in COLUMNS if key in found]
    return " to ".join(map(str, sorted({min(sizes), max(sizes)}))) if sizes else "–"


def _cell(attack: dict[str, Any] | None, bound: dict[str, Any] | None) -> str:
    """Return what attacks found, with its interval and marks, and what is possible at most."""
    text = "–"
    if attack is not None:
        rate = _rate(attack)
        mark = "‡" if attack["doubts"] else ""
        seen = "\\*" if attack["seen"] else ""
        low, high = (_percent(rate[end]) for end in ("low", "high"))
        text = f"{_percent(rate['value'])}{mark}{seen} ({low}–{high})"
    if bound is not None:
        text += f" ≤ {_percent(bound['upper']['value'])}"
    return text


def _rate(attack: dict[str, Any]) -> dict[str, Any]:
    """Return RErr; of noise, the share that is accepted."""
    rate: dict[str, Any] = next(iter(attack["pooled"]["rates"].values()))
    return rate


def _key(condition: dict[str, str]) -> str:
    return f"{'noise ' * (condition['source'] == 'noise')}{condition['threat']}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
