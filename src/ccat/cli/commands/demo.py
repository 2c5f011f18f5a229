"""`ccat demo`: the paper's claim, put to the test on your own machine.

Trains a normal, an adversarially trained and a confidence-calibrated classifier side by side,
attacks all three and a certified one that comes with ccat, and tabulates what gets through. The
confidence-calibrated one is attacked twice: by the paper's attacks in brief, and by ours.
"""

import sys
import time
from argparse import Namespace
from collections import deque
from pathlib import Path
from typing import NamedTuple

import torch

from ccat.catalog import RECIPES, SUITES
from ccat.cli.screen import print_tables
from ccat.cli.tabulate import at_thresholds
from ccat.engine import Engine, Here, Local, cores, one_thread
from ccat.models import create_model
from ccat.pipeline.attack import attack
from ccat.pipeline.certify import certify_run
from ccat.pipeline.check import check_small
from ccat.pipeline.collect import collect
from ccat.pipeline.train import begin, train
from ccat.pipeline.zoo import copy_of_run, copy_of_zoo
from ccat.progress import ProgressBar, duration
from ccat.report import main_table
from ccat.runs import Run
from ccat.threats import Condition, Linf

SHORT = ("mnist-ccat-demo", "mnist-at-demo", "mnist-normal-demo")
FULL = ("mnist-ccat-small", "mnist-at-small", "mnist-normal-small")
ZOO = "zoo:mnist-ibp-steep"
PROVED = (Condition(Linf(0.3)), Condition(Linf(0.4)))
PASSES = 400_000  # forwards of 100 images through the small network cost as much as the demo


class Row(NamedTuple):
    """A row of the table: a run, the suite that attacks it, and what is proved of it before."""

    name: str
    run: Run
    suite: str | None = None
    proved: tuple[Condition, ...] = ()


def run(options: Namespace) -> None:
    """Train, attack and report; what an earlier start has finished is not computed again."""
    from ccat.pipeline.report import report  # noqa: PLC0415 (matplotlib takes a second to import)

    suite, examples = ("quick", 1000) if options.full else ("demo", 200)
    engine = Local(options.workers or cores())
    names = FULL if options.full else SHORT
    ccat, at, normal = (begin(options.out / name, RECIPES[name], "cpu") for name in names)
    _say("Three small classifiers of MNIST are trained, then attacked.")
    if not options.full and not ccat.training.trained:
        _say(f"This takes about {_estimate(min(engine.workers, 4))} on {engine.workers} cores.")
    _say(f"1. Training, and attacking {examples} test images of each but CCAT")
    others = (
        Row("adversarial training", at, suite),
        Row("certified (zoo)", copy_of_zoo(ZOO, options.out), suite, PROVED),
        Row("normal training", normal, suite),
    )
    # Training CCAT takes one process about as long as all the others take another.
    list(engine(_prepared, examples, deque((Row("CCAT", ccat), *others))))
    _say("2. Attacking CCAT by the paper's attacks in brief, and by ours")
    both = (
        Row("CCAT, paper's attacks", _paper_copy(ccat), "paper-brief"),
        Row("CCAT, our attacks", ccat, suite),
    )
    for row in both:
        _attack(row, examples, engine, ProgressBar(row.name))
    rows = (others[2], others[0], *both, others[1])
    _say("3. Evaluating, and drawing the report")
    runs = [row.run for row in rows]
    outcomes = [collect(row.run, row.name) for row in rows]
    evaluations = at_thresholds(outcomes, 0.99)
    page = report(options.out / "report", runs, outcomes, evaluations)
    print_tables([main_table([first for first, *_ in evaluations])], None, [])
    print(_next(page, ccat.path))


def _prepared(examples: int, row: Row) -> None:
    """Train the run of a row, prove and attack what is asked for, all in this process."""
    train(row.run, "cpu", _lines(row.run.path.name))
    if row.proved:
        certify_run(row.run, row.proved, examples, Here(), "cpu", _lines(f"{row.name}, bounds"))
    if row.suite:
        _attack(row, examples, Here(), _lines(row.name))


def _lines(title: str) -> ProgressBar:
    """Plain lines now and then, of several processes that share a terminal."""
    return ProgressBar(title, every=30, plain=True)


def _paper_copy(run: Run) -> Run:
    """The same model as a run of its own, for the attacks of the paper alone."""
    return copy_of_run(run, run.path.with_name(f"{run.path.name}-paper"))


def _attack(row: Row, examples: int, engine: Engine, bar: ProgressBar) -> None:
    assert row.suite is not None
    cases = SUITES[row.suite].cases
    asked = (f"--suite {row.suite}", cases, examples, engine, "cpu")
    attack(row.run, *asked, bar)
    check_small(row.run, *asked)


def _estimate(workers: int) -> str:
    """Return how long the demo will take, from a second of passes on this machine."""
    model = create_model("lenet", torch.Generator().manual_seed(0)).eval()
    x, count = torch.zeros(100, 1, 28, 28), 0
    with one_thread(), torch.no_grad():
        model(x)
        begin = time.perf_counter()
        while time.perf_counter() < begin + 1:
            model(x)
            count += 1
    return duration((time.perf_counter() - begin) / count * PASSES / workers)


def _next(page: Path, run: Path) -> str:
    return f"""
Look at {page}. Then try:
  ccat attack {run} --suite standard      attack it harder
  ccat predict {run} digit.png            a label, or "rejected", for pictures of your own
  ccat zoo                                models that come with ccat, and what they withstand"""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
