"""A result leaves the process: tables in every format, files, a data frame, a figure, a report."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from synthetic import run_outcomes

import ccat
from ccat.api.result import Result, compare, write_report
from ccat.errors import PipelineError
from ccat.evaluation.evaluate import evaluate
from ccat.report.formats import percent


def result(seed: int = 0, name: str = "a") -> Result:
    outcomes = replace(run_outcomes(seed), run=name)
    images = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    return Result(outcomes, evaluate(outcomes, 0.9), {"Linf:0.3": images})


def test_tables_come_in_every_format_and_say_the_same() -> None:
    one = result()
    error = one.evaluation.rates["error"]
    assert percent(error.value) in one.table()
    assert percent(error.value) in one.table(format="tex")
    assert r"\toprule" in one.table(format="tex")
    assert repr(error.value) in one.table(format="csv")
    assert str(one) == one.table()
    with pytest.raises(ValueError, match="there is no format 'html'; there are md, csv, tex"):
        one.table(format="html")
    with pytest.raises(ValueError, match="there is no table 'mine'"):
        one.table("mine")


def test_a_saved_result_holds_numbers_tables_and_images(tmp_path: Path) -> None:
    one = result()
    folder = one.save(tmp_path / "out")
    stored = json.loads((folder / "result.json").read_text())
    assert stored == json.loads(json.dumps(one.to_dict()))
    assert (
        stored["evaluations"][0]["rates"]["error"]["value"] == one.evaluation.rates["error"].value
    )
    assert (folder / "tables" / "main.csv").read_text() == one.table(format="csv")
    with np.load(folder / "adversarial.npz") as arrays:
        np.testing.assert_array_equal(arrays["Linf:0.3"], one.adversarial["Linf:0.3"].numpy())


def test_a_data_frame_has_every_share_and_its_interval() -> None:
    one = result()
    frame = one.to_pandas()
    error = one.evaluation.rates["error"]
    first = frame.iloc[0]
    assert (first["Err"], first["Err low"], first["Err high"]) == tuple(error)
    assert first["run"] == "a"


def test_a_plot_has_a_panel_for_each_condition() -> None:
    one = result()
    figure = one.plot()
    titles = [panel.get_title() for panel in figure.axes if panel.get_title()]
    assert titles == [group.condition.title for group in one.outcomes.groups]
    with pytest.raises(ValueError, match="there is no figure 'mine'; there are robust-error"):
        one.plot("mine")


def test_two_results_are_compared_as_the_command_does() -> None:
    one, other = result(0, "a"), result(1, "b")
    found = compare(one, other, 0.9)
    clean = found.compared[0]
    errors = [each.evaluation.rates["error"].value for each in (one, other)]
    assert clean.first.value == pytest.approx(errors[0])
    assert clean.second.value == pytest.approx(errors[1])
    assert "a" in str(found)
    assert "b" in found.table("csv")


def test_a_report_is_written_of_results(tmp_path: Path) -> None:
    page = write_report([result(0, "a"), result(1, "b")], tmp_path / "report")
    text = page.read_text()
    assert "<title>ccat: a, b</title>" in text
    assert (tmp_path / "report" / "tables" / "main.tex").is_file()
    with pytest.raises(PipelineError, match="names of their own"):
        write_report([result(), result()], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_names_are_public() -> None:
    assert ccat.compare is compare
    assert ccat.write_report is write_report
