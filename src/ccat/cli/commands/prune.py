"""`ccat prune`: delete what a run no longer needs."""

from argparse import ArgumentParser, Namespace

from ccat.cli.options import run_named


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("run")


def run(options: Namespace) -> None:
    """Delete it."""
    one = run_named(options.run)
    with one.writing():
        print(f"{one.prune() / 1e6:.1f} MB freed")
