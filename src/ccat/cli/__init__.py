"""The command line: `ccat COMMAND`, a file per command in commands/."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `ccat` command; an interrupt ends it without a traceback, also while it starts."""
    with _stopping_at_once():
        from ccat.cli.program import prepare, run  # noqa: PLC0415 (importing torch takes seconds)

        options = prepare(sys.argv[1:] if arguments is None else list(arguments))
    if options is not None:
        run(options)


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
