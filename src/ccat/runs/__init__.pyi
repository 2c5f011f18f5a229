"""The names of this room, which runs/__init__.py imports when they are first used."""

from .directory import Files, Run
from .find import find_runs, is_run
from .folder import NotWrittenError, RunError

__all__ = ["Files", "NotWrittenError", "Run", "RunError", "find_runs", "is_run"]
