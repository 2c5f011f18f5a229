"""Runs: one directory per model, and the only room that knows file names.

run = Run.open(Path("runs/mnist-ccat-small"))
run.training.model(), run.attempts.all(), run.answers.clean(data)
"""

from ccat.runs.directory import Files, Run
from ccat.runs.find import find_runs, is_run
from ccat.runs.folder import NotWrittenError, RunError

__all__ = ["Files", "NotWrittenError", "Run", "RunError", "find_runs", "is_run"]
