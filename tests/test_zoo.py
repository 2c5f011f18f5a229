"""Models that come with ccat: they load without data or network, and are what their cards say."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs import says

import ccat
from ccat import Images
from ccat.catalog import zoo as catalog
from ccat.catalog.zoo import UnknownZooError, zoo, zoo_path
from ccat.data import calibration_share, counted
from ccat.engine import one_thread
from ccat.pipeline.zoo import add_to_zoo
from ccat.report.zoo import measured
from ccat.runs import Run, RunError

NAMES = sorted(zoo())
CONDITION = {"threat": "Linf:0.3", "source": "test", "goal": "error"}


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CCAT_DATA", "CCAT_CACHE"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setattr("socket.socket.connect", None)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_loads_and_decides_without_data(name: str, no_data: None) -> None:
    clf = ccat.load(f"zoo:{name}")
    run = Run.open(zoo()[name])
    content = (zoo()[name] / "model.safetensors").read_bytes()
    assert run.weights == hashlib.sha256(content).hexdigest()
    taus = [ccat.load(f"zoo:{name}", tpr=tpr).tau for tpr in (0.99, 0.98, 0.95)]
    assert taus == sorted(taus)
    assert clf.tau == taus[0]
    x = torch.rand(20, *clf.shape)
    labels, confidence, accepted = clf(x)
    assert ((labels >= 0) == accepted).all()
    assert ((confidence >= 1 / len(clf.classes)) & (confidence <= 1)).all()
    assert clf.predict(x).tolist() == labels.tolist()
    assert run.training.log()[-1]["epoch"] == run.recipe.epochs


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_as_good_as_its_card_says(name: str, mnist_test: Images) -> None:
    run = Run.open(zoo()[name])
    images = counted(run.recipe.dataset)
    stored = run.evaluation()
    assert stored is not None
    assert len(stored["evaluations"]) == 3
    chances = ccat.load(run.path).predict_proba(images.x)
    wrong, confidence = chances.argmax(1) != images.y.numpy(), chances.max(1)
    for evaluation in stored["evaluations"]:
        assert evaluation["weights"] == run.weights
        clf = ccat.load(run.path, tpr=evaluation["tpr_asked"])
        accepted = confidence >= clf.tau
        assert evaluation["images"] == len(images)
        assert evaluation["tau"] == pytest.approx(clf.tau, abs=1e-6)
        coverage = evaluation["rates"]["coverage"]["value"]
        assert accepted.sum() == pytest.approx(coverage * len(images), abs=2)
        errors = evaluation["rates"]["error"]["value"] * accepted.sum()
        assert (wrong & accepted).sum() == pytest.approx(errors, abs=2)
        assert clf.calibration.images == calibration_share(len(mnist_test))


def test_quick_finds_as_much_as_the_card_says(mnist_test: Images) -> None:
    """The card is of more images and a longer suite; its number lies in the interval of both."""
    run = Run.open(zoo()["mnist-at-small"])
    stored = run.evaluation()
    assert stored is not None
    attacks = stored["evaluations"][0]["attacks"]
    (card,) = (one for one in attacks if one["condition"] == CONDITION)
    images, last = mnist_test[:100], mnist_test[-1000:]
    with one_thread():
        result = ccat.evaluate(
            run.training.model(),
            images.floats(),
            images.y,
            calibration=last,
            threats=ccat.Linf(0.3),
            suite="quick",
        )
    (found,) = result.to_dict()["evaluations"][0]["attacks"]
    rate = found["pooled"]["rates"]["robust_error"]
    assert 0 < rate["low"] <= card["pooled"]["rates"]["robust_error"]["value"] <= rate["high"]


def test_models_are_small() -> None:
    sizes = {
        name: sum(file.stat().st_size for file in path.iterdir()) for name, path in zoo().items()
    }
    assert NAMES, "the test can tell"
    assert all((path / "model.safetensors").stat().st_size < 2e6 for path in zoo().values())
    assert sum(sizes.values()) < 20e6


def test_names_that_do_not_exist_name_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    name = NAMES[0]
    for wrong in (name[:-2], f"{name}x"):
        with pytest.raises(UnknownZooError, match=f"did you mean .*{name}"):
            ccat.load(f"zoo:{wrong}")
        assert "there is no zoo:" in says(capsys, "zoo", "show", wrong, error=True)
        assert f"{name}" in says(capsys, "predict", f"zoo:{wrong}", "x.png", error=True)
    for wrong in ("zoo:../zoo", "zoo:", "zoo:qqqq"):
        with pytest.raises(UnknownZooError, match="`ccat zoo` lists the models there are"):
            ccat.load(wrong)


def test_a_damaged_weights_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(zoo_path(NAMES[0]), "there/bent")
    monkeypatch.setattr(catalog, "zoo", lambda: {"bent": Path("there/bent")})
    assert ccat.load("zoo:bent").classes
    file = Path("there/bent/model.safetensors")
    content = bytearray(file.read_bytes())
    content[-9] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match=r"model.safetensors is damaged .it is not the model that"):
        ccat.load("zoo:bent")
    for command in (["show", "zoo:bent"], ["calibrate", "zoo:bent"], ["predict", "zoo:bent", "x"]):
        assert "is damaged" in says(capsys, *command, error=True)
    assert not Path("runs/zoo-bent").exists(), "what is damaged is not copied"


def test_a_model_is_a_run_wherever_a_run_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mnist_test: Images,
) -> None:
    monkeypatch.chdir(tmp_path)
    name = NAMES[0]
    kept = {file.name: file.read_bytes() for file in zoo_path(name).iterdir()}
    assert Run.open(zoo_path(name)).recipe.name in says(capsys, "show", f"zoo:{name}")
    assert {file.name for file in Path(f"runs/zoo-{name}").iterdir()} >= set(kept)
    assert "every file is as it was written" in says(capsys, "verify", f"zoo:{name}")
    assert {file.name: file.read_bytes() for file in zoo_path(name).iterdir()} == kept
    again = Path("again")
    add_to_zoo(Run.open(Path(f"runs/zoo-{name}")), again)
    assert {file.name for file in again.iterdir()} == set(kept)
    made, kept_one = ccat.load(again).calibration, ccat.load(f"zoo:{name}").calibration
    assert replace(made, tau=kept_one.tau) == kept_one
    assert made.tau == pytest.approx(kept_one.tau, abs=1e-6)


def test_cards_tell_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    listed = says(capsys, "zoo")
    for name in NAMES:
        assert f"zoo:{name} " in listed
        card = says(capsys, "zoo", "show", name)
        run = Run.open(zoo_path(name))
        assert run.weights in card
        assert f"| seed | {run.recipe.seed} |" in " ".join(card.split())
        assert "licence" in card
        assert "99 % TPR" in card
        assert says(capsys, "zoo", "show", f"zoo:{name}") == card
    assert "takes one name" in says(capsys, "zoo", "show", error=True)
    assert "takes one name" in says(capsys, "zoo", "hide", "x", error=True)


def test_a_card_has_every_kind_of_condition() -> None:
    rate = {"value": 0.25, "low": 0.125, "high": 0.5}
    gone = {"value": None, "low": None, "high": None}

    def under(source: str, goal: str, name: str) -> dict[str, object]:
        condition = {"threat": "Linf:0.3", "source": source, "goal": goal}
        pooled = {"examples": 50, "rates": {name: rate, "other": gone}}
        return {"condition": condition, "pooled": pooled}

    evaluation = {
        "tpr_asked": 0.99,
        "rates": {"error": rate, "coverage": gone},
        "attacks": [
            under("test", "error", "robust_error"),
            under("noise", "error", "accepted_noise"),
            under("test", "rejection", "availability"),
        ],
        "certificates": [],
    }
    text = measured({"evaluations": [evaluation]})
    for name in ("Err", "RErr within", "accepted noise within", "availability within"):
        (line,) = [one for one in text.splitlines() if one.startswith(f"| {name} ")]
        assert "25.0 (12.5–50.0)" in line
    assert "| coverage | – |" in " ".join(text.split())


def test_a_copy_of_another_versions_model_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first, other = NAMES[:2]
    shutil.copytree(zoo_path(other), f"runs/zoo-{first}")
    said = says(capsys, "show", f"zoo:{first}", error=True)
    assert f"runs/zoo-{first} has other weights than zoo:{first}" in said
    assert Run.open(zoo_path(other)).recipe.name in says(capsys, "show", f"zoo-{first}")
