"""Laws of the source: rooms build upon each other in one order, and each keeps to its own matters.

A module imports only from its own room and from rooms earlier in `LAYERS`.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ccat

PACKAGE = Path(ccat.__file__).parent
LAYERS = [
    "errors",
    "extensions",
    "codec",
    "overrides",
    "checks",
    "files",
    "memory",
    "sealed",
    "progress",
    "engine",
    "threats",
    "objectives",
    "evaluation",
    "report",
    "data",
    "models",
    "bounds",
    "attacks",
    "rejection",
    "training",
    "attacking",
    "catalog",
    "runs",
    "pipeline",
    "api",
    "cli",
    "__init__",
    "__main__",
]
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = sorted(
    file for suffix in ("py", "js", "css", "html") for file in PACKAGE.rglob(f"*.{suffix}")
)
LONGEST = 300  # lines
DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "PIL": "pillow",
    "lazy_loader": "lazy-loader",
}  # where the name to import is not the name to install
RUN_FILES = {
    "run.json",
    "evaluation.json",
    "headline.json",
    "planted.json",
    "analysis.json",
    "plan.json",
    "log.jsonl",
    "checkpoint.safetensors",
    "model.safetensors",
    "trained.json",
    "classifier.json",
    "timings.jsonl",
    "clean.safetensors",
    "lock.pid",
    "attempts/",
    "worst/",
    "scores/",
    "corrupted/",
    "detectors/",
}
DUCKS = {("models/files.py", "architecture")}  # a module that create_model made knows its own

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def name_of(module: Path) -> str:
    return str(module.relative_to(PACKAGE))


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def room_named(name: str) -> str:
    """The room that a dotted name such as `ccat.data.images` begins with."""
    return name.split(".")[1] if "." in name else "__init__"


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def imported(module: Path, *, at_runtime: bool = False) -> set[str]:
    """The dotted names that a module imports; at runtime without those for type checkers alone."""
    names = set()
    for node in _walk(tree_of(module), at_runtime):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            rooms = {alias.name for alias in node.names} & set(LAYERS)
            inside = {f"ccat.{name}" for name in rooms} if node.module == "ccat" else set()
            names |= inside or {node.module or ""}
    return names


def _walk(node: ast.AST, at_runtime: bool) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        skipped = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not (at_runtime and skipped):
            yield from _walk(child, at_runtime)


def documented(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.Module | Definition]]:
    """Public definitions by their dotted names: of a module, its classes and their methods."""
    if isinstance(node, ast.Module):
        yield "", node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If):
            yield from documented(child, inside)
        elif isinstance(child, Definition) and not child.name.startswith("_"):
            name = f"{inside}{child.name}"
            yield name, child
            if isinstance(child, ast.ClassDef):
                yield from documented(child, f"{name}.")


def texts(module: Path) -> Iterator[str]:
    """All string constants of a module but its docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Module | Definition)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield from [node.value] if isinstance(node.value, str) else []


def test_every_room_has_its_place() -> None:
    assert {room_of(module) for module in MODULES} == set(LAYERS)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_imports_point_upwards(module: Path) -> None:
    own = room_of(module)
    for name in imported(module):
        if name.split(".")[0] == "ccat":
            other = room_named(name)
            inside = other == own and own not in ("__init__", "__main__")
            assert inside or LAYERS.index(other) < LAYERS.index(own), f"{own} imports {name}"


@cache
def needs_torch(room: str) -> bool:
    """True if a room imports torch, or another room that does."""
    names = {
        name
        for module in MODULES
        if room_of(module) == room
        for name in imported(module, at_runtime=True)
    }
    rooms = {room_named(name) for name in names if name.split(".")[0] == "ccat"} - {room}
    return any(re.match(r"(torch|safetensors)\b", name) for name in names) or any(
        map(needs_torch, rooms)
    )


@pytest.mark.parametrize("room", ["evaluation", "report"])
def test_numbers_and_reports_know_nothing_of_torch(room: str) -> None:
    assert not needs_torch(room)
    assert needs_torch("threats"), "the test can tell"


def test_threats_and_objectives_need_torch_only() -> None:
    allowed = {"ccat", "torch", "math", "collections", "dataclasses", "typing"}
    allowed |= {"difflib", "fractions"}  # threats are read from their names
    for module in MODULES:
        if room_of(module) in ("threats", "objectives"):
            assert {name.split(".")[0] for name in imported(module)} <= allowed, module


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]
    extras = [
        requirement
        for name, extra in project["optional-dependencies"].items()
        if name not in ("dev", "docs")  # tools, which the package does not import
        for requirement in extra
    ]
    names = {
        re.split(r"[<>=\[]", requirement)[0] for requirement in [*project["dependencies"], *extras]
    }
    top = {name.split(".")[0] for module in MODULES for name in imported(module)}
    third_party = {
        DISTRIBUTIONS.get(name, name)
        for name in top - {"ccat"}
        if name not in sys.stdlib_module_names
    }
    by_others = {"numba", "onnxscript"}  # foolbox needs one, and torch.onnx the other
    assert third_party == names - by_others


def test_only_runs_knows_the_names_of_a_runs_files() -> None:
    known = {
        (room_of(module), name)
        for module in MODULES
        for text in texts(module)
        for name in RUN_FILES
        if re.search(rf"(?<![\w.-]){re.escape(name)}", text)
    }
    assert known == {("runs", name) for name in RUN_FILES}


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_a_file_is_short_enough_to_be_read(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= LONGEST


def test_what_is_public_says_what_it_is() -> None:
    """A method may leave that to the protocol it implements, `forward` to torch.nn.Module."""
    by_protocols = {"forward"} | {
        name
        for module in MODULES
        for kind in ast.walk(tree_of(module))
        if isinstance(kind, ast.ClassDef) and "Protocol" in map(ast.unparse, kind.bases)
        for name, method in documented(kind)
        if ast.get_docstring(method)
    }
    silent, unfinished = [], []
    for module in MODULES:
        for name, definition in documented(tree_of(module)):
            text = ast.get_docstring(definition)
            where = f"{name_of(module)} {name}"
            if text is None:
                if "." not in name or name.rsplit(".", 1)[1] not in by_protocols:
                    silent.append(where)
            elif not is_sentence(text.splitlines()[0]):
                unfinished.append(f"{where}: {text.splitlines()[0]}")
    assert not silent
    assert not unfinished


def is_sentence(line: str) -> bool:
    """True if a line ends with a full stop, or is a formula."""
    return line.endswith(".") or bool(re.search(r"[=≤≥←]", line))


def test_no_attribute_is_guessed() -> None:
    """What an object has is known from its type, not asked for by a name and a default."""
    guessed = {
        (name_of(module), node.args[1].value)
        for module in MODULES
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) == 3
        and isinstance(node.args[1], ast.Constant)
    }
    assert guessed == DUCKS
