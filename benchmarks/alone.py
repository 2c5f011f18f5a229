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
    """Print a table for each condition, with a column for each run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    tables = {path.name: alone(collect(Run.open(path))) for path in parser.parse_args().runs}
    for title in dict.fromkeys(title for one in tables.values() for title in one):
        there = {name: one[title] for name, one in tables.items() if title in one}
        print(f"| {title} | {' | '.join(there)} |\n|---|{len(there) * '---:|'}")
        for case in dict.fromkeys(case for one in there.values() for case in one):
            cells = [_shown(one.get(case)) for one in there.values()]
            print(f"| {case} | {' | '.join(cells)} |")
        print()


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    found, only, passes = cell
    return f"{found}{f', +{only}' if only else ''} @{passes:,.0f}"


if __name__ == "__main__":
    main()
