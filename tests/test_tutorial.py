"""The tutorial is followed as it is written: its blocks are run in their order."""

import csv
import importlib.util
import re
import runpy
import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from ccat.cli import main
from ccat.cli.commands import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"
CLASSES = ("circle", "square", "triangle")
CAN_PACK = "pack" in COMMANDS and importlib.util.find_spec("onnxruntime") is not None
SHORTER = {"attack": ["--only", "APGD*", "--no-check", "--workers", "1"]}  # minutes become seconds


def followed(folder: Path) -> dict[str, tuple[str, int]]:
    """Run the blocks of the tutorial in a folder; return what each command said, and its code."""
    said: dict[str, tuple[str, int]] = {}
    text = (DOCS / "TUTORIAL.md").read_text()
    for language, block in re.findall(r"```(python|sh|bash)\n(.*?)```", text, re.DOTALL):
        if ("ccat pack" in block or "onnx" in block) and not CAN_PACK:
            continue
        if first := re.match(r"# (\w+\.py)\n", block):
            (folder / first[1]).write_text(block)
        elif language == "python":
            said[block] = caught(exec, compile(block, "TUTORIAL.md", "exec"), {})
        else:
            for line in re.sub(r"\\\n\s*", "", block).splitlines():
                said[line] = run(line)
    return said


def run(line: str) -> tuple[str, int]:
    """Run a line of a shell: a program of the tutorial, or a command of ccat, perhaps to a file."""
    command, _, target = line.partition(" > ")
    program, *words = shlex.split(command, comments=True)
    if program == "pip":
        return "", 0
    if program == "python":
        return caught(runpy.run_path, words[0])
    assert program == "ccat"
    output, code = caught(main, [*words, *SHORTER.get(words[0], [])])
    if target:
        Path(target).write_text(output)
    return output, code


def caught(function: Callable[..., object], *arguments: object) -> tuple[str, int]:
    output, code = StringIO(), 0
    with redirect_stdout(output):
        try:
            function(*arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    return output.getvalue(), code


def labels(log: Path) -> dict[str, Counter[str]]:
    """Count the labels of each kind of pictures in a log: by the folder that they lie in."""
    found: dict[str, Counter[str]] = {}
    for row in csv.DictReader(log.read_text().splitlines()):
        found.setdefault(Path(row["picture"]).parent.name, Counter())[row["label"]] += 1
    return found


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        said = followed(folder)
        said["folder"] = str(folder), 0
    return said


def test_every_class_is_learnt(said: dict[str, tuple[str, int]]) -> None:
    """Of a hundred new pictures of each class, and without rejection, fewer than 5 % are wrong."""
    folder = Path(said["folder"][0])
    words = ["predict", str(folder / "runs" / "shapes"), str(folder / "new"), "--tau", "0"]
    log = folder / "all.csv"
    log.write_text(caught(main, [*words, "--format", "csv"])[0])
    for name in CLASSES:
        assert labels(log)[name].total() == 100
        assert labels(log)[name][name] > 95


def test_only_a_promise_too_many_and_an_alarm_end_with_an_error(
    said: dict[str, tuple[str, int]],
) -> None:
    ended = {line for line, (_, code) in said.items() if code}
    assert ended == {
        "ccat calibrate shapes --risk 0.01",
        "ccat monitor shapes usual.csv other.csv --plot watched.svg",
    }
    assert "needs at least 299" in said[min(ended)][0]
    assert said[max(ended)][0].startswith("Alarm after 3")


def test_new_shapes_are_accepted_and_most_other_pictures_are_not(
    said: dict[str, tuple[str, int]],
) -> None:
    folder = Path(said["folder"][0])
    for name, count in labels(folder / "usual.csv").items():
        assert count[name] > 90
    other = labels(folder / "other.csv")
    assert other.pop("noise")["rejected"] > 50
    assert sum(count["rejected"] for count in other.values()) > 50


@pytest.mark.skipif(not CAN_PACK, reason="there is no ccat pack, or no onnxruntime")
def test_the_packed_classifier_decides(said: dict[str, tuple[str, int]]) -> None:
    (printed,) = [output for block, (output, _) in said.items() if "onnxruntime" in block]
    assert "True" in printed


def test_the_notebook_runs_and_is_small(said: dict[str, tuple[str, int]]) -> None:
    """In the folder of the tutorial, with what was trained there."""
    file = DOCS / "tutorial.ipynb"
    assert file.stat().st_size < 300_000
    notebook = nbformat.read(file, as_version=4)
    assert all(cell.get("outputs", True) for cell in notebook.cells)
    NotebookClient(notebook, resources={"metadata": {"path": said["folder"][0]}}).execute()
    printed = "".join(
        one.get("text", "") for cell in notebook.cells for one in cell.get("outputs", [])
    )
    assert len(re.findall(r"(?:9[6-9]|100) right", printed)) == 3
    assert "| model  " in printed
    assert re.search("^no alarm.*^alarm", printed, re.MULTILINE | re.DOTALL)
