"""Options of `ccat detect`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_trust, count
from ccat.cli.options.attack import add_check, add_passes, add_suite
from ccat.cli.options.names import DETECTORS


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument("--detector", choices=DETECTORS, required=True)
    command.add_argument(
        "--layers",
        metavar="A,B",
        help="mahalanobis, lid: whose features it looks at (default: the last of each size)",
    )
    command.add_argument(
        "--known",
        type=count,
        help="mahalanobis, lid: training images for its statistics (default: 2000)",
    )
    command.add_argument(
        "--pairs",
        type=count,
        help="mahalanobis, lid: others, clean and attacked, for the weights of its layers "
        "(default: 1000)",
    )
    command.add_argument(
        "--epsilon",
        type=float,
        help="consistency: the L∞ ball in which the model must stay sure (default: 0.1)",
    )
    command.add_argument(
        "--iterations",
        type=count,
        help="consistency: steps that look for where it is least sure (default: 10)",
    )
    command.add_argument(
        "--rate",
        type=float,
        help="consistency: the length of a step, as a part of --epsilon (default: 0.25)",
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="the run directory to make (default: RUN-DETECTOR)"
    )
    add_suite(command)
    add_passes(command)
    add_check(command)
    add_trust(command)
