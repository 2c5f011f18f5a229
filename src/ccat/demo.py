"""The demo: the paper's claim, put to the test on one's own machine.

Trains a normal, an adversarially trained and a confidence-calibrated classifier side by side, attacks all three, and tabulates what
gets through.
"""

from pathlib import Path

from ccat.cookbook import RECIPES
from ccat.engine import Local
from ccat.evaluation import evaluate
from ccat.progress import Reporter
from ccat.report import as_markdown, main_table
from ccat.reporting import report
from ccat.stages import attack, begin, measure, train
from ccat.store import Run
from ccat.suites import SUITES

# the longest first: two processes then end at about the same time
SHORT = ("mnist-ccat-demo", "mnist-at-demo", "mnist-normal-demo")
FULL = ("mnist-ccat-small", "mnist-at-small", "mnist-normal-small")


def demo(root: Path, full: bool, workers: int) -> str:
    """The table and where the report lies. What is already there from an earlier start is not computed again."""
    names = FULL if full else SHORT
    suite, examples = ("quick", 1000) if full else ("demo", 200)
    runs = [begin(root / name, RECIPES[name], "cpu") for name in names]
    engine = Local(workers)
    list(engine(_train, None, runs))
    for run in runs:
        attack(run, suite, SUITES[suite], examples, engine, "cpu", Reporter(f"attacking {run.path.name}"))
    runs.reverse()
    measured = [measure(run) for run in runs]
    evaluations = [[evaluate(one, tpr) for tpr in (0.99, 0.98, 0.95)] for one in measured]
    page = report(root / "report", runs, measured, evaluations)
    return f"{as_markdown(main_table([first for first, *_ in evaluations]))}\n\nLook at {page}"


def _train(_: None, run: Run) -> None:
    train(run, "cpu", Reporter(run.path.name, every=30, plain=True))
