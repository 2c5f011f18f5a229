"""Options of `ccat prune`."""

from argparse import ArgumentParser


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument(
        "--yes", action="store_true", help="do it; without this option nothing is moved"
    )
    command.add_argument(
        "--empty-trash", action="store_true", help="delete what earlier calls have moved"
    )
