"""Options of `ccat detect`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_trust, count
from ccat.cli.options.attack import add_check, add_suite
from ccat.cli.options.names import DETECTORS


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument("--detector", choices=DETECTORS, required=True)
    command.add_argument(
        "--layers",
        default="",
        metavar="A,B",
        help="whose features it looks at (default: the last of each size)",
    )
    command.add_argument(
        "--known",
        type=count,
        default=2000,
        help="training images for its statistics (default: 2000)",
    )
    command.add_argument(
        "--pairs",
        type=count,
        default=1000,
        help="others, clean and attacked, for the weights of its layers (default: 1000)",
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="the run directory to make (default: RUN-DETECTOR)"
    )
    add_suite(command)
    add_check(command)
    add_trust(command)
