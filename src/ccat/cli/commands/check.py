"""`ccat check`: plant errors in a run's model, and see how many of them a suite finds."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from ccat.attacking.planted import can_plant
from ccat.cli.commands.attack import add_suite, as_typed, chosen_cases
from ccat.cli.options import add_trust, engine_of, run_named
from ccat.data import counted
from ccat.evaluation.planted import PlantedErrors
from ccat.pipeline.check import EXAMPLES, check_run
from ccat.progress import ProgressBar
from ccat.report import markdown
from ccat.threats import Condition

_LEGEND = """
An error is planted at a point on the sphere of radius ε: a head on the model's own features is sure
of it there, and right at sampled points further inside. found: of those asked for; what one attack
has found is not asked of those below it, unless with --complete. Stored: tables of this run show
the number beside its errors. docs/DOUBTS.md explains it."""


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    add_suite(command, examples=f"images to plant an error around, at most {EXAMPLES} (default)")
    add_trust(command)


def run(options: Namespace) -> None:
    """Check, store and print the outcome."""
    one = run_named(options.run)
    engine, device = engine_of(options)
    cases = chosen_cases(one, options, one.rejection)
    if not any(can_plant(case.threat) for case in cases):
        raise ValueError("errors can be planted in L∞, L2 and L1 only: choose such a --threat")
    examples = options.examples or min(EXAMPLES, len(counted(one.recipe.dataset)))
    suite, bar = as_typed(options), ProgressBar(one.path.name)
    where = (examples, engine, device, bar)
    print(_table(check_run(one, suite, cases, *where, complete=options.complete)))


def _table(checks: Mapping[Condition, PlantedErrors]) -> str:
    rows = []
    for condition, one in checks.items():
        rows += [
            [condition.title, attack.name, f"{attack.asked}", f"{attack.found}"]
            for attack in one.attacks
        ]
        rows.append([condition.title, "all together", f"{one.planted}", f"{one.found}"])
    table = markdown(["threat", "attack", "asked for", "found"], rows)
    failed = [
        f"{condition.title}: around {one.inseparable} of {one.inseparable + one.planted} images no "
        f"error could be planted, because the model's features do not tell points of the sphere "
        f"from points inside."
        for condition, one in checks.items()
        if one.inseparable
    ]
    return "\n".join([table, _LEGEND, *failed])
