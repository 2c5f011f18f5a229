"""Options of `ccat import`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_device, channels
from ccat.cli.options.names import MODELS


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run", type=Path, help="the run directory to make")
    add_model(command, required=True)
    add_device(command)


def add_model(command: ArgumentParser, required: bool) -> None:
    """Add the options that name and describe a model from elsewhere."""
    command.add_argument(
        "--model",
        required=required,
        metavar="NAME",
        help=f"package.module:factory, or {', '.join(MODELS)}",
    )
    add_description(command, required)


def add_description(command: ArgumentParser, required: bool) -> None:
    """Add the options that describe a model from elsewhere, except its name."""
    command.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="its weights: safetensors, or a state_dict saved by torch",
    )
    command.add_argument(
        "--dataset", required=required, metavar="NAME", help="what it was trained on"
    )
    command.add_argument(
        "--unverified",
        action="store_true",
        help="take data that ccat cannot verify; the run records it",
    )
    command.add_argument(
        "--mean", type=channels, metavar="A,B,C", help="what it subtracts from images in [0,1]"
    )
    command.add_argument(
        "--std", type=channels, metavar="A,B,C", help="what it then divides them by"
    )
    command.add_argument(
        "--seen", metavar="THREAT", help="the threat it was trained with, as tables mark it"
    )
