"""Options of `ccat suites`."""

from argparse import ArgumentParser


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("name", nargs="?")
