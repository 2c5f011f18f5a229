"""Options of `ccat check`."""

from argparse import ArgumentParser

from ccat.cli.options import add_trust
from ccat.cli.options.attack import add_suite
from ccat.cli.options.names import PLANTED


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    add_suite(command, examples=f"images to plant an error around, at most {PLANTED} (default)")
    add_trust(command)
