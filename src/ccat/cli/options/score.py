"""Options of `ccat score`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_device, add_trust


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument(
        "file",
        type=Path,
        help="an .npz with the array x_adv: examples of the first test images, or of noise",
    )
    command.add_argument(
        "--threat",
        required=True,
        help="such as Linf:0.4, distal:Linf:0.4 for noise, or reject:Linf:0.4",
    )
    command.add_argument("--name", required=True, help="what the attempt is called")
    add_device(command)
    add_trust(command)
