"""Options of `ccat runs`."""

from argparse import ArgumentParser
from pathlib import Path

RUNS = Path("runs")


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("directory", type=Path, nargs="?", default=RUNS)
