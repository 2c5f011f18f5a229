"""Options of `ccat monitor`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_trust, share


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("source", metavar="RUN", help="a run, a classifier's file, or zoo:NAME")
    command.add_argument(
        "log", type=Path, nargs="+", help="what `ccat predict --format csv` wrote, one file or more"
    )
    command.add_argument(
        "--delta",
        type=share,
        default=0.01,
        help="the probability of a false alarm, over all time (default: 0.01)",
    )
    command.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .svg, .png or .pdf")
    add_trust(command)
