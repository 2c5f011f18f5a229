"""How many files of ccat one image passes through, and how many calls lead from file to file.

    python benchmarks/walk.py

Trains a small model, attacks, evaluates and reports it in this process, and counts for each command
the files whose functions are called and the pairs of files of which one calls into the other.
Imports do not count. Needs MNIST, as training does.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import ccat
from ccat.cli import main

ROOT = f"{Path(ccat.__file__).parent}{os.sep}"


def walk(arguments: Sequence[str]) -> tuple[set[str], set[tuple[str, str]]]:
    """Run a command and return the files that it passes through, and the edges between them."""
    files: set[str] = set()
    edges: set[tuple[str, str]] = set()

    def inside(frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(ROOT) and frame.f_code.co_name != "<module>"

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not inside(frame):
            return
        here = frame.f_code.co_filename
        files.add(here)
        caller = frame.f_back
        while caller is not None and not inside(caller):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != here:
            edges.add((caller.f_code.co_filename, here))

    import_module("ccat.cli.program")  # imports do not count
    import_module(f"ccat.cli.commands.{arguments[0]}")
    sys.setprofile(profile)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main(arguments)
    finally:
        sys.setprofile(None)
    return files, edges


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        fast = ["--images", "700", "--epochs", "1"]
        part = ["--suite", "demo", "--only", "PGD*", "--examples", "100", "--workers", "1"]
        for command in (
            ["train", "mnist-ccat-demo", *fast, "--run", run],
            ["attack", run, *part],
            ["evaluate", run],
            ["report", run, "--out", f"{folder}/report"],
        ):
            found = walk(command)
            print(f"{command[0]}: {len(found[0])} files, {len(found[1])} edges")
