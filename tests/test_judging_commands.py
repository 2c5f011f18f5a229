"""The commands that judge runs, from real run directories."""

import csv
import io
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from reported import unpacked
from runs import CASES, TINY, says, table

from ccat import PGD, SUITES, Case, Condition, Images, Linf, Suite, metrics, sealed
from ccat.cli import main
from ccat.data import data_digest
from ccat.pipeline.analyse import analyse
from ccat.pipeline.collect import collect
from ccat.pipeline.examples import pictures
from ccat.report import json_schema
from ccat.runs import Run

FEW = ("--examples", "100", "--workers", "1")


@pytest.fixture(scope="module")
def directory(
    tmp_path_factory: pytest.TempPathFactory, mnist_train: Images, mnist_test: Images
) -> Path:
    """Two runs of one recipe but for the seed, attacked, and one that was not."""
    here = tmp_path_factory.mktemp("judging")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setitem(SUITES, "tiny", Suite(CASES))
        for seed in ("0", "1"):
            main(["train", *TINY, "--epochs", "1", "--seed", seed, "--run", f"runs/seed{seed}"])
            main(["attack", f"seed{seed}", "--suite", "tiny", *FEW])
        main(["train", *TINY, "--epochs", "1", "--method.rho", "2", "--run", "runs/fresh"])
    return here


@pytest.fixture
def here(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(directory)
    monkeypatch.setitem(SUITES, "tiny", Suite(CASES))
    return directory


def test_evaluate_writes_a_document_and_prints_any_format(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--tpr", "0.9")
    shown = table(says(capsys, "evaluate", "seed0", "seed1", *at, "--table", "main"))
    stored = json.loads((here / "runs/seed0/evaluation.json").read_text())
    jsonschema.validate(stored, json_schema())
    asked = stored["evaluations"][0]
    assert asked["tpr_asked"] == 0.9
    assert shown["Err"] == f"{100 * asked['rates']['error']['value']:.1f}"
    printed = json.loads(says(capsys, "evaluate", "seed0", "seed1", *at, "--format", "json"))
    jsonschema.validate(printed, json_schema())
    assert [one["run"] for one in printed["evaluations"] if one["tpr_asked"] == 0.9] == [
        "seed0",
        "seed1",
    ]
    text = says(capsys, "evaluate", "seed0", *at, "--table", "main", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert float(rows[0]["Err"]) == asked["rates"]["error"]["value"]
    before = (here / "runs/seed0/evaluation.json").read_bytes()
    says(capsys, "evaluate", "seed0", "--tau", "0.5")
    assert (here / "runs/seed0/evaluation.json").read_bytes() == before, (
        "a look at another threshold replaces nothing"
    )


def test_compare_pairs_runs_and_takes_seeds_together(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = says(capsys, "compare", "seed0", "seed1", "--tpr", "0.9")
    assert "mnist-ccat-demo, seeds 0, 1" in shown
    assert "±" in shown
    assert "only seed1 fails" in shown


def test_pictures_are_the_worst_that_was_kept(here: Path, mnist_test: Images) -> None:
    """As tables count it: the image itself where no attempt succeeded."""
    run = Run.open(Path("runs/seed0"))
    outcomes = collect(run)
    for group in outcomes.groups:
        shown = pictures(run, outcomes, group, 16)
        assert [picture.row for picture in shown] == list(range(16))
        clean = outcomes.clean[group.judge]
        attempts = [outcomes.attempts[member].answers[group.judge] for member in group.members]
        mine = clean[:100].outcome
        worst, by = metrics.worst_of(mine, [one.outcome for one in attempts])
        if group.condition.on_errors:  # an image that is wrong, and surer of it, is left as it is
            keep = mine.wrong & (mine.score > worst.score)
            by[keep], worst.score[keep] = -1, mine.score[keep]
        for picture in shown:
            score = float(worst.score[picture.row])
            assert picture.attacked_answer[1] == pytest.approx(score, abs=1e-6)
            moved = not np.array_equal(picture.attacked, picture.image)
            assert moved == bool(by[picture.row] >= 0)
            if group.condition.on_noise:
                assert (picture.label, picture.answer) == (None, None)
                continue
            assert picture.label == mnist_test.y[picture.row]
            expected = mnist_test[: picture.row + 1].floats()[-1].numpy()
            np.testing.assert_array_equal(picture.image, expected)
            assert picture.answer is not None
            own = clean.outcome.score[picture.row]
            assert picture.answer[1] == pytest.approx(own, abs=1e-6)
            if not moved:
                assert picture.attacked_answer == picture.answer
    assert outcomes.groups[-1].condition == Condition(Linf(0.1), "noise")


def test_an_analysis_says_what_the_model_says(here: Path, mnist_test: Images) -> None:
    run = Run.open(Path("runs/seed0"))
    found = analyse(run, examples=6, iterations=4)
    assert found == run.analysis()
    clean = collect(run).clean_answers
    for lines in (*found.directions.values(), found.between):
        start = np.asarray(lines.confidences)[:, 0]
        assert start.max(1) == pytest.approx(clean.outcome.score[:3], abs=1e-5), (
            "every line begins at its image"
        )
        assert start.argmax(1).tolist() == clean.predicted[:3].tolist()
        assert np.asarray(lines.confidences).sum(2) == pytest.approx(1, abs=1e-5)
        assert lines.first_class == mnist_test.y[:3].tolist()
        assert all(a != b for a, b in zip(lines.first_class, lines.second_class, strict=True))
    second = np.asarray(found.between.images)[:, 2] / 255
    targets = [
        next(k for k in range(n + 1, 6) if mnist_test.y[k] != mnist_test.y[n]) for n in range(3)
    ]
    assert second == pytest.approx(mnist_test[:6].floats()[targets].numpy(), abs=1e-6), (
        "and ends at an image of another class"
    )
    assert set(found.directions) == {"Linf:0.3", "L2:3"}
    probabilities = run.answers.clean(data_digest("mnist"))
    assert probabilities is not None
    ends = [
        next(k for k in [*range(n + 1, 6), *range(n)] if mnist_test.y[k] != mnist_test.y[n])
        for n in range(6)
    ]
    expected = probabilities[ends, mnist_test.y[ends]].mean().item()
    assert found.between.second[-1] == pytest.approx(expected, abs=1e-5)
    assert found.between.first[0] == pytest.approx(
        probabilities[range(6), mnist_test.y[:6]].mean().item(), abs=1e-5
    )
    total = (
        np.asarray(found.between.first)
        + np.asarray(found.between.second)
        + np.asarray(found.between.rest)
    )
    assert (total < 1).all(), "the rest is without the two classes"
    assert found.directions["L2:3"].steps[-1] == 3
    assert found.climbs["neither"].tried != found.climbs["momentum and backtracking"].tried
    for climb in found.climbs.values():
        assert len(climb.tried) == 5
        assert climb.best == sorted(climb.best)
    assert analyse(run, examples=6, iterations=4) == found


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "report fresh --tpr 0.5",
            "fresh was not attacked yet: `ccat attack runs/fresh --suite quick`",
        ),
        ("compare seed0 fresh --tpr 0.5", "seed0 and fresh were not attacked with a common threat"),
        ("compare seed0", "a comparison needs at least two runs"),
        ("evaluate seed0 seed0", "a run is given twice"),
        (
            "evaluate seed0 --tpr 0.9 --table nothing",
            "there is no table 'nothing' here; there are main, ",
        ),
        (
            "evaluate seed0 --tpr 0.9 --table main --format json",
            "--format json is the whole document: leave --table out",
        ),
        ("evaluate seed0 --tau inf", "must be a finite number"),
        ("analyse seed0 --examples 1", "--examples must be 2 to 10000, not 1"),
        (
            "attack seed0 --suite tiny --only nothing*",
            "no case of suite tiny is called 'nothing*'; there are Conf, CE, distal",
        ),
        ("attack seed0 --suite tiny --threat L3:1", "a threat is written as one of"),
        (
            "attack seed0 --suite paper-cifar10",
            "suite paper-cifar10 is made for images of 3x32x32, not of 1x28x28",
        ),
    ],
)
def test_mistakes(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, message: str
) -> None:
    assert message in says(capsys, *command.split(), error=True)


def test_a_damaged_analysis_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, run = here / "runs/seed1/analysis.json", Run.open(Path("runs/seed1"))
    file.write_text("{")
    assert "analysis.json is damaged" in says(capsys, "analyse", "seed1", error=True)
    own = {"schema": 2, "file": "analysis.json", "weights": run.weights}
    file.write_text(json.dumps(sealed.seal(own)))
    said = says(capsys, "analyse", "seed1", error=True)
    assert "analysis.json is damaged (it has no climbs)" in said
    file.write_text(json.dumps({"schema": 1, "weights": run.weights}))
    assert "analysis.json was written by another version" in says(
        capsys, "analyse", "seed1", error=True
    )
    file.unlink()


def test_a_report_of_real_runs(
    here: Path, capsys: pytest.CaptureFixture[str], mnist_test: Images
) -> None:
    says(capsys, "analyse", "seed0", "--examples", "5", "--iterations", "3")
    assert (here / "analysis/climbs.pdf").exists()
    assert "report/index.html" in says(
        capsys, "report", "seed0", "seed1", "--tpr", "0.9", "--out", "report"
    )
    text = (here / "report/index.html").read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [len(run["gallery"]["test Linf:0.1"]) for run in data["runs"]] == [16, 16]
    labels = unpacked(data["arrays"][data["runs"][0]["labels"]])
    assert labels.tolist() == mnist_test.y[:9000].tolist()
    assert "Confidences along adversarial directions" in text
    assert (here / "report/figures/between.svg").exists()


def test_attempts_on_different_images_are_said(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    more = Case("more", Linf(0.1), PGD(1, 0.05), family="PGD")
    monkeypatch.setitem(SUITES, "tiny", Suite((more,)))
    says(capsys, "attack", "seed1", "--suite", "tiny", "--examples", "200", "--workers", "1")
    shown = says(capsys, "evaluate", "seed1", "--tpr", "0.9")
    assert "attempts attacked 100 to 200 images" in shown
    assert table(shown)["images"] == "100"


def test_a_part_of_a_suite_does_not_replace_what_was_asked_before(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Run.open(Path("runs/seed0")).plan
    before = plan.asked()
    part = ("attack", "seed0", "--suite", "tiny", "--only", "conf", *FEW)
    assert "0 blocks computed" in says(capsys, *part)
    assert plan.asked() == before
    more = ("--threat", "L2:1", "--examples", "200", "--workers", "1")
    says(capsys, "attack", "seed0", "--suite", "tiny", *more)
    assert [len(one.attempts) for one in plan.asked()] == [6, 1]
