"""The report page in a real browser: what it shows is what the command line prints."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from reported import NASTY, ON, RUNS, made_tables, pictures, sections
from synthetic import (
    JUDGE,
    L2_3,
    LINF,
    NOISE,
    REJECT,
    detected,
    literal_failures,
    possible,
    rejected,
    run_outcomes,
)

from ccat.evaluation import rates
from ccat.evaluation.confusion import attacked_answers
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import headline, pooled_answers, pooled_outcome
from ccat.evaluation.intervals import Estimate
from ccat.evaluation.outcome import Outcome
from ccat.evaluation.planted import PlantedErrors
from ccat.evaluation.rates import COVERAGE, ROBUST_ERROR
from ccat.evaluation.results import Evaluation, Group, RunOutcomes
from ccat.evaluation.selective import risk_coverage, tau_at_coverage
from ccat.report.formats import percent
from ccat.report.page import page
from ccat.report.section import Section
from ccat.threats import Condition

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("site") / "index.html"
    file.write_text(page("three", sections(), made_tables(), {}, ON), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shown(site: Path, chromium: Browser) -> Iterator[Page]:
    """The page, on which no script may fail and nothing may be asked from a network."""
    tab = chromium.new_page(viewport={"width": 1200, "height": 900})
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on(
        "request",
        lambda request: (
            wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None
        ),
    )
    tab.goto(site.as_uri())
    yield tab
    assert wrong == []
    assert tab.evaluate("window.hacked") is None
    tab.close()


def of_one(out: Path, run: RunOutcomes, found: Evaluation, count: int = 0) -> str:
    """The address of a page with one run."""
    kept = {group.condition: pictures(run, group, count) for group in run.groups}
    file = out / "index.html"
    file.write_text(page(run.run, [Section(run, found, kept)], [], {}, ON), encoding="utf-8")
    return file.as_uri()


def move(tab: Page, share: str, mode: str = "tpr") -> None:
    """Choose a mode of the slider, and move it to a stop."""
    tab.eval_on_selector(f"#modes input[value={mode}]", "radio => radio.click()")
    stops = tab.evaluate("state.mode.stops")
    tab.eval_on_selector(
        "#stop",
        "(slider, n) => { slider.value = n; slider.dispatchEvent(new Event('input')); }",
        stops.index(share),
    )


def main_rows(tab: Page) -> list[list[list[str]]]:
    """The number and the small print of every cell, of the rows of runs."""
    rows: list[list[list[str]]] = tab.eval_on_selector_all(
        "#main tbody tr:not(.unrejected)",
        "rows => rows.map(row => [...row.cells].slice(1).map(cell => [cell.firstChild, "
        "...cell.querySelectorAll('small')].map(one => one.textContent)))",
    )
    return rows


def shares(found: Estimate, mark: str = "") -> list[str]:
    low, high = percent(found.low), percent(found.high)
    return [percent(found.value) + mark, f"{low}–{high}"]


def expected_rows(tpr: float, rate: str = "robust_error") -> list[list[list[str]]]:
    rows = []
    for one in RUNS:
        found = evaluate(one, tpr)
        clean = [shares(found.rates[name]) for name in ("error", "coverage", "tpr")]
        rows.append([*clean[:2], [f"{found.tau:.3f}"], clean[2]])
        for a in found.attacks:
            rows[-1].append(shares(a.pooled.rates.get(rate, a.pooled.headline), a.mark))
    return rows


def test_the_slider_gives_what_evaluate_gives_to_the_last_digit(shown: Page) -> None:
    assert main_rows(shown) == expected_rows(0.9), "at first, at the TPR of the tables"
    assert not shown.is_visible("#reset")
    for share in ("50", "82", "98.5", "99.6"):
        move(shown, share)
        assert main_rows(shown) == expected_rows(float(share) / 100), share
        assert f"accepts {share} % of the calibration images that" in words(shown, "#says")
    shown.click("#reset")
    assert shown.text_content("#stop-value") == "90 % TPR"
    assert main_rows(shown) == expected_rows(0.9)
    stops = shown.evaluate("state.mode.stops")
    assert stops[-1] == "99.6", "270 calibration images support no more"


def test_at_equal_coverage_it_gives_what_the_table_of_coverages_says(shown: Page) -> None:
    at = {one.run: evaluate(one, 0.9).attacks for one in RUNS}
    for n, share in enumerate(("99", "95", "90", "80")):
        move(shown, share, "coverage")
        for row, one in zip(main_rows(shown), RUNS, strict=True):
            assert row[2] == [f"{tau_at_coverage(one.calibration, float(share) / 100):.3f}"]
            values = [shares(a.selective.at[n].rate) for a in at[one.run]]
            assert [[cell[0].rstrip("*‡"), cell[1]] for cell in row[4:]] == values
    assert "coverage. Each run has the τ that accepts 80 %" in words(shown, "#says")


def words(tab: Page, selector: str) -> str:
    return re.sub(r"\s+", " ", tab.text_content(selector) or "")


def test_every_rate_can_be_shown(shown: Page) -> None:
    for rate in rates.ATTACK_RATES:
        shown.select_option("#rate", rate.name)
        assert main_rows(shown) == expected_rows(0.9, rate.name)
        assert f"{rate.title} = {rate.meaning}" in words(shown, "#rate-caption")
    said = words(shown, "#errors")
    for rate in (*rates.CLEAN_RATES, *rates.ATTACK_RATES, *rates.NOISE_RATES):
        assert f"{rate.title} = {rate.meaning}" in said
    assert "availability" not in said, "nobody attacked for rejection"


def test_what_it_is_worth_without_rejection(shown: Page) -> None:
    rows = shown.eval_on_selector_all(
        "#main tr.unrejected", "rows => rows.map(row => [...row.cells].map(c => c.textContent))"
    )
    for row, one in zip(rows, RUNS, strict=True):
        found = evaluate(one, 0.9)
        wanted = [
            percent(a.pooled.without_rejection) if a.condition.on_errors else "–"
            for a in found.attacks
        ]
        assert row[0] == "nothing rejected"
        assert row[1] == percent(found.without_rejection["error"])
        assert row[5:] == wanted


def test_one_menu_chooses_the_threat_for_the_whole_page(shown: Page) -> None:
    assert shown.locator("select#threat").count() == 1
    assert shown.eval_on_selector_all("select", "all => all.map(one => one.id)") == [
        "threat",
        "rate",
        "run",
    ]
    for condition, lists in ((LINF, True), (NOISE, True), (L2_3, False)):
        shown.select_option("#threat", condition.key)
        chosen = shown.text_content("#main th.chosen button")
        assert chosen == condition.title
        assert shown.locator("#main td.chosen").count() == 2 * len(RUNS)
        assert shown.is_visible("#gallery") == lists, "of L2 no pictures were kept"
        assert shown.is_visible("#roc-figure") == (not condition.on_noise)
        assert shown.is_visible("#rate") == (not condition.on_noise), "there is one rate of noise"
        assert (f"Under {condition.title}" in words(shown, "#classes")) == (not condition.on_noise)
        worst, _ = pooled_answers(RUNS[2], group_of(RUNS[2], condition))
        first = shown.text_content("#examples tbody td:nth-child(6)")
        assert first == percent(float(worst.outcome.score[0]))
    shown.click("#main th:nth-child(6) button")
    assert shown.input_value("#threat") == LINF.key, "a column's head chooses as well"


def group_of(one: RunOutcomes, condition: Condition) -> Group:
    return next(group for group in one.groups if group.condition == condition)


@pytest.mark.parametrize("condition", [LINF, NOISE], ids=["images", "noise"])
def test_gallery_list_and_table_agree(shown: Page, condition: Condition) -> None:
    """Where no attempt succeeded the gallery used to say "rejected", the list "accepted, right"."""
    seen = set()
    shown.select_option("#threat", condition.key)
    for number, one in enumerate(RUNS[:2]):
        shown.select_option("#run", str(number))
        for share in ("50", "90", "99"):
            move(shown, share)
            listed = shown.eval_on_selector_all(
                "#examples tbody tr",
                "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))",
            )
            cards = shown.eval_on_selector_all(
                "#gallery .card",
                "cards => cards.map(card => [Number(card.dataset.row), card.textContent,"
                " card.querySelector('.outcome').textContent])",
            )
            assert [row for row, _, _ in cards] == list(range(24))
            for row, text, outcome in cards:
                assert outcome == listed[row][6]
                itself = listed[row][7] == "none, the image itself"
                assert itself == ("the image itself is the worst" in text)
                if not itself:
                    assert f"{listed[row][4]} at {listed[row][5]} %" in text
                seen.add((outcome, itself))
            outcomes = [row[6] for row in listed]
            through, accepted = (outcomes.count(one) for one in ("got through", "accepted, right"))
            found = evaluate(one, float(share) / 100)
            (pooled,) = (a.pooled for a in found.attacks if a.condition == condition)
            whole = len(listed) if condition.on_noise else through + accepted
            assert pooled.headline.value == pytest.approx(through / whole)
    if condition.on_noise:
        assert seen == {("got through", False), ("rejected", False)}
    else:
        assert {("accepted, right", True), ("rejected", True), ("got through", False)} <= seen


def test_errors_of_classes_are_counted(shown: Page) -> None:
    shown.select_option("#threat", L2_3.key)
    move(shown, "80")
    rows = shown.eval_on_selector_all(
        "#by-class tbody tr", "rows => rows.map(row => [...row.cells].map(c => c.title))"
    )
    for column, one in enumerate(RUNS):
        found = evaluate(one, 0.8)
        levels, labels = headline(one, group_of(one, L2_3)), one.labels[:100]
        for label, row in enumerate(rows):
            mine = found.confusion[label]
            accepted = mine.images - mine.rejected
            wrong = accepted - mine.accepted[mine.label]
            assert row[1 + 2 * column] == f"{wrong} of {accepted}"
            part, whole = (
                int((each[labels == label] >= found.tau).sum())
                for each in (levels.part, levels.whole)
            )
            assert row[2 + 2 * column] == f"{part} of {whole}"


def test_of_many_classes_the_worst_are_shown_first(shown: Page, tmp_path: Path) -> None:
    one = run_outcomes(images=900, attacked=900)
    labels = np.arange(900) % 30
    one = replace(one, labels=labels, run="many", classes=tuple(f"class {n}" for n in range(30)))
    shown.goto(of_one(tmp_path, one, evaluate(one, 0.9)))
    rows = "rows => rows.map(row => [row.cells[0].textContent, parseFloat(row.cells[2].innerText)])"
    found = shown.eval_on_selector_all("#by-class tbody tr", rows)
    assert len(found) == 20
    assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)
    shown.click("#classes-more")
    assert shown.locator("#by-class tbody tr").count() == 30
    assert shown.text_content("#by-class tbody td") == found[0][0]


def test_a_detector_for_one_threat_scores_clean_images_there_too(
    shown: Page, tmp_path: Path
) -> None:
    one = replace(detected(run_outcomes()), run="detector")
    shown.goto(of_one(tmp_path, one, evaluate(one, 0.9)))
    for share in ("60", "90", "99"):
        move(shown, share)
        found = evaluate(one, float(share) / 100)
        values = [shares(a.pooled.headline, a.mark) for a in found.attacks]
        assert main_rows(shown)[0][4:] == values
    shown.select_option("#threat", L2_3.key)
    confidence = shown.text_content("#examples tbody tr:first-child td:nth-child(4)")
    assert confidence == percent(float(one.clean["L2:3"].outcome.score[0]))


def test_sorting_and_filtering(shown: Page) -> None:
    def column(number: int) -> list[str]:
        cells: list[str] = shown.eval_on_selector_all(
            f"#examples tbody td:nth-child({number})",
            "cells => cells.map(cell => cell.textContent)",
        )
        return cells

    shown.select_option("#threat", L2_3.key)
    shown.select_option("#run", "0")
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
    _, by = attacked_answers(RUNS[0], next(g for g in RUNS[0].groups if g.condition == L2_3))
    assert len(through) == sum(literal_failures(RUNS[0], (2,), evaluate(RUNS[0], 0.9).tau))
    shown.uncheck("#examples-through")
    shown.fill("#examples-filter", "none, the image itself")
    assert len(column(1)) == int((by < 0).sum())
    assert set(column(8)) == {"none, the image itself"}
    shown.fill("#examples-filter", "c (l2:3)")
    assert len(column(1)) == int((by >= 0).sum())


def test_runs_of_one_method_share_a_colour_and_pictures_are_whole(shown: Page) -> None:
    assert shown.locator("#histograms figure").count() == 3
    strokes = shown.eval_on_selector_all(
        "#rate-chart path",
        "paths => paths.map(p => [p.getAttribute('stroke'), p.getAttribute('stroke-dasharray')])",
    )
    assert len(strokes) == shown.locator("#roc-chart path").count() == 3
    assert strokes[1][0] == strokes[2][0] != strokes[0][0], "one colour per method"
    assert strokes[1] != strokes[2], "runs of one method differ"
    assert shown.locator("#gallery .card").count() == 24
    assert shown.evaluate(
        "[...document.querySelectorAll('#gallery img')]"
        ".every(image => image.complete && image.naturalWidth === 28)"
    )


def placed(tab: Page, selector: str, points: list[list[float]]) -> list[list[float]]:
    """Where a chart draws points given in per cent."""
    width, height = tab.eval_on_selector(
        f"{selector} svg", "svg => [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height]"
    )
    return [[44 + x / 100 * (width - 58), height - 42 - y / 100 * (height - 54)] for x, y in points]


@pytest.mark.parametrize("condition", [LINF, NOISE], ids=["images", "noise"])
def test_runs_are_compared_over_the_coverage_of_clean_images(
    shown: Page, condition: Condition
) -> None:
    shown.select_option("#threat", condition.key)
    drawn = shown.eval_on_selector_all(
        "#rate-chart path", "paths => paths.map(path => path.getAttribute('d'))"
    )
    for one, d in zip(RUNS, drawn, strict=True):
        clean = pooled_outcome(one, group_of(one, condition))[0]
        levels = headline(one, group_of(one, condition))
        curve = risk_coverage(levels, COVERAGE(clean))
        points = [list(map(float, point.split())) for point in re.findall(r"[^ML]+", d)]
        expected = [
            [float(percent(x)), float(percent(y))]
            for x, y in zip(curve.coverage, curve.risk, strict=True)
        ]
        wanted = placed(shown, "#rate-chart", expected)
        np.testing.assert_allclose(points, wanted, atol=0.006)
    for share in ("90", "60"):
        move(shown, share)
        dots = shown.eval_on_selector_all(
            "#rate-chart .dot",
            "dots => dots.map(dot => [dot.getAttribute('cx'), dot.getAttribute('cy')].map(Number))",
        )
        for one, mark in zip(RUNS, dots, strict=True):
            tau = evaluate(one, float(share) / 100).tau
            clean = pooled_outcome(one, group_of(one, condition))[0]
            at = [(clean.score >= tau).mean(), headline(one, group_of(one, condition)).at(tau)]
            (wanted_at,) = placed(shown, "#rate-chart", [[float(percent(v)) for v in at]])
            assert mark == pytest.approx(wanted_at, abs=0.01)


def test_values_are_read_under_the_pointer_and_with_the_keys(shown: Page) -> None:
    assert not shown.is_visible("#rate-chart .tip")
    shown.locator("#rate-chart svg").scroll_into_view_if_needed()
    box = shown.locator("#rate-chart svg").bounding_box()
    assert box
    shown.mouse.move(box["x"] + 44 + 0.5 * (box["width"] - 58), box["y"] + 60)
    tip = words(shown, "#rate-chart .tip")
    for one in RUNS:
        clean, levels = pooled_outcome(one, group_of(one, LINF))[0], headline(one, one.groups[0])
        curve = risk_coverage(levels, COVERAGE(clean))
        (n,) = np.flatnonzero(np.isclose(curve.coverage, 0.5))
        assert f"{one.run}{percent(curve.risk[n])} % at 50.0 %" in tip
    assert shown.locator("#rate-chart .hover .dot").count() == 3
    shown.mouse.move(5, 5)
    assert not shown.is_visible("#rate-chart .tip")
    shown.focus("#rate-chart svg")
    for _ in range(10):
        shown.keyboard.press("ArrowLeft")
    assert "at 90.0 %" in words(shown, "#rate-chart .tip")
    shown.keyboard.press("Escape")
    assert not shown.is_visible("#rate-chart .tip")
    roc = shown.locator("#roc-chart svg")
    roc.scroll_into_view_if_needed()
    roc.hover()
    assert "against" in words(shown, "#roc-chart .tip")


def test_doubts_stand_below_the_table_in_sentences(shown: Page, tmp_path: Path) -> None:
    planted = PlantedErrors("--suite x", 20, 0, 3, ())
    one = run_outcomes()
    resting = tuple(replace(attempt, rest_at=0.9) for attempt in one.attempts)
    one = replace(one, run="doubtful", planted={LINF: planted}, attempts=resting)
    shown.goto(of_one(tmp_path, one, evaluate(one, 0.9)))
    assert "it accepts is wrong" in words(shown, ".verdict")
    assert "the attacks found only 3 of 20 planted errors" in words(shown, "#verdicts")
    cell = shown.locator('#main td[data-key="doubtful Linf:0.3"]')
    assert "planted 3/20" in (cell.text_content() or "")
    assert cell.locator(".mark").text_content() == "‡"
    said = words(shown, "#doubts")
    assert "‡ doubtful, Linf:0.3: the attacks found only 3 of 20 planted errors." in said
    assert "lower bound" not in said, "at this τ attacks went on far enough"
    shown.click("#doubts a[href='#doubt-planted-errors']")
    assert shown.locator("#doubt-planted-errors").is_visible(), "the explanation is on the page"
    assert shown.text_content("#doubts a") == "docs/DOUBTS.md#planted-errors"
    move(shown, "80")
    assert "Linf:0.3, L2:3, distal Linf:0.3: attacks on an image ended" in words(shown, "#doubts")
    marks = shown.locator("#main tbody tr:first-child .mark")
    assert marks.count() == 3


def test_there_are_no_empty_sections(shown: Page, tmp_path: Path) -> None:
    one = replace(run_outcomes(), run="alone")
    shown.goto(of_one(tmp_path, one, evaluate(one, 0.9)))
    assert shown.eval_on_selector_all(
        "h2, h3", "all => all.filter(one => one.offsetParent).map(one => one.textContent)"
    ) == [
        "Risk over coverage",
        "Errors of what is accepted",
        "Class by class",
        "Confidences",
        "Images",
        "Image by image",
        "How the run was made",
    ]
    for empty in ("#key", "#run", "#doubts", "#gallery", "#analysis", "#tables"):
        assert not shown.is_visible(empty), empty


def test_a_page_of_one_run_is_no_poster(shown: Page, tmp_path: Path) -> None:
    one = replace(run_outcomes(), run="alone")
    found = evaluate(one, 0.9)
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"></svg>'
    file = tmp_path / "index.html"
    file.write_text(page("alone", [Section(one, found)], [], {"a small figure": svg}, ON))
    shown.set_viewport_size({"width": 1900, "height": 900})
    shown.goto(file.as_uri())
    widths = shown.eval_on_selector_all(
        "svg:not(.swatch), table", "all => all.map(one => one.getBoundingClientRect().width)"
    )
    assert max(widths) <= 1110
    assert (
        max(
            shown.eval_on_selector_all(
                ".chart svg", "all => all.map(one => one.getBoundingClientRect().width)"
            )
        )
        <= 560
    )
    image = shown.locator(".plate img").bounding_box()
    assert image
    assert image["width"] <= 320, "figures keep their size"


def test_without_scripts_verdicts_and_tables_are_there(site: Path, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(site.as_uri())
    assert "Without JavaScript" in words(tab, "header")
    assert tab.locator(".verdict").count() == 3
    rows = tab.locator("#main tbody tr")
    assert rows.count() == 6
    found = evaluate(RUNS[0], 0.9).attacks[0].pooled.headline
    assert f"{percent(found.value)}* ({percent(found.low)}–" in (rows.first.text_content() or "")
    assert tab.locator("#tables details").count() == 8
    for section in ("#curves", "#classes", "#confidences", "#images", "#threat", "#stop"):
        assert not tab.locator(section).is_visible(), section
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone_in_the_dark_and_on_paper(shown: Page, scheme: str) -> None:
    shown.set_viewport_size({"width": 360, "height": 700})
    shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360, (
        "only tables scroll sideways"
    )
    lines = shown.eval_on_selector_all(
        ".name", "all => all.map(one => one.getClientRects().length * one.offsetHeight)"
    )
    assert max(lines) < 40, "no name is broken"
    ink, back = (
        [
            int(part)
            for part in re.findall(
                r"\d+", shown.evaluate(f"getComputedStyle(document.body).{name}")
            )[:3]
        ]
        for name in ("color", "backgroundColor")
    )
    assert abs(sum(ink) - sum(back)) > 500
    assert (sum(back) < 100) == (scheme == "dark")
    shown.emulate_media(media="print")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(shown.pdf()) > 10_000


def test_where_the_attacker_wants_rejection_the_page_says_what_stays_accepted(
    shown: Page, tmp_path: Path
) -> None:
    one = rejected(RUNS[0])
    found = evaluate(one, tau=0.6)
    shown.goto(of_one(tmp_path, one, found, 24))
    assert shown.text_content("#where") == "at the τ given"
    group = group_of(one, REJECT)
    clean, lowest = pooled_outcome(one, group)
    both = np.minimum(clean.score, lowest.score)
    wanted = [
        "wrong when clean" if wrong else "stays accepted" if score >= 0.6 else "gets rejected"
        for wrong, score in zip(clean.wrong, both, strict=True)
    ]
    assert main_rows(shown)[0][-1] == shares(found.attacks[-1].pooled.headline)
    shown.select_option("#threat", REJECT.key)
    outcomes = "cells => cells.map(cell => cell.textContent)"
    listed = shown.eval_on_selector_all("#examples tbody td.outcome", outcomes)
    assert listed == wanted
    assert shown.eval_on_selector_all("#gallery .outcome", outcomes) == wanted[:24]
    assert not shown.is_visible("#roc-figure")
    shown.check("#examples-through")
    through = shown.eval_on_selector_all("#examples tbody td.outcome", outcomes)
    assert through == ["gets rejected"] * wanted.count("gets rejected")
    assert 0 < len(through) < len(wanted)


def test_a_band_reaches_from_what_was_found_to_what_is_possible(
    shown: Page, tmp_path: Path
) -> None:
    one = replace(RUNS[0], certified={LINF: possible(RUNS[0])})
    found = evaluate(one, 0.9)
    shown.goto(of_one(tmp_path, one, found))
    proved = percent(found.certificates[0].upper.value)
    assert main_rows(shown)[0][4][2] == f"≤ {proved}"
    assert f"within Linf:0.3 a proof allows at most {proved} %" in words(shown, ".verdict")
    points = shown.get_attribute("#rate-chart polygon.band", "points") or ""
    corners = {tuple(round(float(n), 1) for n in corner.split(",")) for corner in points.split()}
    clean: Outcome = one.clean[JUDGE].outcome[:100]
    for tau in np.unique(clean.score)[[0, 20, -1]]:
        for worst in (pooled_outcome(one, one.groups[0])[1], one.certified[LINF][:100]):
            value = ROBUST_ERROR(clean, worst).at(float(tau))
            at = [float(percent((clean.score >= tau).mean())), float(percent(value))]
            ((x, y),) = placed(shown, "#rate-chart", [at])
            assert any(abs(x - a) < 0.11 and abs(y - b) < 0.11 for a, b in corners)
    assert "A band reaches from" in words(shown, "#rate-caption")
    shown.select_option("#rate", "fpr_of_all")
    assert shown.locator("#rate-chart polygon").count() == 0, "only the headline is bounded"
    shown.select_option("#threat", L2_3.key)
    assert shown.locator("#rate-chart polygon").count() == 0


def test_names_that_look_like_scripts_are_only_names(shown: Page) -> None:
    names = shown.eval_on_selector_all("#key .name", "all => all.map(one => one.textContent)")
    assert names == [one.run for one in RUNS]
    assert NASTY in names
