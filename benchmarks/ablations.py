"""The paper's ablation of its attack: iterations, backtracking, momentum and the start of PGD-Conf.

    python benchmarks/ablations.py RUN … [--threat Linf:0.3] [--images 200]

Prints a table with a row for each variant and a column for each run: RErr in % at the τ of 99 % TPR
that this variant alone reaches on the first test images. The last row is the worst of all of them.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Generator

from ccat import PGD, Linf, Problem, Threat
from ccat.catalog.paper import paper_rate
from ccat.data import counted, split_of
from ccat.evaluation.metrics import robust_error
from ccat.evaluation.outcome import Outcome, outcome, threshold, worst
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.models.predict import probabilities
from ccat.objectives import other_class_confidence
from ccat.runs import Run
from ccat.threats import parse_threat


def variants(threat: Threat) -> Mapping[str, PGD]:
    """PGD-Conf as the paper varies it; 1000 iterations from the image are its own choice."""
    own = PGD(1000, paper_rate(threat, 30))
    free = replace(own, backtracking=None)
    return {
        "T = 40": replace(own, iterations=40),
        "T = 200": replace(own, iterations=200),
        "T = 1000": own,
        "T = 2000": replace(own, iterations=2000),
        "T = 60, no backtracking": replace(free, iterations=60),
        "T = 300, no backtracking": replace(free, iterations=300),
        "T = 1000, no momentum": replace(own, momentum=0.0),
        "T = 300, neither": replace(free, iterations=300, momentum=0.0),
        "T = 1000, one random start": replace(own, start="random"),
    }


def measured(run: Run, threat: Threat, count: int) -> dict[str, float]:
    """Return the RErr that every variant reaches on a run, and the worst of them."""
    model = run.training.model()
    last = split_of(run.recipe.dataset, "test")[-1000:]
    tau = threshold(outcome(probabilities(model, last.floats()), last.y), 0.99)
    images = counted(run.recipe.dataset)[:count]
    x, y = images.floats(), images.y
    clean = outcome(probabilities(model, x), y)
    fast = attack_copy(model, x)
    found: dict[str, Outcome] = {}
    for name, attack in variants(threat).items():
        given = []
        for first in range(0, len(x), 100):
            rows = slice(first, first + 100)
            problem = Problem.of(fast, x[rows], y[rows], threat, other_class_confidence)
            delta = attack(problem, Generator().manual_seed(first))
            given.append(probabilities(model, problem.images(delta)))
        found[name] = outcome(torch.cat(given), y)
        print(run.path.name, name, flush=True)
    found["the worst of all"] = worst(clean, list(found.values()))
    return {name: robust_error(clean, one, tau) for name, one in found.items()}


def main() -> None:
    """Attack every run with every variant and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--threat", type=parse_threat, default=Linf(0.3))
    parser.add_argument("--images", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed()
    columns = {
        path.name: measured(Run.open(path), options.threat, options.images) for path in options.runs
    }
    print(f"| | {' | '.join(columns)} |\n|---|{len(columns) * '---:|'}")
    for name in (*variants(options.threat), "the worst of all"):
        cells = (f"{100 * errors[name]:.1f}" for errors in columns.values())
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
