"""Options of `ccat report`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_device, add_tpr, add_trust


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("runs", nargs="+", metavar="RUN")
    command.add_argument(
        "--out", type=Path, default=Path("report"), metavar="DIR", help="(default: report)"
    )
    add_tpr(command)
    add_device(command)
    add_trust(command)
