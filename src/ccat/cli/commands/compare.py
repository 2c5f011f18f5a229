"""`ccat compare`: compare runs on the same images; seeds of one recipe are taken together."""

from argparse import Namespace

from ccat.cli.screen import print_tables
from ccat.cli.tabulate import collected, supported_tpr
from ccat.evaluation.compare import by_recipe, compare
from ccat.evaluation.evaluate import evaluate
from ccat.report import comparison_table, seeds_table


def run(options: Namespace) -> None:
    """Print a table per pair, and one over seeds."""
    _, outcomes = collected(options)
    if len(outcomes) < 2:
        raise ValueError("a comparison needs at least two runs")
    tpr = supported_tpr(outcomes, options.tpr)
    groups = by_recipe(outcomes)
    made = []
    if len(groups) < len(outcomes):
        each = {name: [evaluate(one, tpr) for one in group] for name, group in groups.items()}
        made.append(seeds_table(each))
    first = outcomes[0]
    for other in outcomes[1:]:
        compared = compare(first, other, tpr)
        if len(compared) == 1:
            raise ValueError(
                f"{first.run} and {other.run} were not attacked with a common threat: `ccat "
                f"attack` both with one suite"
            )
        made.append(comparison_table(first.run, other.run, tpr, compared))
    print_tables(made, options.format, [note for one in outcomes for note in one.notes])
