"""Options of `ccat zoo`."""

from argparse import ArgumentParser


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument(
        "show", nargs="?", choices=["show"], help="tell what is known of one model"
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="the model, as the list names it")
