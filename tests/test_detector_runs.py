"""A run that rejects by a detector, from the command that makes it to its report."""

import re
from pathlib import Path

import numpy as np
import pytest
from runs import TINY, says
from truth import seeded

from ccat import Condition, Confidence, Detection, Images, Linf, create_model
from ccat.evaluation.results import Group, RunOutcomes
from ccat.pipeline.collect import collect
from ccat.pipeline.examples import export
from ccat.runs import Run


def detect(suite: list[str]) -> list[str]:
    few = ["--known", "600", "--pairs", "300"]
    return ["detect", "tiny", "--detector", "mahalanobis", *few, *suite]


def cases(only: str, *threats: str) -> list[str]:
    within = [word for threat in threats for word in ("--threat", threat)]
    return ["--suite", "demo", *within, "--only", only, "--examples", "100", "--workers", "1"]


def group_of(outcomes: RunOutcomes, threat: Linf) -> Group:
    return next(one for one in outcomes.groups if one.condition == Condition(threat))


def members(outcomes: RunOutcomes, threat: Linf, within: Linf) -> list[int]:
    """The attempts of a group that were made within a smaller threat."""
    found = group_of(outcomes, threat).members
    return [n for n in found if outcomes.attempts[n].condition == Condition(within)]


@pytest.mark.filterwarnings("default:.*calibration images support a TPR")
def test_a_run_that_rejects_by_a_detector(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mnist_test: Images,
) -> None:
    monkeypatch.chdir(tmp_path)
    says(capsys, "train", *TINY, "--images=1500", "--epochs", "2", "--run", "runs/tiny")
    base = Run.open(Path("runs/tiny"))
    assert base.rejection == Confidence()
    attack = cases("*pgd*zero*", "Linf:0.3", "Linf:0.2", "Frame:2")
    lid = ["detect", "tiny", "--detector", "lid"]
    assert "has no layer 'features.20'" in says(
        capsys, *lid, "--layers", "features.20", *attack, error=True
    )
    assert "did you mean quick" in says(capsys, *lid, "--suite", "quik", error=True)
    assert not Path("runs/tiny-lid").exists()
    assert "there are 60000: lower --known and --pairs" in says(
        capsys, *lid, "--known", "60001", *attack, error=True
    )
    assert "has no detector yet" in says(capsys, "evaluate", "tiny-lid", error=True)
    assert "has no detector yet" in says(
        capsys, "attack", "tiny-lid", *attack, "--dry-run", error=True
    )

    only = cases("*apgd*[mo1]", "Linf:0.3", "Linf:0.2")
    says(capsys, *detect(only))
    run = Run.open(Path("runs/tiny-mahalanobis"))
    assert run.rejection == Detection("mahalanobis", known=600, pairs=300)
    assert (run.recipe, run.weights) == (base.recipe, base.weights)
    assert list(run.answers.detectors()) == ["Linf:0.2", "Linf:0.3"]
    check_outcomes(run)
    shown = says(capsys, "evaluate", "tiny-mahalanobis", "--tpr", "0.9")
    assert "scores are a detector's" in shown
    assert re.search(r"\| tiny-mahalanobis +\|", shown)
    assert re.search(r"\| tiny-mahalanobis, unaware +\|", shown)
    assert "0 blocks computed" in says(capsys, *detect(only))
    check_export(run)

    says(capsys, "attack", "tiny-mahalanobis", *cases("*apgd*1", "Linf:0.1", "Linf:0.35"))
    quickly = ["evaluate", "tiny-mahalanobis", "--tau", "0.1"]  # at one threshold only
    fitted = list(run.answers.detectors())
    assert fitted == ["Linf:0.2", "Linf:0.1", "Linf:0.3", "Linf:0.35"], "the first stays"
    assert "made before the detector for Linf:0.35 was fitted; `ccat attack` once more" in says(
        capsys, *quickly
    )
    says(capsys, "attack", "tiny-mahalanobis", *only)
    assert "made before" not in says(capsys, *quickly)
    outcomes = collect(run)
    widest = group_of(outcomes, Linf(0.35))
    assert widest.judge == "Linf:0.35"
    assert len({outcomes.attempts[n].condition for n in widest.members}) == 4, (
        "all smaller ones count"
    )

    says(capsys, "corrupt", "tiny-mahalanobis", "--examples", "30")
    assert "impulse_noise" in says(capsys, *quickly, "--table", "corruptions")
    says(capsys, "report", "tiny-mahalanobis", "--tpr", "0.9")
    assert Path("report/index.html").exists()
    assert "already rejects by a detector" in says(
        capsys, "detect", "tiny-mahalanobis", "--detector", "lid", *only, error=True
    )
    run.training.save_model(create_model("lenet", seeded(9)))
    assert "fitted on another model" in says(
        capsys, "attack", "tiny-mahalanobis", *only, error=True
    )


def check_outcomes(run: Run) -> None:
    """What was found at the smaller ε counts at the larger one, by the latter's detector."""
    outcomes = collect(run)
    assert not outcomes.shared_judge
    assert {group.judge for group in outcomes.groups} == {"Linf:0.2", "Linf:0.3"}
    smaller = members(outcomes, Linf(0.3), Linf(0.2))
    assert smaller == list(group_of(outcomes, Linf(0.2)).members)
    for number in smaller:
        attempt = outcomes.attempts[number]
        assert set(attempt.answers) == {"Linf:0.2", "Linf:0.3"}
        one, other = attempt.answers.values()
        assert np.array_equal(one.outcome.wrong, other.outcome.wrong)
        assert not np.array_equal(one.outcome.score, other.outcome.score)
    for number in members(outcomes, Linf(0.3), Linf(0.3)):
        assert set(outcomes.attempts[number].answers) == {"Linf:0.3"}
    clean = outcomes.clean
    assert set(clean) == {"Linf:0.2", "Linf:0.3"}
    assert not np.array_equal(clean["Linf:0.2"].outcome.score, clean["Linf:0.3"].outcome.score)
    without = outcomes.unaware()
    assert without is not None
    families = [{one.family for one in some.attempts} for some in (outcomes, without)]
    assert families[0] - families[1] == {"aware APGD"}
    assert families[1] == {"APGD-Conf"}
    assert {one.aware for one in without.attempts} == {False}


def check_export(run: Run) -> None:
    """Exported examples are the worst by the detector that judges them."""
    outcomes = collect(run)
    for threat in (Linf(0.2), Linf(0.3)):
        arrays, group = export(run, threat), group_of(outcomes, threat)
        found = [outcomes.attempts[n].answers[group.judge] for n in group.members]
        for row in range(100):
            wrong = [one.outcome.score[row] for one in found if one.outcome.wrong[row]]
            clean = outcomes.clean[group.judge].outcome.score[row]
            assert arrays["score"][row] == pytest.approx(max(wrong, default=clean))
            moved = not np.array_equal(arrays["x"][row], arrays["x_adv"][row])
            assert moved == bool(wrong)
