"""The command line: commands over the same recipes, suites and stages that Python code uses."""

from ccat.cli.main import main

__all__ = ["main"]
