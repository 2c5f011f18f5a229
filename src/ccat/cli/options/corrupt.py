"""Options of `ccat corrupt`."""

from argparse import ArgumentParser

from ccat.cli.options import add_device, add_trust, count


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument(
        "--examples", type=count, help="the first test images (default: all that are counted)"
    )
    command.add_argument(
        "--seed", type=int, default=0, help="of generated corruptions (default: 0)"
    )
    add_device(command)
    add_trust(command)
