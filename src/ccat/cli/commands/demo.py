"""`ccat demo`: the paper's claim, put to the test on your own machine.

Trains a normal, an adversarially trained and a confidence-calibrated classifier side by side,
attacks all three, and tabulates what gets through.
"""

from argparse import Namespace
from collections import deque

from ccat.catalog import RECIPES, SUITES
from ccat.cli.screen import print_tables
from ccat.cli.tabulate import at_thresholds
from ccat.engine import Local, cores
from ccat.pipeline.attack import attack
from ccat.pipeline.check import check_small
from ccat.pipeline.collect import collect
from ccat.pipeline.train import begin, train
from ccat.progress import ProgressBar
from ccat.report import main_table
from ccat.runs import Run

# the longest first: two processes then end at about the same time
SHORT = ("mnist-ccat-demo", "mnist-at-demo", "mnist-normal-demo")
FULL = ("mnist-ccat-small", "mnist-at-small", "mnist-normal-small")


def run(options: Namespace) -> None:
    """Train, attack and report; what an earlier start has finished is not computed again."""
    from ccat.pipeline.report import report  # noqa: PLC0415 (matplotlib takes a second to import)

    suite, examples = ("quick", 1000) if options.full else ("demo", 200)
    names = FULL if options.full else SHORT
    engine = Local(options.workers or cores())
    runs = [begin(options.out / name, RECIPES[name], "cpu") for name in names]
    list(engine(_train, None, deque(runs)))
    for one in runs:
        bar = ProgressBar(f"attacking {one.path.name}")
        asked = (f"--suite {suite}", SUITES[suite].cases, examples, engine, "cpu")
        attack(one, *asked, bar)
        check_small(one, *asked)
    runs.reverse()
    outcomes = [collect(one) for one in runs]
    evaluations = at_thresholds(outcomes, 0.99)
    page = report(options.out / "report", runs, outcomes, evaluations)
    print_tables([main_table([first for first, *_ in evaluations])], None, [])
    print(f"\nLook at {page}")


def _train(_: None, run: Run) -> None:
    train(run, "cpu", ProgressBar(run.path.name, every=30, plain=True))
