"""Detectors against truth: scipy's distance, the dimension of a ball, and a model whose features are known."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import mahalanobis
from test_bring import fails
from test_stages import TINY, says
from torch import Tensor, nn
from truth import Small, seeded

from ccat import Images, create_model, metrics
from ccat.detectors import Detector, LocalDimension, Mahalanobis, aware, detector_of, features, fit, usual_layers
from ccat.recipes import label
from ccat.stages import measure
from ccat.stages.detect import on_common_scale
from ccat.stages.solving import solve
from ccat.store import Run
from ccat.suites import SUITES
from ccat.suites import aware as aware_cases


def test_mahalanobis_is_scipys_distance_to_the_nearest_class() -> None:
    y = torch.arange(300) % 3
    x = (
        torch.randn(300, 5, generator=seeded(1), dtype=torch.float64) @ torch.randn(5, 5, generator=seeded(2), dtype=torch.float64)
        + y[:, None]
    )
    statistic = Mahalanobis.fit(x, y, "layer")
    means = [x[y == k].mean(0).numpy() for k in range(3)]
    centred = np.concatenate([(x[y == k] - x[y == k].mean(0)).numpy() for k in range(3)])
    inverse = np.linalg.inv(centred.T @ centred / 300)
    points = torch.randn(20, 5, generator=seeded(3), dtype=torch.float64)
    expected = [-min(mahalanobis(point, mean, inverse) ** 2 for mean in means) for point in points.numpy()]
    np.testing.assert_allclose(statistic(points).numpy(), expected, rtol=1e-8)
    with pytest.raises(ValueError, match="7 images are too few for the covariance of the 5 features of layer 'layer': 9 are needed"):
        Mahalanobis.fit(x[:7], y[:7], "layer")


@pytest.mark.parametrize("dimension", [2, 5, 10])
def test_the_local_dimension_of_a_uniform_ball_is_its_dimension(dimension: int) -> None:
    """Around its centre, embedded in more coordinates than it has dimensions."""
    g = seeded(dimension)
    direction = torch.nn.functional.normalize(torch.randn(20_000, dimension, generator=g, dtype=torch.float64))
    ball = direction * torch.rand(20_000, 1, generator=g, dtype=torch.float64) ** (1 / dimension)
    reference = torch.nn.functional.pad(ball, (0, 3))
    estimates = [
        -LocalDimension.fit(part, 100, "layer")(torch.zeros(1, dimension + 3, dtype=torch.float64)).item() for part in reference.chunk(20)
    ]
    assert np.mean(estimates) == pytest.approx(dimension, rel=0.08)


def test_an_image_of_the_reference_is_not_its_own_neighbour() -> None:
    reference = torch.randn(50, 4, generator=seeded(1))
    with_itself = LocalDimension.fit(reference, 10, "layer")(reference[:5])
    without = torch.stack(
        [LocalDimension.fit(torch.cat([reference[:n], reference[n + 1 :]]), 10, "layer")(reference[n : n + 1])[0] for n in range(5)]
    )
    torch.testing.assert_close(with_itself, without)
    with pytest.raises(ValueError, match="50 neighbours need more than 50 reference images"):
        LocalDimension.fit(reference, 50, "layer")


def test_features_are_those_of_the_named_layers() -> None:
    model = Small(3, 4).train()
    x = torch.rand(5, 3, 8, 8, generator=seeded(1), dtype=torch.float64)
    maps, logits = features(model, ["layers.2", "layers.5"], x)
    assert model.training
    model.eval()
    torch.testing.assert_close(maps, model.layers[:3](x).mean((2, 3)))
    torch.testing.assert_close(logits, model(x))
    assert usual_layers(model, x) == ("layers.3",)
    assert usual_layers(create_model("lenet", seeded()), torch.rand(1, 1, 28, 28)) == ("features.2", "features.5", "features.8")
    assert usual_layers(create_model("resnet20", seeded()), torch.rand(1, 3, 32, 32)) == ("blocks.2", "blocks.5", "blocks")
    with pytest.raises(ValueError, match=r"the model has no layer 'layer\.2'; there are .*layers\.2"):
        features(model, ["layer.2"], x)
    unused = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    unused.register_module("odd", nn.Identity())
    unused.forward = lambda x: unused[1](unused[0](x))  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="'odd' is not used"):
        features(unused, ["odd"], x.float())


class Mean(nn.Module):
    """Two classes by the mean of the left half of the image; the right half is another feature, which clean images have at 0.5."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.halves = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        halves: Tensor = self.halves(torch.stack([x[..., :4].mean((1, 2, 3)), x[..., 4:].mean((1, 2, 3))], 1))
        margin = 20 * (halves[:, 0] - 0.5)
        return torch.stack([-margin, margin], 1) * self.weight


def halves(count: int, generator: torch.Generator, right: float = 0.5) -> tuple[Tensor, Tensor]:
    y = torch.randint(0, 2, (count,), generator=generator)
    x = torch.full((count, 1, 8, 8), right) + 0.02 * torch.randn(count, 1, 8, 8, generator=generator)
    x[..., :4] += 0.4 * (y[:, None, None, None] - 0.5)
    return x.clamp(0, 1), y


@pytest.mark.parametrize("kind", ["mahalanobis", "lid"])
def test_a_detector_finds_what_its_features_give_away(kind: str) -> None:
    """Attacked images here have a right half that no clean one has; a fitted detector is stored and read back."""
    g = seeded(4)
    model = Mean()
    x, y = halves(200, g)
    attacked = halves(100, g, right=0.8)[0]
    detector = fit(kind, model, ["halves"], (x, y), x[:100], attacked, None)
    new, odd = halves(50, g)[0], halves(50, g, right=0.8)[0]
    assert metrics.area(detector(new).numpy(), detector(odd).numpy()) > 0.99
    again = detector_of(model, detector.layers, detector.tensors())
    torch.testing.assert_close(again(new), detector(new))
    if detector.magnitude == 0:
        torch.testing.assert_close(detector.raw(new)[0], detector(new))
    with pytest.raises(ValueError, match="only 19 attacked training images fool the model"):
        fit(kind, model, ["halves"], (x, y), x[:19], attacked[:19], None)
    with pytest.raises(ValueError, match="there is no detector 'other'; there are mahalanobis, lid"):
        fit("other", model, ["halves"], (x, y), x, attacked, None)


def test_the_step_before_looking_raises_the_statistic() -> None:
    model, g = Mean(), seeded(5)
    x, y = halves(200, g)
    statistic = Mahalanobis.fit(features(model, ["halves"], x)[0].detach(), y, "halves")
    still = Detector(model, ("halves",), (statistic,), torch.ones(1), 0.0)
    stepping = Detector(model, ("halves",), (statistic,), torch.ones(1), 0.0, magnitude=0.001)
    assert (stepping(x) > still(x)).double().mean() > 0.95


def test_an_aware_attacker_is_wrong_first_and_then_accepted() -> None:
    model, g = Mean(), seeded(6)
    x, y = halves(60, g)
    statistic = Mahalanobis.fit(features(model, ["halves"], x)[0].detach(), y, "halves")
    detector = Detector(model, ("halves",), (statistic,), torch.ones(1), 0.0)
    rows = torch.arange(60)
    right = aware(detector, y, 0.0, x, rows)
    assert (right < 0).all()
    flipped = x.clone()
    flipped[..., :4] += 0.4 * (0.5 - y[:, None, None, None]) * 2
    wrong = aware(detector, y, 0.0, flipped.clamp(0, 1), rows)
    assert (wrong > 0).all()
    order = detector.raw(flipped.clamp(0, 1))[0].argsort()
    assert (wrong[order].diff() >= 0).all(), "among wrong ones the score decides"
    penalised = aware(detector, y, 2.0, x, rows)
    logits = model(x)
    margin = (logits[rows, 1 - y] - logits[rows, y]).detach()
    torch.testing.assert_close(penalised, detector.raw(x)[0] - 2 * (0.5 - margin).relu())
    torch.testing.assert_close(aware(detector, None, 0.0, x, rows), detector.raw(x)[0])


def test_one_scale_for_detectors_changes_no_decision() -> None:
    g = np.random.default_rng(1)
    held_out = metrics.Outcome(g.random(400) < 0.1, 50 * g.standard_normal(400) - 1000)
    scores = 70 * g.standard_normal(1000) - 1000
    scaled = on_common_scale(scores, held_out)
    assert (np.diff(scaled[np.argsort(scores)]) > 0).all()
    assert ((scaled > 0) & (scaled < 1)).all()
    own = metrics.Outcome(held_out.wrong, on_common_scale(held_out.score, held_out))
    for tpr in (0.99, 0.9, 0.5):
        tau, scaled_tau = metrics.threshold(held_out, tpr), metrics.threshold(own, tpr)
        assert ((scores >= tau) == (scaled >= scaled_tau)).all()
        assert scaled_tau == pytest.approx(1 - tpr, abs=0.005)


def test_cases_that_know_of_the_detector() -> None:
    cases = aware_cases(SUITES["quick"])
    assert {(label(case.threat), case.source) for case in cases} == {(label(case.threat), case.source) for case in SUITES["quick"]}
    assert {case.aware for case in cases} == {0.0, 0.3, 1.0, 3.0}
    assert all(case.family.startswith("aware ") for case in cases)
    assert all(case.attack.cost((1, 28, 28)).backwards == 200 for case in cases)


def test_a_run_that_rejects_by_a_detector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mnist_test: Images
) -> None:
    monkeypatch.chdir(tmp_path)
    says(capsys, "train", *TINY, "--images=1500", "--epochs", "2", "--run", "runs/tiny")
    base = Path("runs/tiny")
    attack = ["--suite", "demo", "--threat", "Linf:0.3", "--threat", "Linf:0.2", "--threat", "Frame:2", "--only", "*pgd*zero*"]
    attack = [*attack, "--examples", "100", "--workers", "1"]
    assert "has no layer 'features.20'" in fails(capsys, "detect", "tiny", "--detector", "lid", "--layers", "features.20", *attack)
    assert "did you mean quick" in fails(capsys, "detect", "tiny", "--detector", "lid", "--suite", "quik")
    assert not Path("runs/tiny-lid").exists()
    assert "there are 60000: lower --known and --pairs" in fails(capsys, "detect", "tiny", "--detector", "lid", "--known", "60001", *attack)
    assert "has no detector yet" in fails(capsys, "evaluate", "tiny-lid")
    only = [
        "--suite",
        "demo",
        "--threat",
        "Linf:0.3",
        "--threat",
        "Linf:0.2",
        "--only",
        "*apgd*[me1]",
        "--examples",
        "100",
        "--workers",
        "1",
    ]
    says(capsys, "detect", "tiny", "--detector", "mahalanobis", *only)
    run = Run.open(Path("runs/tiny-mahalanobis"))
    assert run.weights == Run.open(base).weights
    assert set(run.detectors()) == {"Linf:0.2", "Linf:0.3"}
    measured = measure(run)
    by_group = {group.threat: group.members for group in measured.groups if group.source == "test"}
    smaller = [n for n in by_group["Linf:0.3"] if measured.attempts[n].threat == "Linf:0.2"]
    assert smaller, "what was found at the smaller ε counts at the larger one, by the latter's detector"
    alone = next(n for n in by_group["Linf:0.2"] if measured.attempts[n].key == measured.attempts[smaller[0]].key)
    assert not np.array_equal(measured.attempts[alone].answers.outcome.score, measured.attempts[smaller[0]].answers.outcome.score)
    assert measured.attempts[alone].clean is not None
    without = measured.unaware()
    assert without is not None
    families = [{one.family for one in some.attempts} for some in (measured, without)]
    assert families[0] - families[1] == {"aware APGD"}
    assert families[1] == {"APGD-Conf", "APGD-CE"}
    shown = says(capsys, "evaluate", "tiny-mahalanobis", "--tpr", "0.9")
    assert "scores are those of detectors" in shown
    assert re.search(r"\| tiny-mahalanobis +\|", shown)
    assert "0 blocks computed" in says(capsys, "detect", "tiny", "--detector", "mahalanobis", *only)
    assert run.first_detector() == "Linf:0.2"
    later = ["--suite", "demo", "--threat", "Linf:0.1", "--threat", "Linf:0.35", "--only", "*apgd*1", "--examples", "100", "--workers", "1"]
    says(capsys, "attack", "tiny-mahalanobis", *later)
    assert run.first_detector() == "Linf:0.2", "the first stays"
    assert "made before the detector for Linf:0.35; `ccat attack` once more" in says(capsys, "evaluate", "tiny-mahalanobis", "--tpr", "0.9")
    says(capsys, "attack", "tiny-mahalanobis", *only)
    assert "made before" not in says(capsys, "evaluate", "tiny-mahalanobis", "--tpr", "0.9")
    widest = next(group for group in measure(run).groups if group.threat == "Linf:0.35")
    assert len({measure(run).attempts[n].threat for n in widest.members}) == 4, "all smaller ones count"
    says(capsys, "corrupt", "tiny-mahalanobis", "--examples", "30")
    assert "impulse_noise" in says(capsys, "evaluate", "tiny-mahalanobis", "--tpr", "0.9", "--table", "corruptions")
    says(capsys, "report", "tiny-mahalanobis", "--tpr", "0.9")
    assert Path("report/index.html").exists()
    assert "rejects by a detector already" in fails(capsys, "detect", "tiny-mahalanobis", "--detector", "lid", *only)
    other = Run.open(base).path / "model.safetensors"
    weights = run.path / "model.safetensors"
    weights.write_bytes(other.read_bytes()[:-4] + b"\0\0\0\0")
    assert "fitted on another model" in fails(capsys, "attack", "tiny-mahalanobis", *only)


def test_a_case_that_knows_of_a_detector_needs_one(mnist_test: Images) -> None:
    case = aware_cases(SUITES["demo"])[0]
    with pytest.raises(ValueError, match="this run has none: `ccat detect`"):
        solve(create_model("lenet", seeded()), mnist_test[:2].floats(), mnist_test[:2].y, case, seeded(), None)
