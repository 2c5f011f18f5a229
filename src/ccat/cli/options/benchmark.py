"""Options of `ccat benchmark`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_trust
from ccat.cli.options.attack import add_suite
from ccat.cli.options.import_model import add_description

EXAMPLES = 1000  # test images that are attacked by default


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "model",
        metavar="MODEL",
        help="a run, or a model from elsewhere: package.module:factory, or a network of ccat's",
    )
    add_description(command, required=False)
    command.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the folder of the card, which holds all that verifies it (default: the run itself)",
    )
    add_suite(command, examples=f"test images, in hundreds (default: {EXAMPLES}, or all)")
    add_trust(command)
