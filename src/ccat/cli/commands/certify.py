"""`ccat certify`: bound the errors of a run from above, for every image that a threat allows."""

from argparse import Namespace

from ccat.bounds import is_box
from ccat.cli.screen import print_tables
from ccat.cli.tabulate import supported_tpr
from ccat.cli.values import engine_of, run_named, typed_condition
from ccat.evaluation.evaluate import evaluate
from ccat.pipeline.certify import certify_run
from ccat.pipeline.collect import collect
from ccat.progress import ProgressBar
from ccat.report.certificates import certificates_table
from ccat.runs import Run
from ccat.threats import Condition


def run(options: Namespace) -> None:
    """Certify, store and print the bounds."""
    one = run_named(options.run)
    engine, device = engine_of(options)
    typed = [typed_condition(text) for text in options.threat or ()]
    conditions = list(dict.fromkeys(typed)) or _attacked(one)
    where = (engine, device, ProgressBar(one.path.name))
    certify_run(one, conditions, options.examples, *where, options.bounds)
    outcomes = collect(one)
    table = certificates_table([evaluate(outcomes, supported_tpr([outcomes], options.tpr))])
    print_tables([table], None, [])
    print("Stored: tables of this run show these bounds beside what attacks found.")


def _attacked(run: Run) -> list[Condition]:
    """Return the boxes that a run was attacked within."""
    found = {record.condition for record, _, _ in run.attempts.records()}
    boxes = [one for one in found if is_box(one.threat) and not one.rejects]
    if not boxes:
        raise ValueError(
            f"{run.path} was not attacked within a box yet: name one, such as --threat Linf:0.3"
        )
    return sorted(boxes, key=lambda one: one.order)
