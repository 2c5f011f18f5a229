"""Options of `ccat calibrate`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_trust, share

CONFIDENCE = 0.95  # of a promised risk


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run", help="a run, or zoo:NAME")
    choice = command.add_mutually_exclusive_group()
    choice.add_argument(
        "--tpr", type=share, help="keep this share of correct answers (default: 0.99)"
    )
    choice.add_argument(
        "--risk", type=share, help="promise that at most this share of accepted answers is wrong"
    )
    command.add_argument(
        "--confidence",
        type=share,
        help=f"with this probability over the calibration images (default: {CONFIDENCE})",
    )
    command.add_argument(
        "--on",
        type=Path,
        metavar="DIR_OR_NPZ",
        help="labelled images to choose it on: a folder per class, or the arrays images and labels "
        "(default: the run's own calibration images)",
    )
    add_trust(command)
