"""Commands that judge: tables over runs."""

import json
import math
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ccat.cli.arguments import Add, add_device, count, device_of, number, run_of
from ccat.comparison import by_recipe, compare
from ccat.evaluation import evaluate
from ccat.metrics import threshold
from ccat.report import FORMATS, comparison_table, document, proposition_table, seeds_table, tables
from ccat.results import Evaluation, Measured
from ccat.stages import analyse, measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = ("main", "thresholds", "unseen", "attacks", "strongest", "corruptions")
TPRS = (0.99, 0.98, 0.95)


def add_commands(add: Add) -> None:
    """To the command line."""
    command = add("evaluate", _evaluate, "tabulate errors of runs, clean and under attack, with rejection")
    command.add_argument("runs", nargs="+", metavar="RUN")
    _add_threshold(command)
    command.add_argument("--format", choices=[*FORMATS, "json"], default="md", help="of what is printed (default: md)")
    command.add_argument(
        "--table", metavar="NAME", help=f"only this table: {', '.join(TABLES)}, or all (default: the first three, as CSV the first)"
    )
    add_device(command)

    command = add("compare", _compare, "compare runs on the same images; seeds of one recipe are taken together")
    command.add_argument("runs", nargs="+", metavar="RUN", help="the first one is compared with each of the others")
    command.add_argument("--tpr", type=number, default=0.99, help="share of correct held-out images to accept (default: 0.99)")
    command.add_argument("--format", choices=FORMATS, default="md", help="of what is printed (default: md)")
    add_device(command)

    command = add("report", _report, "write a page to look at, tables and figures for a paper")
    command.add_argument("runs", nargs="+", metavar="RUN")
    command.add_argument("--out", type=Path, default=Path("report"), metavar="DIR", help="(default: report)")
    command.add_argument("--tpr", type=number, default=0.99, help="share of correct held-out images to accept (default: 0.99)")
    add_device(command)

    command = add("analyse", _analyse, "look at how attacks climb, and what runs say beyond ε and between images")
    command.add_argument("runs", nargs="+", metavar="RUN")
    command.add_argument("--examples", type=count, default=100, help="test images (default: 100)")
    command.add_argument("--iterations", type=count, default=200, help="of the attacks (default: 200)")
    add_device(command)
    command.add_argument("--out", type=Path, default=Path("analysis"), metavar="DIR", help="where figures go (default: analysis)")
    command = add("proposition", _proposition, "solve the paper's Proposition 1 numerically, and draw where its condition suffices")
    command.add_argument("--out", type=Path, default=Path("analysis"), metavar="DIR", help="where the figure goes (default: analysis)")


def _add_threshold(command: ArgumentParser) -> None:
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--tpr", type=number, default=0.99, help="share of correct held-out images to accept (default: 0.99)")
    choice.add_argument("--tau", type=number, help="the threshold itself instead; none rejects nothing")


def _evaluate(options: Namespace) -> None:
    measured = _measured(options.runs, options)
    at = _at_thresholds(measured, options)
    if options.tau is None:
        for name, evaluations in zip(options.runs, at, strict=True):
            try:
                run_of(name).save_evaluation(document(evaluations))
            except OSError as full:  # a full disk, or someone else's run: the tables are printed all the same
                warnings.warn(f"the evaluation of {name} is not stored ({full})", stacklevel=1)
    at += _at_thresholds([unaware for one in measured if (unaware := one.unaware())], options)  # beside, as the paper evaluates detectors
    if options.format == "json":
        if options.table is not None:
            raise ValueError("--format json is the whole document: leave --table out")
        print(json.dumps(document([one for evaluations in at for one in evaluations]), indent=1, allow_nan=False))
        return
    made = tables(at)
    names = {None: TABLES[: 1 if options.format == "csv" else 3], "all": TABLES}.get(options.table, (options.table,))
    chosen = [table for table in made if table.name in names]
    if not chosen:
        raise ValueError(f"there is no table {options.table!r} here; there are {', '.join(table.name for table in made)}")
    print("\n\n".join(FORMATS[options.format](table).rstrip("\n") for table in chosen))
    _print_notes([note for evaluations in at for note in evaluations[0].notes], options.format)


def _compare(options: Namespace) -> None:
    measured = _measured(options.runs, options)
    if len(measured) < 2:
        raise ValueError("a comparison needs two runs or more")
    groups = by_recipe(measured)
    made = [seeds_table({name: [evaluate(one, options.tpr) for one in group] for name, group in groups.items()})] * (
        len(groups) < len(measured)
    )
    first = measured[0]
    for other in measured[1:]:
        compared = compare(first, other, options.tpr)
        if len(compared) == 1:
            raise ValueError(f"{first.run} and {other.run} were not attacked with a common threat: `ccat attack` both with one suite")
        made.append(comparison_table(first.run, other.run, options.tpr, compared))
    print("\n\n".join(FORMATS[options.format](table).rstrip("\n") for table in made))
    _print_notes([note for one in measured for note in one.notes], options.format)


def _print_notes(notes: Sequence[str], form: str) -> None:
    """Below tables to be read; beside those for other programs."""
    for note in notes:
        print(f"\n{note}" if form == "md" else f"ccat: {note}", file=sys.stdout if form == "md" else sys.stderr)


def _report(options: Namespace) -> None:
    from ccat.reporting import report  # noqa: PLC0415 (matplotlib takes a second to import)

    measured = _measured(options.runs, options)
    evaluations = _at_thresholds(measured, options)
    print(f"the report is {report(options.out, [run_of(name) for name in options.runs], measured, evaluations)}")


def _analyse(options: Namespace) -> None:
    from ccat.report.analysis import analysis_figures  # noqa: PLC0415 (matplotlib takes a second to import)

    measured = _measured(options.runs, options)
    runs = [run_of(name) for name in options.runs]
    found = {
        one.run: analyse(run, options.examples, options.iterations, device_of(options)) for run, one in zip(runs, measured, strict=True)
    }
    _draw(options.out, {name: figure for name, (_, figure) in analysis_figures(found, measured).items()})
    print("a report of these runs shows them, too")


def _proposition(options: Namespace) -> None:
    from ccat.report.analysis import proposition_figure  # noqa: PLC0415 (matplotlib takes a second to import)

    _draw(options.out, {"proposition": proposition_figure()})
    print(f"\n{FORMATS['md'](proposition_table())}")


def _draw(out: Path, figures: Mapping[str, "Figure"]) -> None:
    from ccat.report.figures import write_figures  # noqa: PLC0415

    write_figures(out, figures)
    print(f"{', '.join(figures)} as SVG, PDF and PNG in {out}")


def _at_thresholds(measured: Sequence[Measured], options: Namespace) -> list[list[Evaluation]]:
    """Each run at the threshold asked for, then at those of further TPRs that all runs have held-out images enough for."""
    tau = getattr(options, "tau", None)
    if tau is not None:
        if tau == math.inf:
            raise ValueError("--tau inf accepts nothing; τ is a confidence, or none to accept everything")
        return [[evaluate(one, tau=tau)] for one in measured]
    others = [tpr for tpr in TPRS if tpr != options.tpr and all(_reachable(one, tpr) for one in measured)]
    return [[evaluate(one, tpr) for tpr in (options.tpr, *others)] for one in measured]


def _measured(names: Sequence[str], options: Namespace) -> list[Measured]:
    """Runs for one table, which have to be of one data set."""
    runs = [run_of(name) for name in names]
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise ValueError(f"a run is given twice: {', '.join(names)}")
    folders = [path.name for path in paths]
    shown = folders if len(set(folders)) == len(runs) else [str(run.path) for run in runs]
    found = [measure(run, name, device_of(options)) for run, name in zip(runs, shown, strict=True)]
    if len({one.dataset for one in found}) > 1:
        raise ValueError("runs of different data sets do not fit into one table: " + ", ".join(f"{m.run} is {m.dataset}" for m in found))
    return found


def _reachable(measured: Measured, tpr: float) -> bool:
    """Whether there are held-out images enough; the TPR that was asked for says so itself."""
    try:
        threshold(measured.held_out, tpr)
    except ValueError:
        return False
    return True
