"""`ccat completion`: print a script with which a shell completes commands, options and choices."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import shtab

from ccat.cli.program import parser


def run(options: Namespace) -> None:
    """Print the script, made from the parser of all commands."""
    commands = parser()
    _complete_files(commands)
    print(shtab.complete(commands, options.shell))


def _complete_files(command: ArgumentParser) -> None:
    """Tell shtab to complete paths wherever a text may be one: runs, files, folders."""
    for action in command._actions:
        if isinstance(action.choices, dict):
            for one in action.choices.values():
                _complete_files(one)
        elif action.choices is None and action.nargs != 0 and action.type in (None, Path):
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab asks for it
