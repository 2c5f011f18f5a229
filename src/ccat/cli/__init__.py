"""The command line: `ccat COMMAND`, a file per command in commands/."""

from ccat.cli.main import main

__all__ = ["main"]
