"""Options of `ccat analyse`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_device, add_trust, count


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("runs", nargs="+", metavar="RUN")
    command.add_argument("--examples", type=count, default=100, help="test images (default: 100)")
    command.add_argument(
        "--iterations", type=count, default=200, help="of the attacks (default: 200)"
    )
    add_device(command)
    command.add_argument(
        "--out",
        type=Path,
        default=Path("analysis"),
        metavar="DIR",
        help="where figures go (default: analysis)",
    )
    add_trust(command)
