"""The tables of docs/RESULTS.md follow from the evaluations that are stored beside it."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ccat import RECIPES
from ccat.catalog.zoo import zoo
from ccat.runs import Run

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location(
    "result_tables", ROOT / "benchmarks" / "result_tables.py"
)
assert spec is not None
assert spec.loader is not None
results = importlib.util.module_from_spec(spec)
sys.modules["result_tables"] = results
spec.loader.exec_module(results)

STORED = sorted(results.STORED.glob("*.json"))


def test_the_page_has_the_tables_that_the_stored_evaluations_give() -> None:
    page = results.PAGE.read_text()
    assert results.filled(page) == page, "python benchmarks/results.py --tables"


def test_every_row_is_a_recipe_that_anyone_can_train() -> None:
    assert set(results.PUBLISHED) <= set(results.PAPER) <= set(results.ROWS) <= set(RECIPES)


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_stored_evaluation_is_of_a_row_and_names_its_weights(file: Path) -> None:
    evaluations = json.loads(file.read_text())["evaluations"]
    assert "ccat attack /" not in file.read_text(), "it is no matter where a run lay"
    row, kind = re.fullmatch(r"(.*?)(-paper|-again|-proved)?", file.stem).groups()  # type: ignore[union-attr]
    rows = {"-paper": results.PAPER, "-proved": results.CERTIFIED}
    assert row in rows.get(kind, results.ROWS)
    assert [one["tpr_asked"] for one in evaluations] == [0.99, 0.98, 0.95]
    assert {one["run"] for one in evaluations} == {file.stem}
    if row in zoo():
        assert evaluations[0]["weights"] == Run.open(zoo()[row]).weights


@pytest.mark.parametrize("name", sorted(set(zoo()) & set(results.ROWS)))
def test_the_card_of_a_zoo_model_has_the_numbers_of_the_tables(name: str) -> None:
    card = json.loads((zoo()[name] / "evaluation.json").read_text())
    assert card["evaluations"] == results.renewed()[name], "python benchmarks/zoo.py --cards"


def test_what_was_attacked_again_takes_the_place_of_what_was_found_before() -> None:
    def found(threat: str, value: float) -> dict[str, Any]:
        return {"condition": {"threat": threat, "source": "test"}, "value": value}

    def rate(value: float) -> dict[str, Any]:
        return {"rates": {"robust_error": {"value": value}}}

    old = {
        "attacks": [found("L2:3", 0.1), found("Frame:2", 0.2)],
        "unseen": {"all unseen": rate(0.25), "L2:3": rate(0.2), "Frame:2": rate(0.1)},
        "worst": rate(0.4),
    }
    new = {
        "attacks": [found("Frame:2", 0.3)],
        "unseen": {"all unseen": rate(0.3)},
        "worst": rate(0.3),
    }
    renewed = results._renewed({"row": [old], "other": [old]}, {"row-again": [new]})
    assert renewed["row"] == [
        {
            "attacks": [found("L2:3", 0.1), found("Frame:2", 0.3)],
            "unseen": {"all unseen": rate(0.3), "L2:3": rate(0.3), "Frame:2": rate(0.1)},
            "worst": rate(0.4),  # which threat an image falls to, alone or with others
        }
    ]
    assert renewed["other"] == [old]


def test_cells_say_what_was_found_what_is_doubted_and_what_is_possible() -> None:
    rate = {"value": 0.091, "low": 0.05, "high": 0.14}
    attack = {
        "pooled": {"rates": {"robust_error": rate}},
        "doubts": ["one"],
        "seen": True,
    }
    bound = {"upper": {"value": 0.145}}
    assert results._cell(attack, bound) == "9.1‡\\* (5.0–14.0) ≤ 14.5"
    assert results._cell({**attack, "doubts": [], "seen": False}, None) == "9.1 (5.0–14.0)"
    assert results._cell(None, None) == "–"


def test_our_numbers_stand_before_the_paper_s() -> None:
    row = results._beside("mnist-ccat-small", results.renewed()["mnist-ccat-small"][0])
    assert row[0] == "CCAT"
    assert [cell.split(" / ")[1] for cell in row[1:]] == ["7.4", "0.2", "0.0", "5.7", "23.9"]


def test_a_run_that_was_not_attacked_yet_has_a_row_of_dashes() -> None:
    stored = json.loads((results.STORED / "mnist-at-small.json").read_text())["evaluations"][0]
    row = results._row("AT", {**stored, "attacks": [], "unseen": {}, "corruptions": []})
    assert row[3:] == ["–"] * (len(results.COLUMNS) + 3)
