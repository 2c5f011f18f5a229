"""`ccat report`: write a page to look at, and tables and figures for a paper."""

from argparse import Namespace

from ccat.cli.tabulate import at_thresholds, collected


def run(options: Namespace) -> None:
    """Write the report."""
    from ccat.pipeline.report import report  # noqa: PLC0415 (matplotlib takes a second to import)

    runs, outcomes = collected(options)
    page = report(options.out, runs, outcomes, at_thresholds(outcomes, options.tpr))
    print(f"the report is {page}")
