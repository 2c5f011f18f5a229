"""How much the numbers of a recipe vary: several seeds, and another rounding.

    python benchmarks/seeds.py [--out runs/seeds] [--workers 2]
    python benchmarks/seeds.py mnist-at-small mnist-msd-small --seeds 3 --threat Linf:0.3

Each recipe, by default those of the demo, is trained with the seeds 0 to 4, and once more with
seed 0 and weights that are disturbed by a relative 1e-6 after the first epoch, as another machine
might round. All are attacked as the demo attacks. What is stored already is not computed again, and
models of the zoo are not trained again.
"""

import argparse
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from ccat.catalog import RECIPES, select
from ccat.catalog.zoo import zoo
from ccat.cli.commands.demo import SHORT
from ccat.engine import Local
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.results import Evaluation
from ccat.pipeline.attack import attack
from ccat.pipeline.collect import collect
from ccat.pipeline.train import begin, train
from ccat.pipeline.zoo import copy_of_run
from ccat.progress import ProgressBar
from ccat.runs import Run
from ccat.threats import Condition, parse_threat
from ccat.training.recipe import Recipe

DISTURBED, EXAMPLES, SHAPE = 1e-6, 200, (1, 28, 28)


class Unit(NamedTuple):
    """A run to train, and which disturbance it gets; 0 is none."""

    run: Run
    rounding: int


class _EpochEndedError(Exception):
    pass


def main() -> None:
    """Train, attack, and print a table: of each number its range and the interval of seed 0."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipes", nargs="*", default=SHORT)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--roundings", type=int, default=1)
    parser.add_argument("--threat", type=parse_threat, action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("runs/seeds"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    engine = Local(options.workers)
    variants = [(seed, 0) for seed in range(options.seeds)]
    variants += [(0, 1 + number) for number in range(options.roundings)]
    units = {
        (name, seed, rounding): Unit(
            _run(
                options.out / f"{name}-{seed}{f'r{rounding}' if rounding else ''}",
                replace(RECIPES[name], seed=seed),
                rounding,
            ),
            rounding,
        )
        for seed, rounding in variants
        for name in options.recipes
    }
    list(engine(_train, None, deque(units.values())))
    cases = select("demo", SHAPE, conditions=[Condition(threat) for threat in options.threat])
    found: dict[str, list[Evaluation]] = {name: [] for name in reversed(options.recipes)}
    for (name, *_), unit in units.items():
        asked = ("--suite demo", cases, EXAMPLES, engine, "cpu")
        attack(unit.run, *asked, ProgressBar(unit.run.path.name))
        found[name].append(evaluate(collect(unit.run), 0.99))
    for line in table(found, options.seeds):
        print(line)


def table(found: dict[str, list[Evaluation]], count: int) -> list[str]:
    """Return rows in Markdown: seeds in order, then roundings; and whether they fit the interval.

    A number fits if its distance from that of seed 0 is less than the width of its interval.
    """
    first = next(iter(found.values()))[0]
    titles = ["Err", *(one.condition.title for one in first.attacks)]
    lines = [f"|  | {' | '.join(titles)} |", f"|---|{len(titles) * '---|'}"]
    for name, evaluations in found.items():
        cells = []
        for number in range(len(titles)):
            values = [
                one.rates["error"] if number == 0 else one.attacks[number - 1].pooled.headline
                for one in evaluations
            ]
            shown = [f"{100 * one.value:.1f}" for one in values]
            low, high = 100 * values[0].low, 100 * values[0].high
            spread = max(one.value for one in values) - min(one.value for one in values)
            mark = "" if 100 * spread <= high - low else " (!)"
            seeds = "; ".join(", ".join(some) for some in (shown[:count], shown[count:]) if some)
            cells.append(f"{seeds} ({low:.1f}–{high:.1f}){mark}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _run(path: Path, recipe: Recipe, rounding: int) -> Run:
    """Return the run of a recipe: a copy of the zoo's, if that is it, or one to train."""
    kept = zoo().get(recipe.name)
    if kept is not None and not rounding and Run.open(kept).recipe == recipe:
        return copy_of_run(Run.open(kept), path)
    return begin(path, recipe, "cpu")


def _train(_: None, unit: Unit) -> None:
    bar = ProgressBar(unit.run.path.name, every=60, plain=True)
    if unit.rounding and unit.run.training.checkpoint() is None:
        try:
            train(unit.run, "cpu", _first_epoch)
        except _EpochEndedError:
            _disturb(unit)
    train(unit.run, "cpu", bar)


def _first_epoch(done: int, total: int, text: str) -> None:
    if text.startswith("epoch 2/"):
        raise _EpochEndedError


def _disturb(unit: Unit) -> None:
    """Multiply every weight of the checkpoint by 1 + 1e-6 N(0, 1)."""
    saved = unit.run.training.checkpoint()
    assert saved is not None
    tensors, epoch = saved
    generator = torch.Generator().manual_seed(unit.rounding)
    moved = {
        name: one * (1 + DISTURBED * torch.randn(one.shape, generator=generator))
        if one.is_floating_point() and name.startswith("model.")
        else one
        for name, one in tensors.items()
    }
    assert any(not torch.equal(moved[name], one) for name, one in tensors.items())
    with unit.run.writing():
        unit.run.training.save_checkpoint(moved, epoch)


if __name__ == "__main__":
    main()
