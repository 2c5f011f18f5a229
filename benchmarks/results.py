"""The paper's main table on MNIST, with our attacks: train, attack, certify, and write the tables.

    make results                       # everything, hours on two cores; rerun it after a stop
    make results EXAMPLES=100          # fewer images, in an hour or two
    make results ROWS="mnist-at-small mnist-ccat-small"    # only these
    python benchmarks/results.py --tables    # only the tables, from the stored evaluations
    python benchmarks/results.py --again Frame:2    # after an attack within one threat got better
    python benchmarks/results.py --prove     # bounds on all test images, in minutes

Every row is a run directory, of the weights that come with ccat or, where there are none, trained
anew; what `ccat evaluate --format json` says of it is stored in docs/results, from which
docs/RESULTS.md gets its tables. Some rows are attacked a second time, as a copy, by the paper's
gradient attacks alone: NAME-paper. What is attacked again under one threat by a later version of
`standard` is stored as NAME-again, and takes the place of what the row has there. What is proved on
all test images that do not choose τ is stored as NAME-proved.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from result_tables import (
    AGAIN,
    ALONE,
    BOXES,
    CERTIFIED,
    PAGE,
    PAPER,
    PAPER_EXAMPLES,
    PROVABLE,
    PROVED,
    ROWS,
    STORED,
    filled,
)

from ccat.catalog.zoo import zoo
from ccat.pipeline.zoo import copy_of_run
from ccat.runs import Run, RunError


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
        (STORED / f"{recipe}{AGAIN}.json").unlink(missing_ok=True)
    for recipe in [row for row in rows if row in PAPER]:
        copy = copy_of_run(Run.open(runs / recipe), runs / f"{recipe}{ALONE}").path
        suite = ("--suite", "paper-gradients", f"--examples={min(examples, PAPER_EXAMPLES)}")
        _ccat("attack", str(copy), *suite, f"--workers={workers}")
        store(copy)


def again(rows: Sequence[str], runs: Path, threat: str, examples: int, workers: int) -> None:
    """Attack models of the zoo again under one threat, and store what was found beside the rows."""
    for recipe in [row for row in rows if row in zoo()]:
        copy = copy_of_run(Run.open(zoo()[recipe]), runs / f"{recipe}{AGAIN}").path
        asked = ("--suite", "standard", "--threat", threat, f"--examples={examples}")
        _ccat("attack", str(copy), *asked, f"--workers={workers}")
        store(copy)


def prove(rows: Sequence[str], runs: Path, workers: int) -> None:
    """Bound models of the zoo on all test images that do not choose τ, and store what is proved."""
    for recipe in [row for row in rows if row in CERTIFIED and row in zoo()]:
        copy = copy_of_run(Run.open(zoo()[recipe]), runs / f"{recipe}{PROVED}").path
        names = [name.replace("noise ", "distal:") for name in PROVABLE]
        boxes = [part for name in names for part in ("--threat", name)]
        _ccat("certify", str(copy), *boxes, f"--workers={workers}")
        store(copy)


def store(run: Path) -> None:
    """Store what is evaluated of a run where the tables are made from, wherever the run lies."""
    text = _ccat("evaluate", str(run), "--format", "json", quiet=True)
    text = text.replace(json.dumps(f"{run.parent}/")[1:-1], "runs/")  # sentences name commands
    STORED.mkdir(exist_ok=True)
    (STORED / f"{run.name}.json").write_text(
        json.dumps(json.loads(text), separators=(",", ":")) + "\n"
    )


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
    options.add_argument("--prove", action="store_true", help="bound on all test images")
    options.add_argument("--tables", action="store_true", help="only write the tables")
    options.add_argument("--store", type=Path, nargs="*", default=[], help="only store these runs")
    given = options.parse_args()
    for run in given.store:
        store(run)
    if not given.tables and not given.store:
        size = (given.examples, given.workers)
        try:
            if given.prove:
                prove(given.rows, given.runs, given.workers)
            elif given.again:
                again(given.rows, given.runs, given.again, *size)
            else:
                make(given.rows, given.runs, *size)
        except RunError as wrong:  # a run of other weights than the zoo's lies there
            sys.exit(str(wrong))
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
