"""The tables of docs/RESULTS.md follow from the evaluations that are stored beside it."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from ccat import RECIPES
from ccat.catalog.zoo import zoo
from ccat.runs import Run

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("results", ROOT / "benchmarks" / "results.py")
assert spec is not None
assert spec.loader is not None
results = importlib.util.module_from_spec(spec)
sys.modules["results"] = results
spec.loader.exec_module(results)

STORED = sorted(results.STORED.glob("*.json"))


def test_the_page_has_the_tables_that_the_stored_evaluations_give() -> None:
    page = results.PAGE.read_text()
    assert results.filled(page) == page, "python benchmarks/results.py --tables"


def test_every_row_is_a_recipe_that_anyone_can_train() -> None:
    assert set(results.PAPER) <= set(results.ROWS) <= set(RECIPES)


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_stored_evaluation_is_of_a_row_and_names_its_weights(file: Path) -> None:
    evaluations = json.loads(file.read_text())["evaluations"]
    assert "ccat attack /" not in file.read_text(), "it is no matter where a run lay"
    row = file.stem.removesuffix("-paper").removesuffix("-again")
    assert row in (results.PAPER if file.stem.endswith("-paper") else results.ROWS)
    assert [one["tpr_asked"] for one in evaluations] == [0.99, 0.98, 0.95]
    assert {one["run"] for one in evaluations} == {file.stem}
    if row in zoo():
        assert evaluations[0]["weights"] == Run.open(zoo()[row]).weights


def test_what_was_attacked_again_takes_the_place_of_what_was_found_before() -> None:
    def found(threat: str, value: float) -> dict[str, object]:
        return {"condition": {"threat": threat, "source": "test"}, "value": value}

    old = {
        "row": [{"attacks": [found("L2:3", 0.1), found("Frame:2", 0.2)]}],
        "other": [{"attacks": []}],
    }
    new = {"row-again": [{"attacks": [found("Frame:2", 0.3)]}]}
    renewed = results._renewed(old, new)
    assert renewed["row"][0]["attacks"] == [found("L2:3", 0.1), found("Frame:2", 0.3)]
    assert renewed["other"] == old["other"]


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


def test_a_run_that_was_not_attacked_yet_has_a_row_of_dashes() -> None:
    stored = json.loads((results.STORED / "mnist-at-small.json").read_text())["evaluations"][0]
    row = results._row("AT", {**stored, "attacks": [], "unseen": {}, "corruptions": []})
    assert row[3:] == ["–"] * (len(results.COLUMNS) + 3)
