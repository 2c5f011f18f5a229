"""The command line: `ccat COMMAND`, a file per command in commands/."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `ccat` command; an interrupt ends it without a traceback, also while it starts."""
    try:
        from ccat.cli.main import main as run  # noqa: PLC0415 (importing torch takes seconds)

        run(arguments)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)
