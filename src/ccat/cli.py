"""The command line."""

import argparse
from collections.abc import Sequence
from importlib.metadata import version


def main(arguments: Sequence[str] | None = None) -> None:
    """The `ccat` command."""
    parser = argparse.ArgumentParser(prog="ccat", description="Image classifiers that may say “I don't know”.")
    parser.add_argument("--version", action="version", version=f"ccat {version('ccat-torch')}")
    parser.parse_args(arguments)
    parser.print_help()
