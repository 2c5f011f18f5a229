"""Options of `ccat zoo`."""

from argparse import ArgumentParser


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.usage = "ccat zoo [show] [NAME]"
    command.add_argument(
        "words", nargs="*", metavar="NAME", help="tell what is known of this model; as in the list"
    )
