"""Options of `ccat export`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_device, add_trust


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument("--threat", required=True, help="such as Linf:0.4, or reject:Linf:0.4")
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        help="a file .npz, which is exact, or a folder for PNG images, rounded to 8 bits",
    )
    add_device(command)
    add_trust(command)
