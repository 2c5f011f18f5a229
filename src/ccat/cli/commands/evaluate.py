"""`ccat evaluate`: tabulate errors of runs, clean and under attack, with rejection."""

import json
import warnings
from argparse import Namespace

from ccat.attacking.rest import USUAL
from ccat.cli.options.evaluate import TABLES
from ccat.cli.screen import print_tables
from ccat.cli.tabulate import at_thresholds, collected, supported_tpr
from ccat.report import tables, to_json

_FIRST = {"csv": 1}  # how many tables are printed by default; four in other formats


def run(options: Namespace) -> None:
    """Print the tables, and store the evaluation in each run."""
    if options.format == "json" and (options.table or options.columns):
        option = "table" if options.table else "columns"
        raise ValueError(f"--format json is the whole document: leave --{option} out")
    runs, outcomes = collected(options)
    tpr = USUAL if options.tau is not None else supported_tpr(outcomes, options.tpr)
    at = at_thresholds(outcomes, tpr, options.tau)
    if options.tau is None:
        for one, evaluations in zip(runs, at, strict=True):
            try:
                one.save_evaluation(to_json(evaluations))
            except OSError as full:  # tables are printed all the same
                warnings.warn(f"the evaluation of {one.path} is not stored ({full})", stacklevel=1)
    unaware = [other for one in outcomes if (other := one.unaware())]
    at += at_thresholds(unaware, tpr, options.tau)  # as the paper evaluates detectors
    if options.format == "json":
        everything = [one for evaluations in at for one in evaluations]
        print(json.dumps(to_json(everything), indent=1, allow_nan=False))
        return
    made = tables(at)
    default = TABLES[: 1 if options.columns else _FIRST.get(options.format, 4)]
    names = {None: default, "all": TABLES}.get(options.table, (options.table,))
    chosen = [table for table in made if table.name in names]
    if not chosen:
        there = ", ".join(table.name for table in made)
        raise ValueError(f"there is no table {options.table!r} here; there are {there}")
    if options.columns:
        chosen = [table.select(options.columns) for table in chosen]
    notes = [note for evaluations in at for note in evaluations[0].notes]
    print_tables(chosen, options.format, notes)
