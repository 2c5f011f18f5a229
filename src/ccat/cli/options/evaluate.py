"""Options of `ccat evaluate`."""

from argparse import ArgumentParser

from ccat.cli.options import TPR_HELP, add_device, add_trust, number
from ccat.cli.options.names import FORMATS

TABLES = (
    *("main", "classes", "thresholds", "unseen", "coverage", "attacks", "strongest"),
    *("corruptions", "confusion", "certificates", "availability", "stratified"),
)


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("runs", nargs="+", metavar="RUN")
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--tpr", type=number, help=TPR_HELP)
    choice.add_argument(
        "--tau", type=number, help="the threshold itself instead; none rejects nothing"
    )
    command.add_argument(
        "--format",
        choices=[*FORMATS, "json"],
        help="(default: what fits on a terminal; elsewhere md)",
    )
    command.add_argument(
        "--table",
        metavar="NAME",
        help=f"only this table: {', '.join(TABLES)}, or all (default: the first four)",
    )
    command.add_argument(
        "--columns",
        type=lambda text: [one.strip() for one in text.split(",")],
        metavar="A,B",
        help="of this table, or of main, only these columns: Err,Linf:0.3 or 'Linf*'",
    )
    add_device(command)
    add_trust(command)
