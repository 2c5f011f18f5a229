"""The command line: `ccat COMMAND`, with its options and what it does in two files.

A command is

1. an entry of `COMMANDS` in commands/__init__.py, which names its files and says what it is for;
2. options/NAME.py with `add_options(parser)`, which imports neither torch nor NumPy: help,
   completion and mistakes in options are then answered at once. What an option's text names, such
   as a run or a threat, stays text there; names that help lists are written out in names.py;
3. commands/NAME.py with `run(options)`, imported only when the command is called. It imports what
   it likes at its top, and turns texts into what they stand for with the functions of values.py.

`program.py` makes the parser of all commands and turns errors into sentences.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `ccat` command; an interrupt ends it without a traceback, also while it starts.

    If nobody reads what it prints any more, as in `ccat recipes | head -1`, it ends in silence.
    """
    try:
        try:
            with _stopping_at_once():
                from ccat.cli.program import prepare, run  # noqa: PLC0415 (interrupts come early)

                options = prepare(sys.argv[1:] if arguments is None else list(arguments))
            if options is not None:
                run(options)
        finally:
            sys.stdout.flush()  # here, because an error at the end of the process is not caught
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _stopping_at_once() -> Iterator[None]:
    """End the process at an interrupt: libraries that are being imported do not expect one."""

    def stop(*_: Any) -> None:
        sys.stderr.write("\nStopped.\n")
        sys.stderr.flush()
        os._exit(130)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
