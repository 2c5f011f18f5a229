"""The command line starts at once: parsing and help import no library that takes long."""

import json
import subprocess
import sys
from typing import get_args

from ccat.attacking.copies import Compile, Gradients
from ccat.attacking.rest import TPR
from ccat.bounds import Bounds
from ccat.cli.commands import COMMANDS
from ccat.cli.options import names
from ccat.data.corruptions import FAMILIES
from ccat.models import MODELS
from ccat.pipeline.check import EXAMPLES
from ccat.rejection import CONSISTENCY, DETECTORS
from ccat.report import FORMATS

SLOW = {"torch", "numpy", "scipy", "sklearn", "skimage", "matplotlib", "pandas", "ray", "PIL"}
PROGRAM = """
import contextlib, io, json, sys
from ccat.cli import main

answers = []
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        try:
            main(line.split())
            code = 0
        except SystemExit as end:
            code = end.code
    answers.append([code or 0, said.getvalue(), list(sys.modules)])
print(json.dumps(answers))
"""


def answers(*lines: str) -> dict[str, tuple[int, str, set[str]]]:
    """Call commands one after the other: exit code, what was said, slow libraries imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = zip(lines, json.loads(done.stdout), strict=True)
    return {line: (code, said, SLOW & set(modules)) for line, (code, said, modules) in found}


def test_help_imports_nothing_that_takes_long() -> None:
    lines = ["", "--help", "--version", *(f"{command} --help" for command in COMMANDS)]
    for line, (code, said, slow) in answers(*lines).items():
        assert code == 0, said
        assert ("ccat 0" if line == "--version" else "usage: ccat") in said
        assert not slow, line
    _, _, slow = answers("recipes")["recipes"]
    assert {"torch", "numpy"} <= slow, "the test can tell"


def test_listing_recipes_and_suites_needs_torch_but_nothing_for_statistics() -> None:
    for code, said, slow in answers("recipes", "suites").values():
        assert code == 0, said
        assert not slow & {"scipy", "sklearn", "skimage", "matplotlib", "pandas", "ray"}


def test_listing_runs_needs_no_torch() -> None:
    for code, said, slow in answers("runs").values():
        assert code == 0, said
        assert slow <= {"numpy"}


def test_a_mistake_in_options_is_answered_before_anything_is_imported() -> None:
    lines = [
        "detect x --detector y",
        "evaluate",
        "train mnist-ccat --threads 0",
        "nothing",
        "runs --colour red",
    ]
    for line, (code, said, slow) in answers(*lines).items():
        assert code == 2, line
        assert "error: " in said
        assert not slow, line


def test_names_that_options_write_out_are_those_of_their_rooms() -> None:
    assert get_args(Bounds) == names.BOUNDS
    assert get_args(Compile) == names.COMPILE
    assert get_args(Gradients) == names.GRADIENTS
    assert (*DETECTORS, CONSISTENCY) == names.DETECTORS
    assert tuple(FAMILIES) == names.FAMILIES
    assert tuple(FORMATS) == names.FORMATS
    assert tuple(MODELS) == names.MODELS
    assert names.PLANTED == EXAMPLES
    assert names.REST_TPR == TPR
    written = {name for name in vars(names) if name.isupper()}
    compared = {"BOUNDS", "COMPILE", "DETECTORS", "FAMILIES", "FORMATS", "GRADIENTS", "MODELS"}
    compared |= {"PLANTED", "REST_TPR"}
    assert written == compared
