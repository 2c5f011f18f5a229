"""The object that decides: against the definition in decimals, compiled, on arrays, and stored."""

import copy
import math
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from classifiers import CLASSES, SHAPE, detector, labelled, network, pixels
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn
from truth import seeded

import ccat
from ccat import Calibration, Detection, ModelFileError, Normalised, Outcome, Rejecting, sealed
from ccat.evaluation.promise import NoPromise
from ccat.rejection import OwnScore, load_classifier
from ccat.rejection.calibration import HIGHEST, ROUNDINGS, keeping, promising, tau_below
from ccat.rejection.rejecting import log_odds

NAMES = ("circle", "square", "star")
FINITE = st.floats(-90, 90, width=32)


class Table(nn.Module):
    """Answers the first image with the first row of logits, and so on."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x: Tensor) -> Tensor:
        return self.logits[: len(x)]


def table(logits: Tensor, tau: float) -> Rejecting:
    names = [str(n) for n in range(logits.shape[1])]
    return Rejecting(Table(logits), Calibration(tau), SHAPE, names)


def decide(logits: Tensor, tau: float) -> list[int]:
    labels: list[int] = table(logits, tau)(torch.zeros(len(logits), *SHAPE)).labels.tolist()
    return labels


def shapes(tau: float = 0.6, **options: object) -> Rejecting:
    return Rejecting(network(), Calibration(tau), SHAPE, NAMES, **options)  # type: ignore[arg-type]


def with_detector() -> Rejecting:
    rejection = Detection("mahalanobis")
    clf = shapes(0.0, rejection=rejection, fitted={"Linf:8/255": detector(rejection)})
    _, scores = clf.scores(pixels(300))
    return clf.at(Calibration(float(scores.median())))


@given(st.lists(FINITE, min_size=2, max_size=5), st.floats(0, 1))
def test_decisions_are_those_of_the_definition(row: list[float], tau: float) -> None:
    """Accepted if max_k e^{z_k}/Σ e^{z_j} ≥ τ, with 80 digits."""
    with localcontext() as context:
        context.prec = 80
        parts = [Decimal(z).exp() for z in row]
        confidence, limit = max(parts) / sum(parts), Decimal(tau)
        near = abs(confidence - limit) <= Decimal("2e-12") * limit * (1 - confidence)
    logits = torch.tensor([row])
    decision = table(logits, tau)(torch.zeros(1, *SHAPE))
    label = int(logits.argmax())
    assert near or decision.labels.tolist() == [label if confidence >= limit else -1]
    assert decision.accepted.tolist() == [decision.labels[0] >= 0]
    assert decision.confidence.tolist() == pytest.approx([float(confidence)], rel=1e-12)


def test_ties_are_accepted_and_the_ends_accept_all_and_nothing() -> None:
    rows = torch.tensor([[0.0, 0.0], [3.0, 0.0], [400.0, 0.0], [-80.0, 80.0]])
    assert decide(rows, 0.5) == [0, 0, 0, 1], "0.5 is accepted at 0.5"
    assert decide(rows, math.nextafter(0.5, 1)) == [0, 0, 0, 1], "roundings are forgiven"
    assert decide(rows, 0.5 + 1e-12) == [-1, 0, 0, 1]
    assert decide(rows, 0.0) == [0, 0, 0, 1]
    assert decide(rows, HIGHEST) == [-1, -1, 0, 1], "float32 and float64 round both to 1"
    assert decide(rows, 1.0) == [-1, -1, -1, -1], "no softmax is 1"
    between = 1 / (1 + math.exp(-20.5))  # float32 cannot tell e^-20 from e^-21 below 1
    assert decide(torch.tensor([[20.0, 0.0], [21.0, 0.0]]), between) == [-1, 0]


def test_a_threshold_of_this_call_may_differ_for_each_image() -> None:
    clf = table(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), 0.9)
    x = torch.zeros(2, *SHAPE)
    assert clf(x).labels.tolist() == [-1, -1]
    assert clf(x, torch.tensor(0.5)).labels.tolist() == [0, 0]
    assert clf(x, torch.tensor([0.4, 0.6])).labels.tolist() == [0, -1]
    with pytest.raises(ValueError, match="tau must be a number at least 0 and at most 1"):
        clf(x, torch.tensor(1.5))


@given(st.floats(-690, 36))
def test_the_image_that_tau_was_chosen_from_is_accepted(odds: float) -> None:
    tau = tau_below(odds)
    literal = torch.tensor(tau, dtype=torch.float64).logit().item()
    assert literal - ROUNDINGS <= odds
    exact = math.log(tau) - math.log1p(-tau)
    rounding = math.exp(odds) / 2**51  # of τ near 1
    assert odds - 1e-14 * (1 + abs(odds)) - rounding <= exact <= odds + ROUNDINGS


@pytest.mark.parametrize("scale", [1e-9, 1.0, 10.0])
def test_a_rate_is_kept_and_counted_as_the_classifier_decides(scale: float) -> None:
    logits = torch.randn(997, 4, generator=seeded(5)) * scale
    right = logits.argmax(1).numpy()
    labels = np.where(np.arange(997) % 7, right, (right + 1) % 4)
    calibration = Outcome(right != labels, log_odds(logits).numpy())
    for tpr in (0.5, 0.95, 0.99):
        chosen = keeping(calibration, tpr)
        given = np.array(decide(logits, chosen.tau))
        kept = int((given == labels).sum())
        least = math.ceil(tpr * int((right == labels).sum()))
        assert kept == least, "the largest τ: one more image would be lost"
        assert chosen.rejected == (given == -1).sum()
        assert chosen.wrong == ((given != -1) & (given != labels)).sum()
        assert chosen.images == 997


def test_a_promised_risk_holds_where_confidences_round_to_one() -> None:
    """Counted as the classifier decides, and P(Binomial(accepted, risk) ≤ wrong) ≤ δ there."""
    g = np.random.default_rng(6)
    odds = np.r_[g.uniform(-1, 45, 3000), np.full(50, 800.0)]
    wrong = g.random(3050) < 0.2 / (1 + np.exp(np.clip(odds, 0, 700) / 4))
    chosen = promising(Outcome(wrong, odds), 0.02, 0.95)
    assert not isinstance(chosen, NoPromise)
    accepted = odds >= math.log(chosen.tau) - math.log1p(-chosen.tau)
    assert (chosen.images - chosen.rejected, chosen.wrong) == (
        accepted.sum(),
        (accepted & wrong).sum(),
    )
    assert stats.binom.cdf(chosen.wrong, accepted.sum(), 0.02) <= 0.05
    odds = np.r_[g.uniform(0, 35, 500), g.uniform(37, 900, 500)]
    saturated = promising(Outcome(odds < 36, odds), 0.02, 0.95)
    assert not isinstance(saturated, NoPromise)
    assert 490 <= saturated.rejected <= 500
    assert saturated.tau <= HIGHEST, "τ = 1 would accept nothing"
    nothing = promising(Outcome(np.ones(1000, dtype=bool), odds), 0.02, 0.95)
    assert isinstance(nothing, NoPromise)
    assert 0 <= nothing.tau <= HIGHEST, "a confidence, not log-odds"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_it_decides_alike(backend: str) -> None:
    clf, x = shapes(), pixels(100)
    compiled = torch.compile(clf, backend=backend)
    for images in (x, x.float() / 255):
        with torch.no_grad():
            plain, quick = clf(images), compiled(images)
        assert torch.equal(plain.labels, quick.labels)
        assert torch.equal(plain.accepted, quick.accepted)
        assert 10 < int(plain.accepted.sum()) < 90, "the test can tell"


def test_arrays_of_every_order_and_kind_are_decided_alike() -> None:
    clf, x = shapes(), pixels(300)
    expected = clf(x).labels.tolist()
    grey = x[:, 0].numpy()
    read_only = grey.copy()
    read_only.setflags(write=False)
    arrays = [
        x,
        x.numpy(),
        grey,
        grey[..., None],
        read_only,
        grey[:, ::-1][:, ::-1],
        grey / 255,
        (grey / 255).astype(np.float32),
        (grey / 255).astype(">f4"),
        (grey / 255).tolist(),
    ]
    for array in arrays:
        assert clf.predict(array).tolist() == expected
    assert clf.predict(grey).dtype == np.int64
    assert {-1, 0, 1, 2} == set(expected)
    assert clf.predict(grey[:0]).shape == (0,)
    chances = clf.predict_proba(grey / 255)
    assert chances.shape == (300, CLASSES)
    assert chances.sum(1) == pytest.approx(1)
    assert np.where(chances.max(1) >= clf.tau, chances.argmax(1), -1).tolist() == expected


def test_colour_arrays_may_have_their_channels_last() -> None:
    net = ccat.create_model("lenet", seeded(), channels=3, size=8, classes=CLASSES).eval()
    clf = Rejecting(net, Calibration(0.34), (3, 8, 8), NAMES)
    x = torch.rand(40, 3, 8, 8, generator=seeded())
    expected = clf(x).labels.tolist()
    assert clf.predict(x.permute(0, 2, 3, 1).numpy()).tolist() == expected
    assert len(set(expected)) > 1


def test_weights_of_double_precision_take_bytes_and_floats() -> None:
    clf = shapes()
    double = Rejecting(copy.deepcopy(clf.model).double(), clf.calibration, SHAPE, NAMES)
    assert double(pixels(20)).labels.tolist() == clf(pixels(20)).labels.tolist()
    assert double.predict(pixels(20).float() / 255).tolist() == clf.predict(pixels(20)).tolist()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((2, 8, 8), 1.01), r"must lie in \[0,1\], but reach from 1.01 to 1.01: divide"),
        (np.full((2, 8, 8), np.nan), "reach from nan to nan"),
        (np.zeros((2, 8, 8), int), "bytes or floats in .*, not torch.int64"),
        (np.zeros((2, 8, 8), str), "bytes or floats in .*, not <U1"),
        (np.zeros((2, 9, 8)), r"takes images of shape \(N, 1, 8, 8\), not \(2, 1, 9, 8\)"),
        (np.zeros((8, 8)), r"not \(8, 8\)"),
        (np.zeros((2, 8, 8, 3)), r"not \(2, 8, 8, 3\)"),
    ],
)
def test_other_arrays_are_refused(array: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shapes().predict(array)
    with pytest.raises(ValueError, match=message):
        shapes().predict_proba(array)


def test_parts_that_do_not_fit_are_refused() -> None:
    for tau in (-0.1, 1.1):
        with pytest.raises(ValueError, match="tau must be a number at least 0 and at most 1"):
            shapes(tau)
    with pytest.raises(ValueError, match="a class is called 'rejected'"):
        Rejecting(network(), Calibration(0.5), SHAPE, ["a", "rejected", "b"])
    with pytest.raises(ValueError, match="tau must be a finite number, not nan"):
        Calibration(math.nan)


@pytest.mark.parametrize("kind", ["plain", "normalised", "detector"])
def test_a_file_holds_all_that_decides(kind: str, tmp_path: Path) -> None:
    clf = with_detector() if kind == "detector" else shapes()
    if kind == "normalised":
        clf = Rejecting(Normalised(network(), [0.4], [0.9]), Calibration(0.5), SHAPE, NAMES)
    clf = clf.at(Calibration(clf.tau, "tpr", 0.9, None, 100, 12, 3))
    clf.save(tmp_path / "shapes.safetensors")
    again = ccat.load(tmp_path / "shapes.safetensors")
    x = pixels(300)
    assert again.predict(x).tolist() == clf.predict(x).tolist()
    assert -1 in again.predict(x)
    assert {0, 1, 2} & set(again.predict(x).tolist())
    assert (again.calibration, again.shape, again.classes) == (clf.calibration, SHAPE, NAMES)
    assert again.rejection == clf.rejection
    assert again.name(-1) == "rejected"
    assert again.name(2) == "star"
    assert ccat.load(tmp_path / "shapes.safetensors", tau=0.25).tau == 0.25
    with pytest.raises(ccat.errors.PipelineError, match="holds one threshold"):
        ccat.load(tmp_path / "shapes.safetensors", tpr=0.9)


def test_what_a_score_of_ones_own_rejects_cannot_be_stored(tmp_path: Path) -> None:
    clf = shapes(0.0, rejection=OwnScore(lambda images, _: images.flatten(1).mean(1) - 0.5))
    x = pixels(50)
    assert torch.equal(clf(x).accepted, (x.float() / 255).flatten(1).mean(1) >= 0.5)
    with pytest.raises(ValueError, match="cannot be stored"):
        clf.save(tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match="save_model stores models that create_model"):
        table(torch.zeros(1, 2), 0.5).save(tmp_path / "own.safetensors")
    assert not list(tmp_path.iterdir())


def test_files_that_are_no_classifier_are_refused_by_name(tmp_path: Path) -> None:
    whole, model = tmp_path / "whole.safetensors", tmp_path / "model.safetensors"
    shapes().save(whole)
    ccat.save_model(network(), model)
    with pytest.raises(ModelFileError, match="model without a threshold"):
        load_classifier(model)
    with pytest.raises(ModelFileError, match=r"classifier that rejects: ccat.load\(path\)"):
        ccat.load_model(whole)
    with pytest.raises(ModelFileError, match="there is no weights file"):
        load_classifier(tmp_path / "none.safetensors")
    content = whole.read_bytes()
    for damaged in (content[:-5], content[:-5] + b"XXXXX", content[:100], b""):
        whole.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="is damaged or not a safetensors file"):
            ccat.load(whole)
    tensors, about = sealed.unpack(content)
    changes: list[tuple[dict[str, object], str]] = [
        ({"schema": 99}, "another version of ccat .classifier schema 99, this version reads 1"),
        ({"shape": [1, 28, 28]}, "cannot decide"),
        ({"shape": [1, 10**6, 10**6]}, "are too large"),
        ({"classes": ["a", "b"]}, "the model tells 3 classes apart, not 2"),
        ({"calibration": {"kind": "Calibration", "tau": 7.0}}, "tau must be a number"),
        ({"calibration": {"kind": "Recipe"}}, "cannot decide"),
        ({"rejection": {"kind": "Detection", "name": "lid"}}, "cannot decide"),
        ({"rejection": {"kind": "os:system"}}, "cannot decide"),
    ]
    for change, message in changes:
        said = {**about, "classifier": {**about["classifier"], **change}}
        whole.write_bytes(sealed.pack(tensors, said))
        with pytest.raises(ModelFileError, match=message):
            ccat.load(whole)


def test_a_stream_of_decisions_is_watched() -> None:
    x, y = labelled(1000, 7)
    clf = shapes()
    answers, scores = clf.scores(x)
    chosen = keeping(Outcome((answers != y).numpy(), scores.numpy()), 0.95)
    clf = clf.at(chosen)
    same = clf.monitor(clf(pixels(500, 8)).accepted)
    assert same.alarm is None
    assert same.calibrated.value == chosen.rejected / 1000
    other = clf.monitor(torch.zeros(500, dtype=torch.bool))
    assert other.alarm is not None
    assert other.alarm.side == "above"
    with pytest.raises(ValueError, match="as booleans, not int64"):
        clf.monitor(clf.predict(x))
    with pytest.raises(ValueError, match="no decision to watch"):
        clf.monitor([])
    with pytest.raises(ValueError, match="no rejection rate is known"):
        shapes().monitor([True])


def test_it_says_what_it_is() -> None:
    said = repr(shapes())
    assert "3 classes, images 1×8×8, τ = 0.6, given" in said
