"""Options of `ccat data`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options.names import FAMILIES


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("what", choices=["list", "get", "make"], nargs="?", default="list")
    command.add_argument(
        "name",
        nargs="?",
        help=f"the data set to get, or the path of your own; to make: {' or '.join(FAMILIES)}",
    )
    command.add_argument(
        "--unverified", action="store_true", help="take data that cannot be verified"
    )
    command.add_argument("--seed", type=int, default=0, help="of what is made (default: 0)")
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="where it is made (default: data/NAME-generated)"
    )
