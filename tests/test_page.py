"""The report page in a real browser: what it shows is what the command line prints."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, sync_playwright
from test_evaluation import literal_failures, measured

from ccat.evaluation import evaluate
from ccat.report import tables
from ccat.report.formats import percent
from ccat.report.page import Section, page
from ccat.report.write import write_report
from ccat.results import Measured, Picture

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
NASTY = '</script><img src=x onerror="window.hacked=1">&{{data}}'


def run(seed: int, name: str, method: str, images: int = 400, attacked: int = 100) -> Measured:
    made = measured(seed, images, attacked)
    return Measured(**{**made.__dict__, "run": name, "method": method, "recipe": {"name": NASTY, "seed": str(seed)}})


def pictures(count: int) -> list[Picture]:
    g = np.random.default_rng(1)
    image = g.random((1, 28, 28)).astype(np.float32)
    return [Picture(n, n % 10, image, image[:, ::-1].copy(), (n % 10, 0.9), ((n + 1) % 10, 0.8)) for n in range(count)]


RUNS = [run(0, "first", "Normal"), run(1, NASTY, "ConfidenceCalibrated"), run(2, "third", "ConfidenceCalibrated")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    sections = [Section(one, evaluate(one, 0.9), {("Linf:0.3", "test"): pictures(4)}) for one in RUNS]
    made = tables([[evaluate(one, tpr) for tpr in (0.9, 0.8)] for one in RUNS])
    return write_report(out, sections, made, {}, 0.9)


@pytest.fixture
def shown(site: Path) -> Iterator[Page]:
    """The page, on which no script may fail and nothing may be asked from a network."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": 1200, "height": 900})
        wrong: list[str] = []
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
        tab.goto(site.as_uri())
        yield tab
        assert wrong == []
        assert tab.evaluate("window.hacked") is None
        chromium.close()


def main_rows(tab: Page) -> list[list[str]]:
    rows: list[list[str]] = tab.eval_on_selector_all(
        "#main tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return rows


def expected_rows(tau: float | None) -> list[list[str]]:
    rows = []
    for one in RUNS:
        found = evaluate(one, 0.9) if tau is None else evaluate(one, tau=tau)
        cells = [found.run, percent(found.error.value), percent(found.coverage.value), f"{found.tau:.3f}", percent(found.tpr.value)]
        for a in found.attacks:
            fpr = "" if a.source == "noise" else f"FPR {percent(a.pooled.fpr_of_all.value)}"
            cells.append(percent(a.pooled.error.value) + "*" * a.seen + fpr)
        rows.append(cells)
    return rows


@browser
def test_the_slider_gives_what_evaluate_gives_to_the_last_digit(shown: Page) -> None:
    assert main_rows(shown) == expected_rows(None)
    for tau in [*np.round(np.linspace(0, 1, 21), 3), 0.457, 0.9995]:
        shown.fill("#tau-number", str(tau))
        assert main_rows(shown) == expected_rows(float(tau)), tau
    exact = float(RUNS[0].clean.outcome.score[3])  # a confidence itself: accepted is at least τ
    shown.fill("#tau-number", repr(exact))
    assert main_rows(shown) == expected_rows(exact)
    shown.eval_on_selector("#tau", "slider => { slider.value = 0.6; slider.dispatchEvent(new Event('input')); }")
    assert main_rows(shown) == expected_rows(0.6)
    shown.click("#tau-own")
    assert main_rows(shown) == expected_rows(None)


@browser
def test_percentages_are_rounded_as_python_rounds_them(shown: Page) -> None:
    taus = [n / 2000 for n in range(2001)] + [n / 64 for n in range(65)]
    assert shown.evaluate("taus => taus.map(tau => fixed(tau, 3))", taus) == [f"{tau:.3f}" for tau in taus]
    shares = [n / d for d in (7, 16, 40, 80, 200, 400, 1000, 9000) for n in range(d + 1)]
    assert shown.evaluate("shares => shares.map(percent)", shares) == [percent(share) for share in shares]


@browser
def test_sorting_and_filtering(shown: Page) -> None:
    def column(number: int) -> list[str]:
        cells: list[str] = shown.eval_on_selector_all(
            f"#examples tbody td:nth-child({number})", "cells => cells.map(cell => cell.textContent)"
        )
        return cells

    shown.select_option("#examples-run", "0")
    shown.select_option("#examples-threat", "test L2:3")
    assert column(1) == [str(n) for n in range(100)]
    shown.click("#examples th:nth-child(6) button")
    confidences = [float(text) for text in column(6)]
    assert confidences == sorted(confidences)
    shown.click("#examples th:nth-child(6) button")
    assert [float(text) for text in column(6)] == sorted(confidences, reverse=True)
    shown.check("#examples-through")
    through = column(7)
    assert 0 < len(through) < 100
    assert set(through) == {"got through"}
    assert shown.text_content("#examples-count") == f"{len(through)} images"
    worst = RUNS[0].attempts[2].answers.outcome
    assert len(through) == sum(literal_failures(RUNS[0], (2,), evaluate(RUNS[0], 0.9).tau))
    shown.uncheck("#examples-through")
    shown.fill("#examples-filter", "none succeeded")
    assert len(column(1)) == int((~worst.wrong).sum())
    assert set(column(8)) == {"none succeeded"}
    shown.fill("#examples-filter", "c (l2:3)")
    assert len(column(1)) == int(worst.wrong.sum())


@browser
def test_curves_gallery_and_other_controls(shown: Page) -> None:
    assert shown.locator("#rerr-chart path").count() == 3
    assert shown.locator("#roc-chart path").count() == 3
    assert shown.locator("#histograms figure").count() == 3
    strokes = shown.eval_on_selector_all(
        "#rerr-chart path", "paths => paths.map(p => [p.getAttribute('stroke'), p.getAttribute('stroke-dasharray')])"
    )
    assert strokes[1][0] == strokes[2][0] != strokes[0][0], "one colour per method"
    assert strokes[1] != strokes[2], "runs of one method differ"
    shown.select_option("#curve-threat", "noise Linf:0.3")
    assert shown.locator("#roc-chart path").count() == 0
    assert shown.locator("#gallery .card").count() == 4
    assert shown.evaluate("[...document.querySelectorAll('#gallery img')].every(image => image.complete && image.naturalWidth === 28)")
    assert "image 1, a 1: taken for 1 at 90.0 %" in (shown.text_content("#gallery") or "")
    shown.fill("#tau-number", "0.8")
    assert "attacked: 2 at 80.0 %, got through" in (shown.text_content("#gallery") or "")
    shown.fill("#tau-number", "0.81")
    assert "attacked: 2 at 80.0 %, rejected" in (shown.text_content("#gallery") or "")
    shown.fill("#tau-number", "")
    assert main_rows(shown) == expected_rows(None), "an empty field is each run's own threshold"
    shown.select_option("#curve-threat", "test L2:3")
    found = evaluate(RUNS[0], 0.9)
    dot = shown.eval_on_selector("#rerr-chart circle", "dot => [dot.getAttribute('cx'), dot.getAttribute('cy')].map(Number)")
    assert dot == pytest.approx([46 + found.tau * 356, 240 - found.attacks[1].pooled.error.value * 230], abs=0.01)
    shown.select_option("#gallery-threat", "test L2:3")
    assert "not kept" in (shown.text_content("#gallery") or "")


@browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone_in_the_dark_and_on_paper(shown: Page, scheme: str) -> None:
    shown.set_viewport_size({"width": 360, "height": 700})
    shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360, "only tables scroll sideways"
    ink, back = (
        [int(part) for part in re.findall(r"\d+", shown.evaluate(f"getComputedStyle(document.body).{name}"))[:3]]
        for name in ("color", "backgroundColor")
    )
    assert abs(sum(ink) - sum(back)) > 500
    assert (sum(back) < 100) == (scheme == "dark")
    shown.emulate_media(media="print")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(shown.pdf()) > 10_000


def test_what_comes_from_files_is_escaped(site: Path) -> None:
    text = site.read_text()
    assert "<img src=x" not in text
    assert text.count("</script>") == 2
    data = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[0])
    assert data["runs"][1]["name"] == NASTY


def test_it_stays_small() -> None:
    """Three runs of 9000 test and 1000 attacked images, seven threats with sixteen pictures each: under 5 MB."""
    sections = []
    for seed in range(3):
        one = run(seed, f"run{seed}", "Normal", images=9000, attacked=1000)
        groups = tuple(one.groups[0].__class__(f"Linf:0.{n}", "test", False, (0, 1)) for n in range(7))
        one = Measured(**{**one.__dict__, "groups": groups})
        evaluation = evaluate(run(seed, f"run{seed}", "Normal"), 0.9)
        sections.append(Section(one, evaluation, {(f"Linf:0.{n}", "test"): pictures(16) for n in range(7)}))
    assert len(page("three", sections, [], {}, 0.9).encode()) < 5_000_000


def test_the_folder_holds_tables_and_figures(site: Path) -> None:
    files = {str(file.relative_to(site.parent)) for file in site.parent.rglob("*") if file.is_file()}
    names = ["main", "thresholds", "unseen", "attacks", "strongest"]
    expected = {f"tables/{name}.{ending}" for name in names for ending in ("md", "csv", "tex")}
    expected |= {f"figures/{name}.{ending}" for name in ("robust-error", "roc", "confidences") for ending in ("svg", "pdf", "png")}
    assert files == expected | {"index.html"}
    assert (site.parent / "figures/roc.png").read_bytes()[:4] == b"\x89PNG"
    assert (site.parent / "figures/roc.pdf").read_bytes()[:5] == b"%PDF-"
