"""`ccat report`: write a page to look at, and tables and figures for a paper."""

from argparse import Namespace

from ccat.cli.tabulate import at_thresholds, collected, supported_tpr


def run(options: Namespace) -> None:
    """Write the report."""
    from ccat.pipeline.report import report  # noqa: PLC0415 (matplotlib takes a second to import)

    runs, outcomes = collected(options)
    at = at_thresholds(outcomes, supported_tpr(outcomes, options.tpr))
    page = report(options.out, runs, outcomes, at)
    print(f"the report is {page}")
