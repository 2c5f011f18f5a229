"""`ccat check`: plant errors in a run's model, and see how many of them a suite finds."""

from argparse import Namespace

from ccat.attacking.planted import can_plant
from ccat.cli.commands.attack import as_typed, chosen_cases
from ccat.cli.values import engine_of, run_named
from ccat.data import counted
from ccat.pipeline.check import EXAMPLES, check_run
from ccat.progress import ProgressBar
from ccat.report.planted import planted_table


def run(options: Namespace) -> None:
    """Check, store and print the outcome."""
    one = run_named(options.run)
    engine, device = engine_of(options)
    cases = chosen_cases(one, options, one.rejection)
    if not any(can_plant(case.threat) and case.condition.goal == "error" for case in cases):
        raise ValueError("errors can be planted in L∞, L2 and L1 only: choose such a --threat")
    examples = options.examples or min(EXAMPLES, len(counted(one.recipe.dataset)))
    suite, bar = as_typed(options), ProgressBar(one.path.name)
    where = (examples, engine, device, bar)
    print(planted_table(check_run(one, suite, cases, *where, complete=options.complete)))
    print("Stored: tables of this run show these numbers beside its errors.")
