"""Options of `ccat proposition`."""

from argparse import ArgumentParser
from pathlib import Path


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "--out",
        type=Path,
        default=Path("analysis"),
        metavar="DIR",
        help="where the figure goes (default: analysis)",
    )
