"""The documentation site and the files that code hosts and package indexes read."""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import ccat
from ccat.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MKDOCS = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """docs/pages.py, as MkDocs loads it."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return import_module("pages")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def in_navigation(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in in_navigation(part)]


def test_every_page_is_in_the_navigation_once(pages: ModuleType) -> None:
    files = [file.name for file in (ROOT / "docs").glob("*.md")]
    assert sorted(in_navigation(MKDOCS["nav"])) == sorted([*files, *pages.pages()])


def test_every_public_name_is_in_the_reference(pages: ModuleType) -> None:
    shown = re.findall(r"^::: (?:\w+\.)+(\w+)$", "\n".join(pages.reference().values()), re.M)
    assert set(ccat.__all__) <= set(shown)
    assert len(set(shown)) == len(shown)
    assert {"fit", "robust_error", "trust"} <= set(shown), "also what public modules have"


def test_every_command_and_its_options_are_in_the_reference(pages: ModuleType) -> None:
    text = pages.command_line()
    for name, command in COMMANDS.items():
        section = text.partition(f"\n## ccat {name}\n")[2].partition("\n## ")[0]
        assert f"usage: ccat {name}" in section
        assert command.help[1:20] in section
    assert "--rest-at-tpr" in text


def test_the_site_is_built_strictly() -> None:
    assert MKDOCS["strict"]
    assert set(MKDOCS["validation"]["links"].values()) == {"warn"}
    assert "/mkdocs build\n" in MAKEFILE, "with --quiet no warning is counted"


def test_links_lead_from_page_to_page(pages: ModuleType) -> None:
    class Page:
        is_homepage = False

    text = "[a](docs/A.md#b) [c](../README.md) [d](D.md) [e](https://docs/)"
    expected = "[a](A.md#b) [c](README.md) [d](D.md) [e](https://docs/)"
    assert pages.on_page_markdown(text, page=Page()) == expected


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.name)
def test_lists_read_alike_on_the_site_and_on_code_hosts(file: Path) -> None:
    """The site wants four spaces before a paragraph in a list, and an empty line after it."""
    text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"\n\n {1,3}\S", text)
    assert not re.search(r"\n\n {4}\S[^\n]*(\n {4}[^\n]*)*\n- ", text)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_call_what_is_there(file: Path) -> None:
    workflow = yaml.load(file.read_text(), Loader=yaml.BaseLoader)  # else `on` is True
    assert {"name", "on", "permissions", "jobs"} <= set(workflow)
    for name, job in workflow["jobs"].items():
        assert set(
            [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
        ) <= set(workflow["jobs"]), name
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
            continue
        assert job["steps"]
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"])
            elif step["run"].startswith("make "):
                assert f"\n{step['run'].split()[1]}:" in MAKEFILE
            else:
                assert step["run"].startswith("test -f ") or step["run"] == "bash .ci/run"


def test_there_are_workflows_for_tests_documentation_and_releases() -> None:
    assert [file.stem for file in WORKFLOWS] == ["docs", "release", "test"]
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert release["publish"]["permissions"] == {"id-token": "write"}
    assert release["publish"]["needs"] == ["test", "build"]


def test_what_make_test_checks_is_checked_at_commits() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    for hook in hooks:
        assert hook["entry"].replace(".venv/bin", "$(BIN)").split(" --force")[0] in MAKEFILE
    assert len(hooks) == 3


def test_issue_templates_have_a_name_and_say_what_they_are_for() -> None:
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert [file.stem for file in templates] == ["bug", "new-model", "stronger-attack"]
    for file in templates:
        _, head, body = file.read_text().split("---\n", 2)
        assert set(yaml.safe_load(head)) == {"name", "about", "title"}
        assert body.strip()


def test_the_citation_agrees_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"] == project["authors"]
    assert citation["license"] == project["license"]
    assert set(citation["keywords"]) <= set(project["keywords"])
    assert [author["family-names"] for author in citation["references"][0]["authors"]] == [
        "Stutz",
        "Hein",
        "Schiele",
    ]


def test_the_changelog_has_the_sections_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ – \d{4}-\d\d-\d\d", one) for one in versions[1:])
    kinds = set(re.findall(r"^### (.*)", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_library_of_the_extras_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()[1:]
    }
    extras = project["optional-dependencies"].values()
    wanted = {
        re.split(r"[\[<>=]", one)[0].lower()
        for one in [*project["dependencies"], *(name for extra in extras for name in extra)]
    }
    assert wanted - {"ccat-torch"} <= pinned
