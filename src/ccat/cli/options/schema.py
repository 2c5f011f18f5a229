"""Options of `ccat schema`."""

from argparse import ArgumentParser


def add_options(command: ArgumentParser) -> None:
    """Add the command's options: none."""
