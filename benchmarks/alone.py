"""What each attack of a suite finds alone, what only it finds, and what it costs.

    ccat attack RUN --suite standard --complete --examples 100 --keep none --no-check
    python benchmarks/alone.py RUN …

Of runs that were attacked with `--complete`, so that no image rested. Accepted errors at the τ of
99 % TPR, of the images that were attacked; restarts of a case count together. Passes are per image,
a backward counts as two forwards.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccat.evaluation.metrics import threshold
from ccat.evaluation.results import RunOutcomes
from ccat.pipeline.collect import collect
from ccat.runs import Run

Broken = NDArray[np.bool_]
Cell = tuple[int, int, float]  # found alone, found by no other, passes per image


def alone(outcomes: RunOutcomes) -> dict[str, dict[str, Cell]]:
    """Return what each case finds under each condition, and under "all" what they find together."""
    tau = threshold(outcomes.calibration, 0.99)
    broken: dict[str, dict[str, Broken]] = defaultdict(dict)
    passes: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in outcomes.attempts:
        assert one.asked.all(), f"{one.title} let images rest: attack with --complete"
        outcome = one.answers[outcomes.judge].outcome
        found = outcome.wrong & (outcome.score >= tau)
        cases = broken[one.condition.title]
        cases[one.name] = cases.get(one.name, np.zeros_like(found)) | found
        passes[one.condition.title][one.name] += (one.forwards + 2 * one.backwards) / one.examples
    table: dict[str, dict[str, Cell]] = {}
    for title, cases in broken.items():
        rows = {}
        for name, found in cases.items():
            others = [other for key, other in cases.items() if key != name]
            left = found & ~np.any(others, 0) if others else found
            rows[name] = (int(found.sum()), int(left.sum()), passes[title][name])
        together = int(np.any(list(cases.values()), 0).sum())
        table[title] = {**rows, "all": (together, 0, sum(passes[title].values()))}
    return table


def main() -> None:
    """Print a table for each kind of threat, with a column for each run and threat."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    columns = {
        (title.rpartition(":")[0], f"{path.name} {title.rpartition(':')[2]}"): cells
        for path in parser.parse_args().runs
        for title, cells in alone(collect(Run.open(path))).items()
    }
    for kind in dict.fromkeys(kind for kind, _ in columns):
        there = {name: cells for (of, name), cells in columns.items() if of == kind}
        cases = [case for cells in there.values() for case in cells if case != "all"]
        print(f"| {kind} | {' | '.join(there)} | passes |\n|---|{(1 + len(there)) * '---:|'}")
        for case in (*dict.fromkeys(cases), "all"):
            cells = [one.get(case) for one in there.values()]
            most = max(cell[2] for cell in cells if cell)
            print(f"| {case} | {' | '.join(map(_shown, cells))} | {most:,.0f} |")
        print()


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    return f"{cell[0]}, +{cell[1]}" if cell[1] else str(cell[0])


if __name__ == "__main__":
    main()
