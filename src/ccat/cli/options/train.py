"""Options of `ccat train`."""

from argparse import ArgumentParser
from pathlib import Path

from ccat.cli.options import add_device, threads


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.epilog = (
        "`ccat recipes RECIPE` lists the fields that can be set. The recipe comes first."
    )
    command.usage = "ccat train RECIPE [options] [--FIELD VALUE ...]"
    command.add_argument(
        "--recipe",
        metavar="RECIPE",
        help="a recipe by name or, of your own, as package.module:recipe; may come first instead",
    )
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file with the recipe's name and fields; fields that are typed count instead",
    )
    command.add_argument(
        "--run",
        "--out",  # torchrun takes --run for an option of its own
        type=Path,
        metavar="DIR",
        help="the run directory (default: runs/RECIPE, with a suffix if fields are set)",
    )
    command.add_argument(
        "--tensorboard", action="store_true", help="also write event files for TensorBoard"
    )
    command.add_argument(
        "--unverified",
        action="store_true",
        help="train on data that ccat cannot verify; the run records it",
    )
    command.add_argument(
        "--threads",
        type=threads,
        default=1,
        help="more than one is faster on large models, but not bit-identical (default: 1)",
    )
    add_device(command)
