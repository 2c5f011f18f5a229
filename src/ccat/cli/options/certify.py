"""Options of `ccat certify`."""

from argparse import ArgumentParser

from ccat.cli.options import add_device, add_engine, add_tpr, add_trust, count
from ccat.cli.options.names import BOUNDS


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument(
        "--threat",
        action="append",
        metavar="THREAT",
        help="a box, such as Linf:0.3, Frame:2 or distal:Linf:0.3; can be repeated (default: those "
        "that the run was attacked within)",
    )
    command.add_argument(
        "--examples", type=count, help="the first so many test images (default: all)"
    )
    command.add_argument(
        "--bounds",
        choices=BOUNDS,
        default="interval",
        help="linear: tighter ones too, for chains of layers and ReLU; about a second per image "
        "(default: interval)",
    )
    add_tpr(command)
    add_engine(command)
    add_device(command)
    add_trust(command)
