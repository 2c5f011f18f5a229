"""A run at a glance: what its headline says, and when it is stale."""

import json
from pathlib import Path

import pytest
from synthetic import run_outcomes

from ccat.catalog import RECIPES
from ccat.cli import main
from ccat.evaluation.evaluate import evaluate
from ccat.report import to_json
from ccat.runs import Run, RunError
from ccat.runs.find import find_runs
from ccat.runs.glance import Headline, glance


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with an attempt of one block, evaluated; what it holds is made up."""
    one = Run.create(tmp_path / "runs" / "one", RECIPES["mnist-ccat-small"], "cpu")
    one.folder.write_json("trained.json", {"weights": "w"})
    (one.path / "attempts" / "key").mkdir(parents=True)
    (one.path / "attempts" / "key" / "0000.safetensors").touch()
    one.save_evaluation(EVALUATION)
    return one


EVALUATED = evaluate(run_outcomes(), 0.9)
EVALUATION = to_json([EVALUATED])


def test_the_headline_is_that_of_the_evaluation(run: Run) -> None:
    found = glance(run.path)
    assert (found.recipe, found.done, found.attempts) == ("mnist-ccat-small", None, 1)
    assert found.evaluated == "yes"
    assert found.headline is not None
    assert found.headline.tpr == 0.9
    assert found.headline.error == EVALUATED.rates["error"].value
    assert found.headline.under == {
        a.condition.title: a.pooled.headline.value for a in EVALUATED.attacks
    }
    errors = {
        a.condition.title: a.pooled.headline.value
        for a in EVALUATED.attacks
        if not a.condition.on_noise and not a.condition.rejects
    }
    worst = max(errors, key=lambda name: errors[name])
    assert found.headline.worst == (errors[worst], worst)
    assert Headline(0.9, 0.1, {"distal Linf:0.3": 1.0}).worst is None


@pytest.mark.parametrize(
    "name",
    [
        "attempts/key/0001.safetensors",
        "attempts/other/0000.safetensors",
        "planted.json",
        "plan.json",
        "certificates/Linf-0.3.safetensors",
        "corrupted/mnist-c.safetensors",
    ],
)
def test_what_is_added_later_makes_it_stale(run: Run, name: str) -> None:
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).write_text("new")
    assert glance(run.path).evaluated == "stale"
    (run.path / name).unlink()
    if not any((run.path / name).parent.iterdir()):
        (run.path / name).parent.rmdir()
    assert glance(run.path).evaluated == "yes", "files decide, not their dates"


def test_a_run_that_is_not_evaluated_or_damaged_says_so(run: Run) -> None:
    headline = run.path / "headline.json"
    changed = json.loads(headline.read_text()) | {"error": 0.0}
    headline.write_text(json.dumps(changed))
    assert glance(run.path).evaluated == "damaged"
    headline.unlink()
    assert glance(run.path).evaluated == "no"
    (run.path / "trained.json").unlink()
    assert glance(run.path).done == 0
    (run.path / "run.json").write_text("{}")
    with pytest.raises(RunError):
        glance(run.path)


def test_runs_are_listed_with_their_errors(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    main(["runs", str(run.path.parent)])
    shown = capsys.readouterr().out
    value, threat = glance(run.path).headline.worst  # type: ignore[union-attr, misc]
    assert f"{100 * value:.1f} within {threat}" in shown
    assert "90 % TPR |" in shown
    (run.path / "attempts" / "key" / "0001.safetensors").touch()
    main(["runs", str(run.path.parent)])
    shown = capsys.readouterr().out
    assert "90 % TPR, stale |" in shown
    assert "`ccat evaluate RUN`" in shown


def test_runs_are_not_looked_for_among_the_results_of_others(run: Run) -> None:
    inside = run.path / "attempts" / "key" / "run.json"
    inside.write_text("{}")
    assert find_runs(run.path.parent) == [run.path]
