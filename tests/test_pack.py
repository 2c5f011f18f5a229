"""Packed classifiers, run by onnxruntime and PyTorch, decide as those that they are made of."""

import json
import math
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from digits import reader
from runs import says
from torch import Tensor, nn
from truth import seeded

import ccat
from ccat import Calibration, Detection, Images, Normalised, PackError, Rejecting, create_model
from ccat.evaluation.metrics import Outcome
from ccat.models.files import weights_sha256
from ccat.rejection import export
from ccat.rejection.calibration import counted, given, keeping, logit, tau_below
from ccat.rejection.rejecting import log_odds
from ccat.runs import Run

ENDINGS = [".onnx", ".pt2"]
NEAR = 1e-4  # from τ in log-odds: there models that round otherwise may decide otherwise
Decide = Callable[[Tensor, float | None], tuple[Tensor, Tensor, Tensor]]


class Scaled(nn.Module):
    """Logits are the pixels times a power of two, which every runtime computes exactly."""

    def __init__(self, factor: float = 64.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * self.factor


class Logarithm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).log()


def names(count: int) -> list[str]:
    return [f"class {n}" for n in range(count)]


def scaled(classes: int, tau: float = 0.9) -> Rejecting:
    return Rejecting(Scaled(), given(tau), (classes, 1, 1), names(classes))


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def packed(clf: Rejecting, path: Path) -> Decide:
    """Pack a classifier, and return what decides from the file alone."""
    ccat.pack(clf, path)
    if path.suffix == ".onnx":
        onnx.checker.check_model(path, full_check=True)
        running = session(path)

        def by_onnx(images: Tensor, tau: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
            fed = {"images": images.numpy()} | ({} if tau is None else {"tau": np.array(tau)})
            label, confidence, accepted = map(torch.from_numpy, running.run(None, fed))
            return label, confidence, accepted

        return by_onnx
    program = torch.export.load(path).module()
    default = program.get_buffer("tau").clone()

    def by_torch(images: Tensor, tau: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
        program.get_buffer("tau").copy_(default if tau is None else exact(tau))
        label, confidence, accepted = program(images)
        return label, confidence, accepted

    return by_torch


def exact(tau: float) -> Tensor:
    return torch.tensor(tau, dtype=torch.float64)


@pytest.mark.parametrize("ending", ENDINGS)
def test_equal_logits_are_decided_alike_at_just_below_and_just_above_tau(
    tmp_path: Path, ending: str
) -> None:
    """Log-odds of two logits far above the third are their difference, without any rounding."""
    decide = packed(scaled(3), tmp_path / f"model{ending}")
    steps = [n / 256 for n in range(1, 1500)]
    taus = {d: exact(d).sigmoid() for d in steps}
    there = [d for d in steps if taus[d].logit() == d]  # where τ hits the difference exactly
    assert len(there) > 100
    for d in there:
        first = torch.tensor((48.0 + d) / 64)
        below, above = (torch.nextafter(first, torch.tensor(to)) for to in (0.0, 1.0))
        rows = [[one.item(), 48 / 64, 0.0] for one in (below, first, above)]
        images = torch.tensor(rows)[:, :, None, None]
        label, confidence, accepted = decide(images, taus[d].item())
        assert accepted.tolist() == [False, True, True]
        assert label.tolist() == [-1, 0, 0]
        assert confidence[1].item() == pytest.approx(taus[d].item(), abs=1e-15)


@pytest.mark.parametrize("classes", [3, 100])
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_image_that_tau_was_chosen_from_is_accepted_by_every_runtime(
    tmp_path: Path, ending: str, classes: int
) -> None:
    """Also with many classes and large logits, whose sums and exponentials runtimes round apart."""
    clf = scaled(classes)
    decide = packed(clf, tmp_path / f"model{ending}")
    images = torch.rand(300, classes, 1, 1, generator=seeded(1))
    odds = clf.scores(images)[1]
    for n in (odds.abs() < 5).nonzero()[:, 0].tolist():
        one, tau = images[n : n + 1], tau_below(odds[n].item())
        above = tau + 4e-12 * tau * (1 - tau)
        assert decide(one, tau)[2].item()
        assert clf(one, exact(tau)).accepted.item()
        assert decide(one, above)[2].item() == clf(one, exact(above)).accepted.item() is False


@pytest.mark.parametrize("classes", [2, 10, 11, 25])
def test_a_confidence_of_exactly_tau_is_accepted(classes: int) -> None:
    """Equal logits give a confidence of 1/K, which rounding puts below log τ/(1−τ) for some K."""
    images = torch.full((1, classes, 1, 1), 0.5)
    assert scaled(classes, 1 / classes)(images).accepted.item()
    calibration = Outcome(np.array([False]), scaled(classes).scores(images)[1].numpy())
    assert counted(given(1 / classes), calibration).rejected == 0
    assert not scaled(classes, 1 / classes + 1e-10)(images).accepted.item()


@pytest.mark.parametrize("ending", ENDINGS)
def test_infinite_and_missing_logits_are_decided_as_in_python(tmp_path: Path, ending: str) -> None:
    clf = Rejecting(Logarithm(), given(0.6), (3, 1, 1), names(3))
    decide = packed(clf, tmp_path / f"model{ending}")
    rows = [[0.5, 0, 0], [0, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0], [0.75, 0.25, 0.125]]
    images = torch.tensor(rows)[:, :, None, None]
    for tau in (0.0, 0.5, 0.6, 0.9, 1.0):
        label, confidence, accepted = decide(images, tau)
        own = clf(images, exact(tau))
        assert label.tolist() == own.labels.tolist()
        assert accepted.tolist() == own.accepted.tolist()
        torch.testing.assert_close(confidence, own.confidence, equal_nan=True)
    assert decide(images, 1.0)[0].tolist() == [0, -1, -1, -1, -1]
    assert not decide(images, math.nan)[2].any()


def test_log_odds_keep_their_digits_beside_large_logits() -> None:
    z = torch.tensor([[5000.0, 4999.0, 4990.0, 0.0], [-1e6, -1e6, -1e6, -3e6], [3.0, 1.0, 1.0, 0]])
    true = []
    for row in z.tolist():
        top = max(row)
        others = sorted(row)[:-1]
        true.append(-math.log(math.fsum(math.exp(one - top) for one in others)))
    assert log_odds(z).tolist() == pytest.approx(true, rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("odds", [math.inf, 800.0, 36.0, 2.0, 1e-9, 0.0, -3.0, -800.0, -math.inf])
def test_a_chosen_threshold_lies_below_its_confidence_but_not_far(odds: float) -> None:
    tau = tau_below(odds)
    assert 0 <= tau <= 1 - 2.0**-53
    assert logit(tau) <= odds
    if abs(odds) < 30:
        assert logit(tau) == pytest.approx(odds, abs=1e-2 if odds > 20 else 1e-12)
    elif odds > 40:
        assert tau == 1 - 2.0**-53


def counted_apart(clf: Rejecting, decide: Decide, images: Tensor, tau: float) -> int:
    """Check decisions on images far from τ; return how many near τ differ."""
    cut, differ = logit(tau), 0
    for part in torch.split(images, 250):
        label, confidence, accepted = decide(part, tau)
        assert (label.dtype, confidence.dtype, accepted.dtype) == (
            torch.int64,
            torch.float64,
            torch.bool,
        )
        with torch.no_grad():
            own = clf(part, exact(tau))
            near = (log_odds(clf.model(part)) - cut).abs() <= NEAR
        apart = (label != own.labels) | (accepted != own.accepted)
        assert not (apart & ~near).any()
        assert ((label == -1) == ~accepted).all()
        torch.testing.assert_close(confidence, own.confidence, atol=1e-4, rtol=0)
        differ += int(apart.sum())
    return differ


@pytest.mark.parametrize("ending", ENDINGS)
def test_ten_thousand_images_are_decided_as_in_python_by_a_normalised_model(
    tmp_path: Path, ending: str
) -> None:
    torch.manual_seed(0)
    last = nn.Linear(8 * 36, 4)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), last)
    with torch.no_grad():
        net(torch.rand(500, 3, 8, 8))  # moves the statistics of the normalisation
        last.weight *= 8
    model = Normalised(net, (0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
    clf = Rejecting(model.eval(), given(0.5), (3, 8, 8), names(4))
    images = torch.rand(10_000, 3, 8, 8, generator=seeded(2))
    tau = float(clf.scores(images)[1].median().sigmoid())
    chosen = clf.at(given(tau))
    decide = packed(chosen, tmp_path / f"model{ending}")
    assert counted_apart(chosen, decide, images, tau) <= 20
    accepted = torch.cat([decide(part, None)[2] for part in torch.split(images, 1000)])
    assert 4900 < int(accepted.sum()) < 5100
    assert counted_apart(chosen, decide, images[:1000], 0.9) <= 5


def test_ten_thousand_digits_are_decided_as_in_python(tmp_path: Path, mnist_test: Images) -> None:
    model = reader()
    clf = Rejecting(model, given(0.5), (1, 28, 28), names(10))
    answers, scores = clf.scores(mnist_test.x[-1000:])
    outcome = Outcome((answers != mnist_test.y[-1000:]).numpy(), scores.numpy())
    clf = clf.at(keeping(outcome, 0.99))
    images = mnist_test.floats()
    assert len(images) == 10_000
    for ending in ENDINGS:
        decide = packed(clf, tmp_path / f"model{ending}")
        assert counted_apart(clf, decide, images, clf.tau) <= 5


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_number_of_images_is_taken(tmp_path: Path, ending: str) -> None:
    clf = scaled(4, 0.99)
    decide = packed(clf, tmp_path / f"model{ending}")
    images = torch.rand(250, 4, 1, 1, generator=seeded(3))
    whole = clf(images)
    for count in (1, 7, 250):
        label, confidence, accepted = decide(images[:count], None)
        assert label.shape == confidence.shape == accepted.shape == (count,)
        assert label.tolist() == whole.labels[:count].tolist()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_no_image_is_rejected(tmp_path: Path, ending: str) -> None:
    """Bytes that nobody divided by 255 would otherwise be answered with great confidence."""
    decide = packed(scaled(3), tmp_path / f"model{ending}")
    rows = [[1, 0, 0], [1.001, 0, 0], [255, 0, 0], [1, -0.001, 0], [1, 0, math.nan]]
    label, _, accepted = decide(torch.tensor(rows)[:, :, None, None], 0.0)
    assert label.tolist() == [0, -1, -1, -1, -1]
    assert accepted.tolist() == [True, False, False, False, False]


def about(path: Path) -> dict[str, str]:
    if path.suffix == ".onnx":
        return dict(session(path).get_modelmeta().custom_metadata_map)
    extra = {"ccat.json": ""}
    torch.export.load(path, extra_files=extra)
    found = json.loads(extra["ccat.json"])
    return {name: one if isinstance(one, str) else json.dumps(one) for name, one in found.items()}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_says_what_it_holds(tmp_path: Path, ending: str) -> None:
    tau = 0.1 + 0.2  # 0.30000000000000004
    chosen = Calibration(tau, "risk", 0.01, 0.95, images=500, rejected=20, wrong=1)
    model = create_model("lenet", seeded())
    clf = Rejecting(model, chosen, (1, 28, 28), ["Käse", "b", *map(str, range(8))])
    path = tmp_path / f"model{ending}"
    ccat.pack(clf, path)
    found = about(path)
    assert json.loads(found["classes"]) == list(clf.classes)
    assert found["tau"] == repr(tau)
    assert "at most 0.01 of accepted answers are wrong" in found["threshold"]
    calibration = json.loads(found["calibration"])
    assert Calibration(**calibration) == chosen
    assert json.loads(found["image_shape"]) == [1, 28, 28]
    assert found["ccat_version"] == ccat.__version__
    assert "Lanczos" in found["resize"]
    assert "middle" in found["resize"]
    ccat.save_model(model, tmp_path / "weights")
    assert found["weights_sha256"] == sha256((tmp_path / "weights").read_bytes()).hexdigest()
    content = path.read_bytes()
    assert str(Path(__file__).parents[1]).encode() not in content, "nor where ccat lies"
    assert sys.prefix.encode() not in content


def test_the_threshold_is_an_input_that_may_be_left_out(tmp_path: Path) -> None:
    tau = 0.1 + 0.2
    ccat.pack(scaled(3, tau), tmp_path / "model.onnx")
    running = session(tmp_path / "model.onnx")
    assert [one.name for one in running.get_inputs()] == ["images"]
    (optional,) = running.get_overridable_initializers()
    assert (optional.name, optional.type, optional.shape) == ("tau", "tensor(double)", [])
    assert [one.name for one in running.get_outputs()] == ["label", "confidence", "accepted"]
    assert running.get_inputs()[0].shape == ["N", 3, 1, 1]
    stored = onnx.load(tmp_path / "model.onnx").graph.initializer
    (default,) = [onnx.numpy_helper.to_array(one) for one in stored if one.name == "tau"]
    assert default == tau
    ccat.pack(scaled(3, tau), tmp_path / "model.pt2")
    assert torch.export.load(tmp_path / "model.pt2").module().get_buffer("tau").item() == tau


def test_digests_of_models_of_others_tell_them_apart() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    same = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    same.load_state_dict(net.state_dict())
    assert weights_sha256(net) == weights_sha256(same)
    digests = {weights_sha256(one) for one in (net, Normalised(net, [0.5], [0.5]))}
    digests.add(weights_sha256(Normalised(net, [0.5], [0.25])))
    with torch.no_grad():
        same[1].bias[0] += 1e-6  # type: ignore[index, operator]
    assert len(digests | {weights_sha256(same)}) == 4


def test_packing_leaves_the_classifier_as_it_was(tmp_path: Path) -> None:
    clf = scaled(3).train()
    ccat.pack(clf, tmp_path / "model.pt2")
    assert clf.training
    assert clf.model.training
    assert next(clf.parameters()).requires_grad


class Branching(nn.Module):
    """Looks at the values of its images to choose a way."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) if x.mean() > 0.5 else -x.flatten(1)


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 8 * nn.functional.dropout(x.flatten(1), 0.5, training=True)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Branching(), "PyTorch cannot export this Branching (.*no `if` or loop that depends on"),
        (Noisy(), "answers . of . images of noise otherwise than the classifier .*not written"),
    ],
)
def test_a_model_that_cannot_be_packed_is_refused(
    tmp_path: Path, ending: str, model: nn.Module, message: str
) -> None:
    clf = Rejecting(model, given(0.5), (6, 1, 1), names(6))
    with pytest.raises(PackError, match=message.replace("(.", r"\(.")):
        ccat.pack(clf, tmp_path / f"model{ending}")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_packed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clf = scaled(3)
    for path, message in {
        tmp_path / "model.pt": "ends in .onnx or .pt2, not",
        tmp_path / "model": "ends in .onnx or .pt2, not",
        tmp_path / "none" / "model.onnx": "there is no directory .*none: make it first",
        tmp_path / f"{'long' * 62}.pt2": "cannot be written: File name too long",
    }.items():
        with pytest.raises(PackError, match=message):
            ccat.pack(clf, path)
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(PackError, match=r"folder.onnx is a folder"):
        ccat.pack(clf, tmp_path / "folder.onnx")
    detecting = Rejecting(
        Scaled(), Calibration(0.5), (3, 1, 1), names(3), rejection=Detection("lid")
    )
    with pytest.raises(PackError, match="rejects by a detector"):
        ccat.pack(detecting, tmp_path / "model.onnx")
    with monkeypatch.context() as patch:
        patch.setattr(export, "MOST_BYTES", 3)
        with pytest.raises(PackError, match=r"an ONNX file holds 2 GiB: pack it into a .pt2"):
            ccat.pack(clf, tmp_path / "model.onnx")
    monkeypatch.setattr(export, "find_spec", lambda name: None if "onnx" in name else object())
    with pytest.raises(PackError, match=r"pip install 'ccat-torch\[onnx\]'"):
        ccat.pack(clf, tmp_path / "model.onnx")
    assert [one.name for one in tmp_path.iterdir()] == ["folder.onnx"]
    ccat.pack(clf, tmp_path / "model.pt2")  # needs none of that


@pytest.mark.skipif("os.geteuid() == 0", reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PackError, match="may not be written to"):
        ccat.pack(scaled(3), tmp_path / "model.pt2")


def test_the_command_packs_runs_and_files(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    said = says(capsys, "pack", "tiny", "--to", "tiny.onnx")
    assert "takes images (N, 1, 28, 28) in [0,1] and gives label, confidence and accepted" in said
    assert "keeps 0.99 of correct answers" in said
    found = about(Path("tiny.onnx"))
    assert found["weights_sha256"] == trained.training.weights
    assert json.loads(found["calibration"])["level"] == 0.99
    assert json.loads(found["calibration"])["images"] == 1000
    clf = ccat.load("runs/tiny", tau=0.25)
    clf.save("tiny.safetensors")
    Path("tiny.pt2").write_text("old")
    says(capsys, "pack", "tiny.safetensors", "--to", "tiny.pt2")
    assert about(Path("tiny.pt2"))["tau"] == "0.25"
    says(capsys, "pack", "runs/tiny", "--tpr", "0.9", "--to", "tiny.pt2")
    assert json.loads(about(Path("tiny.pt2"))["calibration"])["level"] == 0.9
    there = sorted(Path().iterdir())
    for words, message in {
        "tiny --to tiny.pkl": "ends in .onnx or .pt2, not 'tiny.pkl'",
        "tinny --to new.pt2": "there is no run 'tinny'; did you mean tiny?",
        "zoo:none --to new.pt2": "there is no zoo:none",
        "tiny --to none/new.pt2": "there is no directory none",
        "tiny --to new.pt2 --tau 2": "tau must be",
        "tiny --to new.pt2 --tau 0.5 --tpr 0.9": "not allowed with argument",
        "tiny.safetensors --to new.pt2 --tpr 0.9": "holds one threshold",
    }.items():
        assert message in says(capsys, "pack", *words.split(), error=True)
    assert sorted(Path().iterdir()) == there


def test_a_file_of_equal_classifiers_is_equal(tmp_path: Path) -> None:
    for name in ("one.onnx", "two.onnx"):
        ccat.pack(scaled(3), tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
