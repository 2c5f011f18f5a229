"""A module imports only from the lines above its own; libraries are used only where they belong."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import ccat

PACKAGE = Path(ccat.__file__).parent
LAYERS = [
    "checks",
    "files",
    "memory",
    "threats",
    "objectives",
    "metrics",
    "intervals",
    "proposition",
    "data",
    "models",
    "attacks",
    "detectors",
    "methods",
]
LAYERS += [
    "fields",
    "recipes",
    "cookbook",
    "suites",
    "attempts",
    "results",
    "evaluation",
    "comparison",
    "store",
    "engine",
    "stages",
    "report",
    "reporting",
    "progress",
    "api",
    "adapters",
    "demo",
    "cli",
    "__init__",
    "__main__",
]
MODULES = sorted(PACKAGE.rglob("*.py"))
DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "PIL": "pillow",
}  # where the name to import is not the name to install


def layer(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(module: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module_names = {alias.name for alias in node.names} & set(LAYERS) if node.module == "ccat" else set()
            names |= {f"ccat.{name}" for name in module_names} or {node.module or ""}
    return names


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_imports_point_upwards(module: Path) -> None:
    own = layer(module)
    for name in imported(module):
        if name.split(".")[0] == "ccat":
            other = name.split(".")[1] if "." in name else "__init__"
            inside = other == own and own not in ("__init__", "__main__")
            assert inside or LAYERS.index(other) < LAYERS.index(own), f"{own} imports {name}"


def test_numbers_and_reports_know_nothing_of_torch() -> None:
    names = ("metrics.py", "intervals.py", "proposition.py", "results.py", "evaluation.py", "comparison.py")
    for module in (*(PACKAGE / name for name in names), *(PACKAGE / "report").glob("*.py")):
        assert not any(name.startswith("torch") for name in imported(module)), module


def test_threats_and_objectives_need_torch_only() -> None:
    for name in ("threats.py", "objectives.py"):
        assert {n.split(".")[0] for n in imported(PACKAGE / name)} <= {"ccat", "torch", "math", "collections", "dataclasses", "typing"}


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]
    extras = [requirement for name, extra in project["optional-dependencies"].items() if name != "dev" for requirement in extra]
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in [*project["dependencies"], *extras]}
    top = {name.split(".")[0] for module in MODULES for name in imported(module)}
    third_party = {DISTRIBUTIONS.get(name, name) for name in top - {"ccat"} if name not in sys.stdlib_module_names}
    assert third_party == names
