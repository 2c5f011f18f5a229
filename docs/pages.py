"""Pages of the site that are made when it is built (MkDocs calls these hooks; see mkdocs.yml).

README, CONTRIBUTING and CHANGELOG lie above docs/, so they are added here. The reference has a page
for each room with the public names that ccat/__init__.pyi takes from it, and a page with what every
command says of itself.
"""

import ast
import io
import os
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FunctionType, ModuleType
from unittest.mock import patch

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import ccat
from ccat.cli import main
from ccat.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
PUBLIC_NAMES = ROOT / "src" / "ccat" / "__init__.pyi"
DEEPER = "    options: {heading_level: 3}\n"
ABOVE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files in docs/."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Let links between docs/ and the folder above it lead from page to page."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # its chapter has no other page
    return markdown.replace("](docs/", "](").replace("](../", "](")


def pages() -> dict[str, str]:
    """Return the text of every page that is made, by its name."""
    above = {name: (ROOT / name).read_text() for name in ABOVE}
    return {**above, **reference(), "reference/cli.md": command_line()}


def reference() -> dict[str, str]:
    """Return a page per room: what its docstring says, then its public names in their order."""
    room_of, order = dict[str, str](), list[str]()
    for line in ast.parse(PUBLIC_NAMES.read_text()).body:
        if isinstance(line, ast.ImportFrom):
            for one in line.names:
                room_of[one.name] = (line.module or one.name).partition(".")[0]
        elif isinstance(line, ast.Assign):  # __all__
            order = ast.literal_eval(line.value)
    order.sort(key=lambda name: isinstance(getattr(ccat, name), ModuleType))  # modules come last
    rooms: dict[str, str] = {}
    for name in order:
        room = room_of[name]
        page = f"reference/{room}.md"
        rooms[page] = rooms.get(page, _room(room)) + _entries(name, is_room=name == room)
    return rooms


def _room(room: str) -> str:
    options = "{members: false, show_root_heading: false, show_root_toc_entry: false}"
    return f"# ccat.{room}\n\n::: ccat.{room}\n    options: {options}\n\n"


def _entries(name: str, is_room: bool) -> str:
    """Return the directives for a name; of a module those of its names that ccat itself lacks."""
    module = getattr(ccat, name)
    if not isinstance(module, ModuleType):
        return _entry(ccat, name)
    own = [one for one in _public(module) if one not in ccat.__all__]
    heading = "" if is_room else f"::: ccat.{name}\n    options: {{members: false}}\n\n"
    return heading + "".join(_entry(module, one, "" if is_room else DEEPER) for one in own)


def _entry(module: ModuleType, name: str, options: str = "") -> str:
    """Return the directive for a name, by where it is defined: a file may have the same name."""
    thing = getattr(module, name)
    defined = isinstance(thing, (FunctionType, type))
    path = f"{thing.__module__}.{name}" if defined else f"{module.__name__}.{name}"
    return f"::: {path}\n{options}\n"


def _public(module: ModuleType) -> list[str]:
    """Return the names in a module's __all__, or else the functions that it defines."""
    if "__all__" in vars(module):
        return list(vars(module)["__all__"])
    functions = {name: one for name, one in vars(module).items() if isinstance(one, FunctionType)}
    return [
        name
        for name, one in functions.items()
        if one.__module__ == module.__name__ and not name.startswith("_")
    ]


def command_line() -> str:
    """Return what `ccat --help` says, and each command's own help."""
    parts = ["# The command line\n", _help()]
    parts += [f"## ccat {name}\n\n{_help(name)}" for name in COMMANDS]
    return "\n".join(parts)


def _help(*command: str) -> str:
    said = io.StringIO()
    with patch.dict(os.environ, COLUMNS="90"), redirect_stdout(said), suppress(SystemExit):
        main([*command, "--help"])
    return f"```text\n{said.getvalue()}```\n"
