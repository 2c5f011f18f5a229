"""The `ccat` command."""

import logging
import shlex
import sys
import warnings
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from ccat import extensions
from ccat.cli.ascii import substitute_everywhere
from ccat.cli.commands import COMMANDS
from ccat.errors import CcatError

HELP = """\
Train image classifiers that may say “I don't know”, attack them, and measure what gets through.

  ccat demo                                   three small models, attacked, in minutes

  ccat recipes                                what can be trained
  ccat train mnist-ccat-small                 into runs/mnist-ccat-small; rerun it after a stop
  ccat train mnist-ccat-small --epochs 3 --method.rho 6 --method.threat.epsilon 8/255
                                              any field of a recipe can be set
  ccat attack mnist-ccat-small --suite quick  what is stored already is not computed again
  ccat attack mnist-ccat-small --attack mypackage.attacks:MyAttack --threat Linf:0.3
                                              an attack of your own
  ccat evaluate mnist-ccat-small mnist-at-small
                                              the paper's tables over several runs
  ccat report mnist-ccat-small mnist-at-small --out report
                                              a page to look at, tables and figures for a paper
  ccat attack --model mypackage.nets:resnet --weights resnet.pt --dataset cifar10
                                              a model of your own, or published weights
  ccat detect mnist-normal-small --detector lid
                                              reject by a detector; attacks that know it and not
  ccat predict mnist-ccat-small digit.png     a label or "rejected" for each picture
  ccat export mnist-ccat-small --threat Linf:0.4 --out worst.npz
"""
VERBOSE = "also say what is stored already, where data comes from, and what is chosen"
USER_ERRORS = (CcatError, ValueError, OSError)


def prepare(arguments: Sequence[str]) -> Namespace | None:
    """Read the options of a command and import what it needs; None if only help was asked for."""
    substitute_everywhere()
    command_line = parser()
    first = next((word for word in arguments if not word.startswith("-")), None)
    if first is not None and first not in COMMANDS:
        near = get_close_matches(first, COMMANDS)
        advice = f"did you mean {' or '.join(near)}?" if near else "`ccat --help` lists them"
        command_line.error(f"there is no command {first!r}; {advice}")
    options, rest = command_line.parse_known_args(arguments)
    if "command" not in options:
        command_line.print_help()
        return None
    if rest and options.command != "train":  # which takes fields of its recipe
        command_line.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest, options.typed = rest, list(arguments)
    options.run_command = _module("commands", options.command).run
    return options


def run(options: Namespace) -> None:
    """Run a command.

    A user's mistake ends with a sentence on stderr and exit code 2, an interrupt with how to
    continue and exit code 130.
    """
    if options.verbose:
        _show_log()
    if "trust" in options and options.trust:
        extensions.trust_everything()
    if torch := sys.modules.get("torch"):  # imported with the command, unless it does without
        torch.set_num_threads(1)  # for bit-identical results; `train --threads` may change it
    warnings.showwarning = lambda message, *_, **__: print(
        f"ccat: warning: {message}", file=sys.stderr
    )
    try:
        with ExitStack() as stack:
            if engine := sys.modules.get("ccat.engine"):
                stack.enter_context(engine.workers_kept())
            options.run_command(options)
    except KeyboardInterrupt:
        again = f"ccat {shlex.join(options.typed)}"
        print(
            f"\nStopped. What was finished is stored; this continues:\n  {again}", file=sys.stderr
        )
        sys.exit(130)
    except BrokenPipeError:
        raise  # `ccat recipes | head`
    except USER_ERRORS as mistake:
        print(f"ccat: {_sentence(mistake)}", file=sys.stderr)
        sys.exit(2)


def _sentence(mistake: Exception) -> str:
    """Return what an error says; of one that the system raised, the file first and no number."""
    if isinstance(mistake, CcatError) or not isinstance(mistake, OSError) or not mistake.filename:
        return str(mistake)
    why = (mistake.strerror or type(mistake).__name__).lower()
    return f"{mistake.filename} cannot be used ({why}): name another place, or mend this one"


class _Lines(logging.Handler):
    """Writes what is logged to stderr, above the bars of progress."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm  # noqa: PLC0415 (help does without)

        tqdm.write(f"ccat: {self.format(record)}", file=sys.stderr)


def _show_log() -> None:
    """Show what the package logs."""
    log = logging.getLogger("ccat")
    log.setLevel(logging.INFO)
    if not any(isinstance(handler, _Lines) for handler in log.handlers):
        log.addHandler(_Lines())


def parser() -> ArgumentParser:
    """Return the parser of all commands and their options."""
    command_line = ArgumentParser(
        "ccat", description=HELP, formatter_class=RawDescriptionHelpFormatter
    )
    command_line.add_argument(
        "--version", action="version", version=f"ccat {version('ccat-torch')}"
    )
    command_line.add_argument("-v", "--verbose", action="store_true", help=VERBOSE)
    commands = command_line.add_subparsers(title="commands", metavar="COMMAND")
    for name, command in COMMANDS.items():
        about = f"{command.help[0].upper()}{command.help[1:]}."
        added = commands.add_parser(name, help=command.help, description=about, allow_abbrev=False)
        added.set_defaults(command=name)
        added.add_argument("-v", "--verbose", action="store_true", default=SUPPRESS, help=VERBOSE)
        _module("options", name).add_options(added)
    return command_line


def _module(room: str, command: str) -> ModuleType:
    """Import the file of a command: its options, or what it does."""
    return import_module(f"ccat.cli.{room}.{COMMANDS[command].file}")
