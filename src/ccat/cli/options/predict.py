"""Options of `ccat predict`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_device, add_trust, number, share

FORMATS = ("text", "csv", "json")


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("source", metavar="RUN", help="a run, a classifier's file, or zoo:NAME")
    command.add_argument(
        "pictures",
        nargs="+",
        type=Path,
        metavar="PICTURE",
        help="files, or folders of them",
    )
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--tpr", type=share, help="the threshold for this true positive rate")
    choice.add_argument("--tau", type=number, help="this threshold instead of the stored one")
    command.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text, csv (with the time, for `ccat monitor`), or a JSON object in each line "
        "(default: text)",
    )
    add_device(command)
    add_trust(command)
