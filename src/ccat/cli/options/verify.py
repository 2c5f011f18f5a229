"""Options of `ccat verify`."""

from argparse import ArgumentParser

from ccat.cli.options import add_device, add_trust, count


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")
    command.add_argument(
        "--sample",
        type=count,
        default=100,
        help="perturbed images of each threat to score again (default: 100)",
    )
    add_device(command)
    add_trust(command)
