"""`ccat report`: write a page to look at, and tables and figures for a paper."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ccat.cli.options import add_device, add_tpr, add_trust
from ccat.cli.tabulate import at_thresholds, collected, supported_tpr


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("runs", nargs="+", metavar="RUN")
    command.add_argument(
        "--out", type=Path, default=Path("report"), metavar="DIR", help="(default: report)"
    )
    add_tpr(command)
    add_device(command)
    add_trust(command)


def run(options: Namespace) -> None:
    """Write the report."""
    from ccat.pipeline.report import report  # noqa: PLC0415 (matplotlib takes a second to import)

    runs, outcomes = collected(options)
    at = at_thresholds(outcomes, supported_tpr(outcomes, options.tpr))
    page = report(options.out, runs, outcomes, at)
    print(f"the report is {page}")
