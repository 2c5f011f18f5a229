"""Options of `ccat compare`."""

from argparse import ArgumentParser

from ccat.cli.options import add_device, add_tpr, add_trust
from ccat.cli.options.names import FORMATS


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "runs", nargs="+", metavar="RUN", help="the first is compared with each of the others"
    )
    add_tpr(command)
    command.add_argument(
        "--format",
        choices=FORMATS,
        help="(default: what fits on a terminal; elsewhere md)",
    )
    add_device(command)
    add_trust(command)
