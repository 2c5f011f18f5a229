"""The report page in a real browser: what it shows is what the command line prints."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, sync_playwright
from reported import RUNS, pictures, save_site
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
from ccat.evaluation.certified import between
from ccat.evaluation.confusion import attacked_answers
from ccat.evaluation.evaluate import evaluate
from ccat.evaluation.groups import headline, pooled_answers, pooled_outcome
from ccat.evaluation.rates import COVERAGE
from ccat.evaluation.selective import risk_coverage
from ccat.report.formats import percent
from ccat.report.page import Section
from ccat.report.save import save_report
from ccat.threats import Condition

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def shown(site: Path) -> Iterator[Page]:
    """The page, on which no script may fail and nothing may be asked from a network."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": 1200, "height": 900})
        wrong: list[str] = []
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on(
            "request",
            lambda request: (
                wrong.append(request.url)
                if not request.url.startswith(("file:", "data:"))
                else None
            ),
        )
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


def expected_rows(
    tau: float | None, second: str = "fpr_of_all", title: str = "FPR"
) -> list[list[str]]:
    rows = []
    for one in RUNS:
        found = evaluate(one, 0.9) if tau is None else evaluate(one, tau=tau)
        cells = [
            found.run,
            percent(found.rates["error"].value),
            percent(found.rates["coverage"].value),
            f"{found.tau:.3f}",
            percent(found.rates["tpr"].value),
        ]
        for a in found.attacks:
            fpr = a.pooled.rates.get(second)
            small = f"{title} {percent(fpr.value)}" if fpr else ""
            cells.append(percent(a.pooled.headline.value) + "*" * a.seen + small)
        rows.append(cells)
    return rows


@browser
def test_the_slider_gives_what_evaluate_gives_to_the_last_digit(shown: Page) -> None:
    assert main_rows(shown) == expected_rows(None)
    for tau in [*np.round(np.linspace(0, 1, 21), 3), 0.457, 0.9995]:
        shown.fill("#tau-number", str(tau))
        assert main_rows(shown) == expected_rows(float(tau)), tau
    exact = float(
        RUNS[0].clean[JUDGE].outcome.score[3]
    )  # a confidence itself: accepted is at least τ
    shown.fill("#tau-number", repr(exact))
    assert main_rows(shown) == expected_rows(exact)
    shown.eval_on_selector(
        "#tau", "slider => { slider.value = 0.6; slider.dispatchEvent(new Event('input')); }"
    )
    assert main_rows(shown) == expected_rows(0.6)
    shown.click("#tau-own")
    assert main_rows(shown) == expected_rows(None)


@browser
def test_every_rate_can_be_shown(shown: Page) -> None:
    for rate in rates.ATTACK_RATES[1:]:
        shown.select_option("#second-rate", rate.name)
        assert main_rows(shown) == expected_rows(None, rate.name, rate.title)
    shown.select_option("#second-rate", "nothing")
    assert main_rows(shown) == expected_rows(None, "")
    for rate in rates.ATTACK_RATES:
        shown.select_option("#curve-rate", rate.name)
        assert f"{rate.title} = {rate.meaning}" in (shown.text_content("#rate-caption") or "")
        found = evaluate(RUNS[0], 0.9)
        mark = shown.eval_on_selector("#rate-chart circle", "dot => dot.getAttribute('cy')")
        value = found.attacks[0].pooled.rates[rate.name].value
        assert float(mark) == pytest.approx(240 - 230 * value, abs=0.01)
    legend = shown.text_content("#errors") or ""
    others = (*rates.NOISE_RATES, *rates.REJECTION_RATES)
    for rate in (*rates.CLEAN_RATES, *rates.ATTACK_RATES, *others):
        assert f"{rate.title} = {rate.meaning}" in re.sub(r"\s+", " ", legend)


@browser
@pytest.mark.parametrize("condition", [LINF, NOISE], ids=["images", "noise"])
def test_gallery_list_and_table_agree(shown: Page, condition: Condition) -> None:
    """Where no attempt succeeded the gallery used to say "rejected", the list "accepted, right"."""
    seen = set()
    for number, one in enumerate(RUNS):
        for name in ("gallery", "examples"):
            shown.select_option(f"#{name}-run", str(number))
            shown.select_option(f"#{name}-threat", condition.key)
        for tau in (0.3, 0.55, 0.8):
            shown.fill("#tau-number", str(tau))
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
                    assert f"attacked: {listed[row][4]} at {listed[row][5]} %" in text
                seen.add((outcome, itself))
            outcomes = [row[6] for row in listed]
            through, accepted = (outcomes.count(one) for one in ("got through", "accepted, right"))
            (pooled,) = (
                a.pooled for a in evaluate(one, tau=tau).attacks if a.condition == condition
            )
            whole = len(listed) if condition.on_noise else through + accepted
            assert pooled.headline.value == pytest.approx(through / whole)
    if condition.on_noise:
        assert seen == {("got through", False), ("rejected", False)}
    else:
        assert {("accepted, right", True), ("rejected", True), ("got through", False)} <= seen


@browser
def test_a_detector_for_one_threat_scores_clean_images_there_too(
    shown: Page, tmp_path: Path
) -> None:
    one = replace(detected(run_outcomes()), run="detector")
    section = Section(one, evaluate(one, 0.9))
    shown.goto(save_report(tmp_path, [section], [], {}, 0.9).as_uri())
    for tau in (0.2, 0.5, 0.9):
        shown.fill("#tau-number", str(tau))
        found = evaluate(one, tau=tau)
        values = [percent(a.pooled.headline.value) + "*" * a.seen for a in found.attacks]
        assert [cell.split("FPR")[0] for cell in main_rows(shown)[0][5:]] == values
    shown.select_option("#examples-threat", L2_3.key)
    confidence = shown.text_content("#examples tbody tr:first-child td:nth-child(4)")
    assert confidence == percent(float(one.clean["L2:3"].outcome.score[0]))


@browser
def test_percentages_are_rounded_as_python_rounds_them(shown: Page) -> None:
    taus = [n / 2000 for n in range(2001)] + [n / 64 for n in range(65)]
    assert shown.evaluate("taus => taus.map(tau => fixed(tau, 3))", taus) == [
        f"{tau:.3f}" for tau in taus
    ]
    shares = [n / d for d in (7, 16, 40, 80, 200, 400, 1000, 9000) for n in range(d + 1)]
    assert shown.evaluate("shares => shares.map(percent)", shares) == [
        percent(share) for share in shares
    ]


@browser
def test_sorting_and_filtering(shown: Page) -> None:
    def column(number: int) -> list[str]:
        cells: list[str] = shown.eval_on_selector_all(
            f"#examples tbody td:nth-child({number})",
            "cells => cells.map(cell => cell.textContent)",
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
    _, by = attacked_answers(RUNS[0], next(g for g in RUNS[0].groups if g.condition == L2_3))
    assert len(through) == sum(literal_failures(RUNS[0], (2,), evaluate(RUNS[0], 0.9).tau))
    shown.uncheck("#examples-through")
    shown.fill("#examples-filter", "none, the image itself")
    assert len(column(1)) == int((by < 0).sum())
    assert set(column(8)) == {"none, the image itself"}
    shown.fill("#examples-filter", "c (l2:3)")
    assert len(column(1)) == int((by >= 0).sum())


@browser
def test_curves_gallery_and_other_controls(shown: Page) -> None:
    assert shown.locator("#rate-chart path").count() == 3
    assert shown.locator("#roc-chart path").count() == 3
    assert shown.locator("#histograms figure").count() == 3
    strokes = shown.eval_on_selector_all(
        "#rate-chart path",
        "paths => paths.map(p => [p.getAttribute('stroke'), p.getAttribute('stroke-dasharray')])",
    )
    assert strokes[1][0] == strokes[2][0] != strokes[0][0], "one colour per method"
    assert strokes[1] != strokes[2], "runs of one method differ"
    shown.select_option("#curve-threat", "noise Linf:0.3")
    assert shown.locator("#roc-chart path").count() == 0
    assert not shown.locator("#roc-figure").is_visible()
    assert shown.locator("#gallery .card").count() == 24
    assert shown.evaluate(
        "[...document.querySelectorAll('#gallery img')]"
        ".every(image => image.complete && image.naturalWidth === 28)"
    )
    one = RUNS[2]
    clean, (worst, by) = one.clean[JUDGE], pooled_answers(one, one.groups[0])
    n = next(n for n in range(24) if by[n] >= 0 and not clean.outcome.wrong[n])
    card = shown.locator(f'#gallery .card[data-row="{n}"]')
    score, attacked = (float(answers.outcome.score[n]) for answers in (clean, worst))
    label, answer = one.labels[n], worst.predicted[n]
    assert f"image {n}, a {label}: taken for {label} at {percent(score)} %" in (
        card.text_content() or ""
    )
    for tau, words in ((attacked, "got through"), (max(attacked, score) + 1e-6, "rejected")):
        shown.fill("#tau-number", repr(tau))
        assert f"attacked: {answer} at {percent(attacked)} %, {words}" in (
            card.text_content() or ""
        )
    shown.fill("#tau-number", "")
    assert main_rows(shown) == expected_rows(None), "an empty field is each run's own threshold"
    shown.select_option("#curve-threat", "test L2:3")
    found = evaluate(RUNS[0], 0.9)
    shown.select_option("#curve-over", "tau")
    value = found.attacks[1].pooled.headline.value
    assert dots(shown)[0] == pytest.approx(place(found.tau, value), abs=0.01)
    shown.select_option("#gallery-threat", "test L2:3")
    assert "not kept" in (shown.text_content("#gallery") or "")


def dots(tab: Page) -> list[list[float]]:
    found: list[list[float]] = tab.eval_on_selector_all(
        "#rate-chart circle",
        "dots => dots.map(dot => [dot.getAttribute('cx'), dot.getAttribute('cy')].map(Number))",
    )
    return found


def place(x: float, y: float) -> list[float]:
    """Where a chart draws a point."""
    return [46 + x * 356, 240 - y * 230]


@browser
@pytest.mark.parametrize("condition", [LINF, NOISE], ids=["images", "noise"])
def test_runs_are_compared_over_the_coverage_of_clean_images(
    shown: Page, condition: Condition
) -> None:
    shown.select_option("#curve-threat", condition.key)
    assert shown.input_value("#curve-over") == "coverage", "unless asked otherwise"
    assert "over the share of clean images" in (shown.text_content("#rate-caption") or "")
    drawn = shown.eval_on_selector_all(
        "#rate-chart path", "paths => paths.map(path => path.getAttribute('d'))"
    )
    marks = dots(shown)
    assert len(drawn) == len(marks) == len(RUNS)
    for one, d, mark in zip(RUNS, drawn, marks, strict=True):
        (group,) = (group for group in one.groups if group.condition == condition)
        clean, levels = pooled_outcome(one, group)[0], headline(one, group)
        curve = risk_coverage(levels, COVERAGE(clean))
        points = [list(map(float, point.split())) for point in re.findall(r"[^ML]+", d)]
        expected = map(place, curve.coverage, curve.risk)
        np.testing.assert_allclose(points, list(expected), atol=0.006)
        tau = evaluate(one, 0.9).tau
        assert mark == pytest.approx(place((clean.score >= tau).mean(), levels.at(tau)), abs=0.01)
    assert shown.locator("#rate-chart line").count() == 0
    shown.fill("#tau-number", "0.8")
    rings = [mark for mark in dots(shown) if mark not in marks]
    assert shown.locator("#rate-chart circle.ring").count() == len(RUNS)
    (group,) = (group for group in RUNS[0].groups if group.condition == condition)
    clean, levels = pooled_outcome(RUNS[0], group)[0], headline(RUNS[0], group)
    assert rings[0] == pytest.approx(place((clean.score >= 0.8).mean(), levels.at(0.8)), abs=0.01)
    shown.select_option("#curve-over", "tau")
    assert shown.locator("#rate-chart .ring").count() == 0
    assert shown.locator("#rate-chart line").count() == 1
    assert "over the threshold τ" in (shown.text_content("#rate-caption") or "")
    for one, mark in zip(RUNS, dots(shown), strict=True):
        assert mark[0] == pytest.approx(place(evaluate(one, 0.9).tau, 0)[0], abs=0.01)


@browser
def test_long_curves_are_thinned_and_keep_their_ends(shown: Page) -> None:
    for count in (1, 2, 299, 300, 301, 599, 1000, 9000):
        kept = shown.evaluate(
            "count => every(Float64Array.from({length: count}, (_, n) => n), 300)", count
        )
        assert len(kept) == min(count, 300)
        assert (kept[0], kept[-1]) == (0, count - 1)
        assert kept == sorted(set(kept))
    assert shown.evaluate("every(Float64Array.of(1, 1, 2, 2, 2), 300)") == [1, 2]


@browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone_in_the_dark_and_on_paper(shown: Page, scheme: str) -> None:
    shown.set_viewport_size({"width": 360, "height": 700})
    shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360, (
        "only tables scroll sideways"
    )
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


@browser
def test_where_the_attacker_wants_rejection_the_page_says_what_stays_accepted(
    shown: Page, tmp_path: Path
) -> None:
    one = rejected(RUNS[0])
    found = evaluate(one, tau=0.6)
    kept = {group.condition: pictures(one, group, 24) for group in one.groups}
    place = save_report(tmp_path / "site", [Section(one, found, kept)], [], {}, 0.9)
    shown.goto(place.as_uri())
    group = next(group for group in one.groups if group.condition == REJECT)
    clean, lowest = pooled_outcome(one, group)
    both = np.minimum(clean.score, lowest.score)
    wanted = [
        "wrong when clean" if wrong else "stays accepted" if score >= 0.6 else "gets rejected"
        for wrong, score in zip(clean.wrong, both, strict=True)
    ]
    assert main_rows(shown)[0][-1] == percent(found.attacks[-1].pooled.headline.value)
    for name in ("gallery", "examples", "curve"):
        shown.select_option(f"#{name}-threat", REJECT.key)
    outcomes = "cells => cells.map(cell => cell.textContent)"
    listed = shown.eval_on_selector_all("#examples tbody td.outcome", outcomes)
    assert listed == wanted
    assert shown.eval_on_selector_all("#gallery .outcome", outcomes) == wanted[:24]
    assert not shown.is_visible("#roc-figure")
    shown.check("#examples-through")
    through = shown.eval_on_selector_all("#examples tbody td.outcome", outcomes)
    assert through == ["gets rejected"] * wanted.count("gets rejected")
    assert 0 < len(through) < len(wanted)


@browser
def test_a_band_reaches_from_what_was_found_to_what_is_possible(
    shown: Page, tmp_path: Path
) -> None:
    one = replace(RUNS[0], certified={LINF: possible(RUNS[0])})
    found = evaluate(one, tau=0.6)
    shown.goto(save_report(tmp_path / "site", [Section(one, found)], [], {}, 0.9).as_uri())
    proved = found.certificates[0].upper.value
    assert f"≤ {percent(proved)}" in main_rows(shown)[0][5]
    shown.select_option("#curve-threat", LINF.key)
    points = shown.get_attribute("#rate-chart polygon.band", "points") or ""
    corners = {tuple(round(float(n), 1) for n in corner.split(",")) for corner in points.split()}
    both = between(one, LINF)
    clean = one.clean[JUDGE].outcome[:100]
    for tau in np.unique(clean.score)[[0, 20, -1]]:
        for levels in (both.lower, both.upper):
            assert levels is not None
            x, y = place((clean.score >= tau).mean(), levels.at(tau))
            assert any(abs(x - a) < 0.11 and abs(y - b) < 0.11 for a, b in corners)
    assert "A band reaches from" in (shown.text_content("#rate-caption") or "")
    shown.select_option("#curve-rate", "fpr_of_all")
    assert shown.locator("#rate-chart polygon").count() == 0, "only the headline is bounded"
    shown.select_option("#curve-threat", L2_3.key)
    assert shown.locator("#rate-chart polygon").count() == 0
