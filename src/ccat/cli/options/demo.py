"""Options of `ccat demo`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_workers


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "--full", action="store_true", help="the long version: hours instead of minutes"
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("runs/demo"),
        metavar="DIR",
        help="where its runs go (default: runs/demo)",
    )
    add_workers(command)
