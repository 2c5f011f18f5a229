"""The paper's main table on MNIST, with our attacks: train, attack, certify, and write the tables.

    make results                       # everything, hours on two cores; rerun it after a stop
    make results EXAMPLES=100          # fewer images, in an hour or two
    make results ROWS="mnist-at-small mnist-ccat-small"    # only these
    python benchmarks/results.py --tables    # only the tables, from the stored evaluations
    python benchmarks/results.py --again Frame:2    # after an attack within one threat got better

Every row is a run directory, of the weights that come with ccat or, where there are none, trained
anew; what `ccat evaluate --format json` says of it is stored in docs/results, from which
docs/RESULTS.md gets its tables. Some rows are attacked a second time, as a copy, by the paper's
gradient attacks alone: NAME-paper. What is attacked again under one threat by a later version of
`standard` is stored as NAME-again, and takes the place of what the row has there.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ccat.catalog.zoo import zoo
from ccat.pipeline.zoo import copy_of_run
from ccat.runs import Run, RunError

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
# attacked by the paper's gradient attacks as well; what the paper says of them, where it does
PAPER: dict[str, dict[str, float]] = {
    "mnist-normal-small": {"noise Linf:0.3": 100.0},
    "mnist-at-small": {"Linf:0.3": 1.7, "Frame:2": 73.7, "noise Linf:0.3": 100.0},
    "mnist-ccat-small": {"Linf:0.3": 7.4, "Frame:2": 0.2, "noise Linf:0.3": 0.0},
    "mnist-ccat-wide": {"Linf:0.3": 7.4, "Frame:2": 0.2, "noise Linf:0.3": 0.0},
}
PAPER_EXAMPLES, _ALONE, _AGAIN = 200, "-paper", "-again"
BOXES = ("Linf:0.3", "Linf:0.4", "Frame:2")
COLUMNS = {
    "Linf:0.3": "L∞ 0.3",
    "Linf:0.4": "L∞ 0.4",
    "L2:3": "L2 3",
    "L1:18": "L1 18",
    "L0:15": "L0 15",
    "Frame:2": "frame 2",
    "noise Linf:0.3": "noise, L∞ 0.3",
}


def make(rows: Sequence[str], runs: Path, examples: int, workers: int) -> None:
    """Train, certify, attack and evaluate rows; what is stored is not computed again."""
    for recipe in rows:
        path = runs / recipe
        run = str(path)
        if recipe in zoo():
            copy_of_run(Run.open(zoo()[recipe]), path)
        else:
            _ccat("train", recipe, "--run", run)
        for box in BOXES if recipe in CERTIFIED else ():
            _ccat("certify", run, "--threat", box, "--examples", str(examples))
        given = (f"--examples={examples}", f"--workers={workers}")
        _ccat("attack", run, "--suite", "standard", *given)
        _ccat("corrupt", run)
        store(path)
        (STORED / f"{recipe}{_AGAIN}.json").unlink(missing_ok=True)
    for recipe in [row for row in rows if row in PAPER]:
        copy = copy_of_run(Run.open(runs / recipe), runs / f"{recipe}{_ALONE}").path
        suite = ("--suite", "paper-gradients", f"--examples={min(examples, PAPER_EXAMPLES)}")
        _ccat("attack", str(copy), *suite, f"--workers={workers}")
        store(copy)


def again(rows: Sequence[str], runs: Path, threat: str, examples: int, workers: int) -> None:
    """Attack models of the zoo again under one threat, and store what was found beside the rows."""
    for recipe in [row for row in rows if row in zoo()]:
        copy = copy_of_run(Run.open(zoo()[recipe]), runs / f"{recipe}{_AGAIN}").path
        asked = ("--suite", "standard", "--threat", threat, f"--examples={examples}")
        _ccat("attack", str(copy), *asked, f"--workers={workers}")
        store(copy)


def store(run: Path) -> None:
    """Store what is evaluated of a run where the tables are made from."""
    text = _ccat("evaluate", str(run), "--format", "json", quiet=True)
    STORED.mkdir(exist_ok=True)
    (STORED / f"{run.name}.json").write_text(
        json.dumps(json.loads(text), separators=(",", ":")) + "\n"
    )


def tables() -> dict[str, str]:
    """Return the tables by name, from the stored evaluations."""
    stored = _renewed(_stored(ROWS), _stored([f"{recipe}{_AGAIN}" for recipe in ROWS]))
    head = ["", "Err", "coverage", *COLUMNS.values(), "any unseen", "MNIST-C", "images"]
    main = [_row(ROWS[recipe], at[0]) for recipe, at in stored.items()]
    others = [
        [f"{ROWS[recipe]}, {100 * one['tpr_asked']:g} %", *_row("", one)[1:]]
        for recipe, at in stored.items()
        for one in at[1:]
    ]
    paper = [
        _beside(ROWS[name.removesuffix(_ALONE)], at[0], PAPER[name.removesuffix(_ALONE)])
        for name, at in _stored([f"{recipe}{_ALONE}" for recipe in PAPER]).items()
    ]
    return {
        "main": _markdown(head, main),
        "other TPRs": _markdown(head, others),
        "paper": _markdown(["", *COLUMNS.values(), "any unseen", "images"], paper),
    }


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
            {**one, "attacks": list((_found(one) | _found(new)).values())}
            for one, new in zip(at, later.get(f"{recipe}{_AGAIN}", at), strict=True)
        ]
        for recipe, at in stored.items()
    }


def _row(name: str, one: dict[str, Any]) -> list[str]:
    found = _found(one)
    proved = {_key(bound["condition"]): bound for bound in one["certificates"]}
    cells = [_cell(found.get(key), proved.get(key)) for key in COLUMNS]
    error, coverage = (_percent(one["rates"][key]["value"]) for key in ("error", "coverage"))
    corrupted = [each["rates"]["error"] for each in one["corruptions"] if each["name"] == "mean"]
    mean = _percent(corrupted[0]) if corrupted else "–"
    return [name, error, coverage, *cells, _unseen(one), mean, _sizes(found)]


def _beside(name: str, one: dict[str, Any], published: Mapping[str, float]) -> list[str]:
    """Return a row of what the paper's attacks find, with the paper's number behind ours."""
    found = _found(one)
    cells = [
        _cell(found.get(key), None) + (f"; paper {published[key]}" if key in published else "")
        for key in COLUMNS
    ]
    return [name, *cells, _unseen(one), _sizes(found)]


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
        rate = next(iter(attack["pooled"]["rates"].values()))  # RErr; of noise, what is accepted
        mark = "‡" if attack["doubts"] else ""
        seen = "\\*" if attack["seen"] else ""
        low, high = (_percent(rate[end]) for end in ("low", "high"))
        text = f"{_percent(rate['value'])}{mark}{seen} ({low}–{high})"
    if bound is not None:
        text += f" ≤ {_percent(bound['upper']['value'])}"
    return text


def _key(condition: dict[str, str]) -> str:
    return f"{'noise ' * (condition['source'] == 'noise')}{condition['threat']}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _ccat(*arguments: str, quiet: bool = False) -> str:
    if not quiet:
        print("ccat", *arguments, flush=True)
    command = [sys.executable, "-m", "ccat", *arguments]
    pipe = subprocess.PIPE if quiet else None
    done = subprocess.run(command, check=False, stdout=pipe, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout or ""


def main() -> None:
    """Make everything, or only the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=Path, default=Path("runs"))
    options.add_argument("--examples", type=int, default=1000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    options.add_argument("--again", metavar="THREAT", help="attack again under one threat")
    options.add_argument("--tables", action="store_true", help="only write the tables")
    options.add_argument("--store", type=Path, nargs="*", default=[], help="only store these runs")
    given = options.parse_args()
    for run in given.store:
        store(run)
    if not given.tables and not given.store:
        size = (given.examples, given.workers)
        try:
            if given.again:
                again(given.rows, given.runs, given.again, *size)
            else:
                make(given.rows, given.runs, *size)
        except RunError as wrong:  # a run of other weights than the zoo's lies there
            sys.exit(str(wrong))
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
