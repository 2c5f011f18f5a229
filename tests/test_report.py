"""The report as files: what is in them, and that nothing in them can run."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from reported import NASTY, ON, RUNS, pictures, run, save_site
from synthetic import JUDGE, L2_3, LINF

from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.results import Group
from ccat.report.embedded import page_data
from ccat.report.page import page
from ccat.report.section import Section
from ccat.threats import Condition, Linf


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_site(tmp_path_factory.mktemp("site"))


def test_what_comes_from_files_is_escaped(site: Path) -> None:
    text = site.read_text()
    assert "<img src=x" not in text
    assert text.count("</script>") == 3
    data = json.loads(
        re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[0]
    )
    assert data["runs"][1]["name"] == NASTY


def test_arrays_are_sent_once() -> None:
    data = page_data([Section(one, evaluate(one, 0.9)) for one in RUNS])
    assert len(set(data["arrays"])) == len(data["arrays"])
    linf, l2 = (data["runs"][0]["attacked"][key] for key in (LINF.key, L2_3.key))
    assert linf["before"] == l2["before"], "the clean answers are those of both threats"


def test_it_stays_small() -> None:
    """Three runs of 9000 test and 1000 attacked images, seven threats, 16 pictures each: < 3 MB."""
    sections = []
    for seed in range(3):
        one = run(seed, f"run{seed}", "Normal", images=9000, attacked=1000)
        others = [run(10 * seed + n, "", "", attacked=1000, images=1000) for n in range(1, 8)]
        conditions = [Condition(Linf(n / 10)) for n in range(1, 8)]
        attempts = tuple(
            replace(other.attempts[1], condition=condition)
            for other, condition in zip(others, conditions, strict=True)
        )
        groups = tuple(Group(each, False, JUDGE, (n,)) for n, each in enumerate(conditions))
        one = replace(one, attempts=attempts, groups=groups)
        shown = {group.condition: pictures(one, group, 16) for group in groups}
        sections.append(Section(one, evaluate(one, 0.9), shown))
    assert len(page("three", sections, [], {}, ON).encode()) < 3_000_000


def test_the_folder_holds_tables_and_figures(site: Path) -> None:
    files = {
        str(file.relative_to(site.parent)) for file in site.parent.rglob("*") if file.is_file()
    }
    names = ["main", "classes", "thresholds", "unseen", "coverage", "attacks", "strongest"]
    names.append("confusion")
    expected = {f"tables/{name}.{ending}" for name in names for ending in ("md", "csv", "tex")}
    expected |= {
        f"figures/{name}.{ending}"
        for name in ("robust-error", "risk-coverage", "roc", "confidences")
        for ending in ("svg", "pdf", "png")
    }
    assert files == expected | {"index.html"}
    assert (site.parent / "figures/roc.png").read_bytes()[:4] == b"\x89PNG"
    assert (site.parent / "figures/roc.pdf").read_bytes()[:5] == b"%PDF-"
