"""The `ccat` command."""

import os
import shlex
import sys
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib.metadata import version

import torch

from ccat.cli import judging, keeping, making
from ccat.cli.arguments import Command
from ccat.data import DataUnavailableError
from ccat.engine import WorkerError
from ccat.models import ModelFileError
from ccat.stages import StageError
from ccat.store import StoreError

HELP = """\
Train image classifiers that may say “I don't know”, attack them, and measure what gets through.

  ccat demo                                   three small models, attacked: the paper's claim put to the test in minutes

  ccat recipes                                what can be trained
  ccat train mnist-ccat-small                 into runs/mnist-ccat-small; after a stop the same command goes on
  ccat train mnist-ccat-small --epochs 3 --method.rho 6 --method.threat.epsilon 8/255
                                              any field of a recipe can be set
  ccat attack mnist-ccat-small --suite quick  what is stored already is not computed again
  ccat evaluate mnist-ccat-small mnist-at-small
                                              the paper's tables over several runs
  ccat report mnist-ccat-small mnist-at-small --out report
                                              a page to look at, tables and figures for a paper
  ccat attack --model mypackage.nets:resnet --weights resnet.pt --dataset cifar10
                                              a model of your own, or published weights
  ccat detect mnist-normal-small --detector lid
                                              reject by a detector, attacked unawares and by one who knows
  ccat export mnist-ccat-small --threat Linf:0.4 --out worst.npz
"""
USER_ERRORS = (StoreError, StageError, DataUnavailableError, ModelFileError, WorkerError, ValueError, OSError)


def main(arguments: Sequence[str] | None = None) -> None:
    """The `ccat` command. A user's mistake ends with a sentence on stderr and exit code 2, an interrupt with how to go on and 130."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    command_line = parser()
    options, rest = command_line.parse_known_args(arguments)
    if "function" not in options:
        command_line.print_help()
        return
    if rest and options.function is not making.train_command:
        command_line.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    torch.set_num_threads(1)  # only then are results bit-identical; `train --threads` may ask for more
    warnings.showwarning = lambda message, *_, **__: print(f"ccat: warning: {message}", file=sys.stderr)
    try:
        options.function(options)
    except KeyboardInterrupt:
        print(f"\nStopped. What was finished is stored; this goes on from there:\n  ccat {shlex.join(arguments)}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `ccat recipes | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except USER_ERRORS as mistake:
        print(f"ccat: {mistake}", file=sys.stderr)
        sys.exit(2)


def parser() -> ArgumentParser:
    """All commands with their options."""
    command_line = ArgumentParser("ccat", description=HELP, formatter_class=RawDescriptionHelpFormatter)
    command_line.add_argument("--version", action="version", version=f"ccat {version('ccat-torch')}")
    commands = command_line.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, function: Command, text: str) -> ArgumentParser:
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        command.set_defaults(function=function)
        return command

    for commands_of in (making, judging, keeping):
        commands_of.add_commands(add)
    return command_line
