"""What rejects, against truth: scipy's distance, the dimension of a ball, features that are known.

A run that rejects by a detector is tested in test_detector_runs.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import mahalanobis
from torch import Tensor, nn
from truth import Small, seeded

from ccat import (
    PGD,
    SUITES,
    Case,
    Condition,
    Confidence,
    Detection,
    Detector,
    Frame,
    Images,
    Linf,
    codec,
    create_model,
    metrics,
)
from ccat.attacking import Target, attack_block
from ccat.catalog.suites import aware
from ccat.rejection import (
    CONFIDENCE,
    Aware,
    LocalDimension,
    Mahalanobis,
    OwnScore,
    Rejection,
    features,
    fit,
    usual_layers,
)
from ccat.rejection.detector import detector_of
from ccat.rejection.features import features_and_logits
from ccat.threats import L1, L2, Threat, label


def test_mahalanobis_is_scipys_distance_to_the_nearest_class() -> None:
    y = torch.arange(300) % 3
    x = (
        torch.randn(300, 5, generator=seeded(1), dtype=torch.float64)
        @ torch.randn(5, 5, generator=seeded(2), dtype=torch.float64)
        + y[:, None]
    )
    statistic = Mahalanobis.fit(x, y, "layer")
    means = [x[y == k].mean(0).numpy() for k in range(3)]
    centred = np.concatenate([(x[y == k] - x[y == k].mean(0)).numpy() for k in range(3)])
    inverse = np.linalg.inv(centred.T @ centred / 300)
    points = torch.randn(20, 5, generator=seeded(3), dtype=torch.float64)
    expected = [
        -min(mahalanobis(point, mean, inverse) ** 2 for mean in means) for point in points.numpy()
    ]
    np.testing.assert_allclose(statistic(points).numpy(), expected, rtol=1e-8)
    with pytest.raises(
        ValueError,
        match="7 images are too few for the covariance of the 5 features of layer 'layer': "
        "9 are needed",
    ):
        Mahalanobis.fit(x[:7], y[:7], "layer")


@pytest.mark.parametrize("dimension", [2, 5, 10])
def test_the_local_dimension_of_a_uniform_ball_is_its_dimension(dimension: int) -> None:
    """Around its centre, embedded in more coordinates than it has dimensions."""
    g = seeded(dimension)
    direction = torch.nn.functional.normalize(
        torch.randn(20_000, dimension, generator=g, dtype=torch.float64)
    )
    ball = direction * torch.rand(20_000, 1, generator=g, dtype=torch.float64) ** (1 / dimension)
    reference = torch.nn.functional.pad(ball, (0, 3))
    centre = torch.zeros(1, dimension + 3, dtype=torch.float64)
    estimates = [
        -LocalDimension.fit(part, 100, "layer")(centre).item() for part in reference.chunk(20)
    ]
    assert np.mean(estimates) == pytest.approx(dimension, rel=0.08)


def test_an_image_of_the_reference_is_not_its_own_neighbour() -> None:
    reference = torch.randn(50, 4, generator=seeded(1))
    with_itself = LocalDimension.fit(reference, 10, "layer")(reference[:5])
    without = torch.stack(
        [
            LocalDimension.fit(torch.cat([reference[:n], reference[n + 1 :]]), 10, "layer")(
                reference[n : n + 1]
            )[0]
            for n in range(5)
        ]
    )
    torch.testing.assert_close(with_itself, without)
    with pytest.raises(ValueError, match="50 neighbours need more than 50 reference images"):
        LocalDimension.fit(reference, 50, "layer")


def test_features_are_those_of_the_named_layers() -> None:
    model = Small(3, 4).train()
    x = torch.rand(5, 3, 8, 8, generator=seeded(1), dtype=torch.float64)
    maps, last = features(model, ["layers.2", "layers.5"], x)
    again, logits = features_and_logits(model, ["layers.2"], x)
    assert model.training
    model.eval()
    torch.testing.assert_close(maps, model.layers[:3](x).mean((2, 3)))
    torch.testing.assert_close(last, model(x))
    torch.testing.assert_close(again[0], maps)
    torch.testing.assert_close(logits, model(x))
    with pytest.raises(
        ValueError, match=r"the model has no layer 'layer\.2'; there are .*layers\.2"
    ):
        features(model, ["layer.2"], x)
    unused = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    unused.register_module("odd", nn.Identity())
    unused.forward = lambda x: unused[1](unused[0](x))  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="'odd' is not used"):
        features(unused, ["odd"], x.float())
    deep = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Flatten(), nn.Linear(192, 2)).double()
    with pytest.raises(
        ValueError, match=r"'0' puts out \(5, 1, 3, 8, 8\), which is neither \(N, D\)"
    ):
        features(deep, ["0"], x)


def test_the_usual_layers_are_the_last_of_each_size() -> None:
    x = torch.rand(5, 3, 8, 8, generator=seeded(1), dtype=torch.float64)
    assert usual_layers(Small(3, 4), x) == ("layers.3",)
    lenet, resnet = (create_model(name, seeded()) for name in ("lenet", "resnet20"))
    assert usual_layers(lenet, torch.rand(1, 1, 28, 28)) == ("relu1", "relu2", "relu3")
    assert usual_layers(resnet, torch.rand(1, 3, 32, 32)) == ("layer1", "layer2", "layer3")
    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.ReLU(), nn.Linear(6, 2)).double()
    assert usual_layers(flat, x) == ("2",)


class Mean(nn.Module):
    """Two classes by the mean of the left half of the image.

    The right half is another feature, which clean images have at 0.5.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.halves = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        halves: Tensor = self.halves(
            torch.stack([x[..., :4].mean((1, 2, 3)), x[..., 4:].mean((1, 2, 3))], 1)
        )
        margin = 20 * (halves[:, 0] - 0.5)
        return torch.stack([-margin, margin], 1) * self.weight


def halves(count: int, generator: torch.Generator, right: float = 0.5) -> tuple[Tensor, Tensor]:
    y = torch.randint(0, 2, (count,), generator=generator)
    x = torch.full((count, 1, 8, 8), right) + 0.02 * torch.randn(
        count, 1, 8, 8, generator=generator
    )
    x[..., :4] += 0.4 * (y[:, None, None, None] - 0.5)
    return x.clamp(0, 1), y


def by_distance(model: nn.Module, x: Tensor, y: Tensor, magnitude: float = 0.0) -> Detector:
    """A detector that is the Mahalanobis distance of both halves."""
    statistic = Mahalanobis.fit(features(model, ["halves"], x)[0].detach(), y, "halves")
    return Detector(model, ("halves",), (statistic,), torch.ones(1), 0.0, magnitude)


@pytest.mark.parametrize("kind", ["mahalanobis", "lid"])
def test_a_detector_finds_what_its_features_give_away(kind: str) -> None:
    """Attacked images here have a right half that no clean one has.

    A fitted detector is stored and read back.
    """
    g = seeded(4)
    model = Mean()
    x, y = halves(200, g)
    attacked = halves(100, g, right=0.8)[0]
    detector = fit(kind, model, ["halves"], (x, y), x[:100], attacked, None)
    new, odd = halves(50, g)[0], halves(50, g, right=0.8)[0]
    assert metrics.area(detector(new).numpy(), detector(odd).numpy()) > 0.99
    again = detector_of(model, detector.layers, detector.tensors())
    torch.testing.assert_close(again(new), detector(new))
    torch.testing.assert_close(detector(new, model(new).softmax(1)), detector(new))
    if detector.magnitude == 0:
        torch.testing.assert_close(detector.raw(new)[0], detector(new))
    torch.testing.assert_close(detector.raw(new)[1], model(new))
    with pytest.raises(ValueError, match="only 19 attacked training images fool the model"):
        fit(kind, model, ["halves"], (x, y), x[:19], attacked[:19], None)
    with pytest.raises(
        ValueError, match="there is no detector 'other'; there are mahalanobis, lid"
    ):
        fit("other", model, ["halves"], (x, y), x, attacked, None)


@pytest.mark.parametrize("kind", ["mahalanobis", "lid"])
def test_a_later_detector_keeps_what_the_first_one_chose(kind: str) -> None:
    g = seeded(4)
    model = Mean()
    x, y = halves(200, g)
    attacked = halves(100, g, right=0.8)[0]
    for magnitude, neighbours in ((0.0, 20), (0.01, 50)):
        statistic: Any = Mahalanobis(torch.zeros(2, 2), torch.eye(2))
        if kind == "lid":
            statistic = LocalDimension(torch.zeros(60, 2), neighbours)
        like = Detector(model, ("halves",), (statistic,), torch.ones(1), 0.0, magnitude)
        found = fit(kind, model, ["halves"], (x, y), x[:100], attacked, like)
        if kind == "lid":
            (own,) = found.statistics
            assert isinstance(own, LocalDimension)
            assert (own.neighbours, found.magnitude) == (neighbours, 0)
        else:
            assert found.magnitude == magnitude


def test_the_step_before_looking_raises_the_statistic() -> None:
    model, g = Mean(), seeded(5)
    x, y = halves(200, g)
    still, stepping = by_distance(model, x, y), by_distance(model, x, y, magnitude=0.001)
    assert (stepping(x) > still(x)).double().mean() > 0.95
    torch.testing.assert_close(stepping.raw(x)[0], still(x))


def test_an_aware_attacker_is_wrong_first_and_then_accepted() -> None:
    model, g = Mean(), seeded(6)
    x, y = halves(60, g)
    detector = by_distance(model, x, y)
    rows = torch.arange(60)
    right = Aware().score(detector, y, x, rows)
    assert (right < 0).all()
    flipped = x.clone()
    flipped[..., :4] += 0.4 * (0.5 - y[:, None, None, None]) * 2
    flipped = flipped.clamp(0, 1)
    wrong = Aware(0.0).score(detector, y, flipped, rows)
    assert (wrong > 0).all()
    order = detector.raw(flipped)[0].argsort()
    assert (wrong[order].diff() >= 0).all(), "among wrong ones the score decides"
    penalised = Aware(2.0).score(detector, y, x, rows)
    logits = model(x)
    margin = (logits[rows, 1 - y] - logits[rows, y]).detach()
    torch.testing.assert_close(penalised, detector.raw(x)[0] - 2 * (0.5 - margin).relu())
    torch.testing.assert_close(Aware().score(detector, None, x, rows), detector.raw(x)[0])
    some = rows[5:20].flip(0)
    torch.testing.assert_close(Aware(2.0).score(detector, y, x[some], some), penalised[some])
    with pytest.raises(ValueError, match="Aware: penalty must be"):
        Aware(-0.1)


def test_one_scale_for_detectors_changes_no_decision() -> None:
    g = np.random.default_rng(1)
    calibration = metrics.Outcome(g.random(400) < 0.1, 50 * g.standard_normal(400) - 1000)
    scores = 70 * g.standard_normal(1000) - 1000
    scaled = Detection("lid").scaled(scores, calibration)
    assert (np.diff(scaled[np.argsort(scores)]) > 0).all()
    assert ((scaled > 0) & (scaled < 1)).all()
    own = metrics.Outcome(
        calibration.wrong, Detection("lid").scaled(calibration.score, calibration)
    )
    for tpr in (0.99, 0.9, 0.5):
        tau, scaled_tau = metrics.threshold(calibration, tpr), metrics.threshold(own, tpr)
        assert ((scores >= tau) == (scaled >= scaled_tau)).all()
        assert scaled_tau == pytest.approx(1 - tpr, abs=0.005)
    same = metrics.Outcome(np.array([False, False, True]), np.array([1.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match="at least two correctly classified images"):
        Detection("lid").scaled(scores, same)


def test_confidence_is_the_largest_probability_and_one_judge_for_all() -> None:
    given = torch.tensor([[0.2, 0.8], [0.6, 0.4]])
    rejection = Confidence()
    x = torch.rand(2, 1, 8, 8)
    judges = rejection.load(Mean(), {}, x)
    assert list(judges) == list(rejection.judges([])) == [CONFIDENCE]
    assert judges[CONFIDENCE](x, given).tolist() == pytest.approx([0.8, 0.6])
    found = rejection.from_probabilities(given)
    assert found is not None
    assert found.tolist() == pytest.approx([0.8, 0.6])
    for condition in (Condition(Linf(0.3)), Condition(Frame(2)), Condition(Linf(0.3), "noise")):
        assert rejection.judge_of(condition, []) == CONFIDENCE
        assert rejection.judges_of(condition, []) == (CONFIDENCE,)
    scores = np.array([0.5, 0.9])
    outcome = metrics.Outcome(np.array([False, True]), scores)
    assert rejection.scaled(scores, outcome) is scores
    assert (rejection.title, rejection.shared, rejection.objectives) == ("", True, ())
    assert rejection.to_fit([Linf(0.3)], [], grey=True) == []


def test_a_score_of_ones_own_needs_the_images() -> None:
    rejection = OwnScore(lambda images, probabilities: -images.mean((1, 2, 3)))
    x = torch.rand(3, 1, 8, 8)
    (judge,) = rejection.load(Mean(), {}, x).values()
    torch.testing.assert_close(judge(x, torch.ones(3, 2)), -x.mean((1, 2, 3)))
    assert rejection.from_probabilities(torch.ones(3, 2)) is None


def test_a_detector_is_fitted_for_each_ball_and_the_first_for_an_l_inf_one() -> None:
    """Frames and noise have no detector of their own: the first one judges them."""
    rejection = Detection("mahalanobis")
    wanted: list[Threat] = [L2(3.0), Frame(2), Linf(0.3), Linf(0.2), L2(3.0)]
    assert rejection.to_fit(wanted, [], grey=True) == [Linf(0.2), Linf(0.3), L2(3.0)]
    assert rejection.to_fit([L2(3.0), L1(9.0)], [], grey=True)[0] == Linf(0.3)
    assert rejection.to_fit([L2(3.0), L1(9.0)], [], grey=False)[0] == Linf(0.03)
    assert rejection.to_fit(wanted, ["Linf:0.2", "L2:3"], grey=True) == [Linf(0.3)]
    assert rejection.to_fit([L1(9.0)], ["Linf:0.2"], grey=True) == [L1(9.0)]
    fitted = ["Linf:0.2", "L2:3", "Linf:0.3"]
    assert rejection.judges(fitted) == tuple(fitted)
    assert rejection.judge_of(Condition(Linf(0.3)), fitted) == "Linf:0.3"
    assert rejection.judges_of(Condition(Linf(0.2)), fitted) == ("Linf:0.2", "Linf:0.3")
    assert rejection.judges_of(Condition(Linf(0.25)), fitted) == ("Linf:0.3",)
    for condition in (Condition(Frame(2)), Condition(Linf(0.3), "noise")):
        assert rejection.judge_of(condition, fitted) == "Linf:0.2"
        assert rejection.judges_of(condition, fitted) == ("Linf:0.2",)
    assert (rejection.title, rejection.shared) == ("mahalanobis", False)
    assert {objective.penalty for objective in rejection.objectives} == {0.0, 0.3, 1.0, 3.0}


def test_the_judges_of_a_run_are_loaded_from_what_was_stored() -> None:
    g, model = seeded(4), Mean()
    x, y = halves(200, g)
    detector = by_distance(model, x, y)
    rejection = Detection("mahalanobis", layers="halves")
    judges = rejection.load(model, {"Linf:0.3": detector.tensors()}, x[:1])
    torch.testing.assert_close(judges["Linf:0.3"](x, model(x)), detector(x))
    with pytest.raises(ValueError, match="the model has no layer 'other'"):
        Detection("mahalanobis", layers="halves, other").layers_of(model, x[:1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "other"}, "Detection: name must be mahalanobis or lid, not 'other'"),
        ({"name": "lid", "known": 0}, "Detection: known must be"),
        ({"name": "lid", "pairs": 1.5}, "Detection: pairs must be"),
    ],
)
def test_bad_detections_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Detection(**arguments)


@pytest.mark.parametrize("rejection", [Confidence(), Detection("lid", "relu1,relu2", 300, 200)])
def test_what_rejects_is_stored_beside_a_recipe(rejection: Rejection) -> None:
    assert codec.decode(codec.encode(rejection), Rejection) == rejection


def test_a_case_that_knows_of_a_detector_needs_one(mnist_test: Images) -> None:
    (case, *_) = aware(SUITES["demo"].cases, [Aware()])
    target = Target(create_model("lenet", seeded()))
    images = mnist_test[:2]
    with pytest.raises(
        ValueError, match="knows a detector, but this run rejects by confidence: `ccat detect`"
    ):
        attack_block(target, case, images.floats(), images.y, seeded())


def test_an_aware_attack_gets_more_past_its_detector_than_an_unaware_one() -> None:
    """The unaware attack goes as far as it can, the aware one to where images are usual."""
    g, model = seeded(7), Mean()
    x, y = halves(300, g)
    threat = Linf(0.5)
    rejection = Detection("mahalanobis", layers="halves")
    tensors = {label(threat): by_distance(model, x, y).tensors()}
    target = Target(model, rejection, rejection.load(model, tensors, x[:1]), x[:100])
    unaware = Case("PGD", threat, PGD(100, 0.02))

    def best_score(cases: Sequence[Case]) -> Tensor:
        """Per image the highest score among wrong answers."""
        best = torch.full((50,), -torch.inf)
        for case in cases:
            block, _ = attack_block(target, case, x[:50], y[:50], seeded(1))
            wrong = block.probabilities.argmax(1) != y[:50]
            best = torch.maximum(best, torch.where(wrong, block.scores[label(threat)], -torch.inf))
        return best

    before, after = best_score([unaware]), best_score(aware([unaware], rejection.objectives))
    assert before.isfinite().all()
    assert (after > before + 1).all()
