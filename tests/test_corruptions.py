"""Corruptions: each is what its name says, seeded and in range.

Published files are read with all severities, and runs are measured on corrupted images.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from runs import TINY, says

from ccat.cli import main
from ccat.data import Images
from ccat.data.corruptions import (
    CIFAR10_C,
    FAMILIES,
    MNIST_C,
    Corruption,
    blur,
    corrupted,
    generate,
    geometry,
    noise,
    published,
    require_libraries,
)
from ccat.data.corruptions.pixels import as_bytes, as_floats
from ccat.evaluation.evaluate import evaluate
from ccat.pipeline.collect import collect
from ccat.pipeline.corrupt import contact_sheet, corruptions_of
from ccat.report.analysis import contact_sheet_figure
from ccat.report.figures import as_files
from ccat.runs import Run
from ccat.runs.answers import CorruptedKey

RNG = np.random.default_rng(3)
COLOUR = Images(
    torch.from_numpy(RNG.integers(30, 226, (12, 3, 32, 32), dtype=np.uint8)),
    torch.zeros(12, dtype=torch.int64),
)
CASES = [("mnist", name, 1) for name in MNIST_C] + [
    ("cifar10", name, severity) for name in CIFAR10_C for severity in range(1, 6)
]


def test_the_families_are_complete() -> None:
    assert len(MNIST_C) == 15
    assert {len(levels) for levels in MNIST_C.values()} == {1}
    assert len(CIFAR10_C) == 19
    assert {len(levels) for levels in CIFAR10_C.values()} == {5}


@pytest.mark.parametrize(("family", "name", "severity"), CASES)
def test_every_corruption_changes_the_image_and_is_seeded(
    family: str, name: str, severity: int, mnist_test: Images
) -> None:
    images, table = (mnist_test[:12], MNIST_C) if family == "mnist" else (COLOUR, CIFAR10_C)
    one, again = (corrupted(images, table, name, severity, seed=1) for _ in range(2))
    assert one.x.equal(again.x)
    assert one.x.shape == images.x.shape
    assert one.y.equal(images.y)
    changed = (one.x != images.x).flatten(1).any(1)
    assert changed.all(), "every image"
    assert one.x.float().std() > 1, "something is left to see"


@pytest.mark.parametrize(
    "name",
    [
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
        "speckle_noise",
        "gaussian_blur",
        "contrast",
        "jpeg_compression",
        "zoom_blur",
    ],
)
def test_a_higher_severity_changes_more(name: str) -> None:
    smooth = Images(torch.from_numpy(blurred(COLOUR.x.numpy())), COLOUR.y)
    images = COLOUR if "blur" in name else smooth
    sizes = [
        (corrupted(images, CIFAR10_C, name, severity).x.float() - images.x.float())
        .abs()
        .mean()
        .item()
        for severity in range(1, 6)
    ]
    assert sizes == sorted(sizes)


def blurred(x: np.ndarray) -> np.ndarray:
    return (
        np.rint(blur.gaussian_blur(x.transpose(0, 2, 3, 1) / 1.0, np.random.default_rng(0), 2.0))
        .astype(np.uint8)
        .transpose(0, 3, 1, 2)
        .copy()
    )


def apply(change: Corruption, x: np.ndarray) -> np.ndarray:
    return change(x, np.random.default_rng(0))


def test_known_values() -> None:
    grey = np.full((1, 8, 8, 1), 0.25)
    assert apply(lambda x, rng: noise.brightness(x, rng, 0.5), grey) == pytest.approx(0.75)
    flat = np.concatenate([np.zeros((1, 4, 8, 3)), np.ones((1, 4, 8, 3))], axis=1)
    assert np.unique(apply(lambda x, rng: noise.contrast(x, rng, 0.5), flat)) == pytest.approx(
        [0.25, 0.75]
    )
    red = np.zeros((1, 2, 2, 3)) + np.array([0.8, 0.4, 0.4])
    assert apply(lambda x, rng: noise.saturate(x, rng, 0.0, 0.0), red) == pytest.approx(0.8), (
        "no colour is left"
    )
    assert apply(lambda x, rng: noise.saturate(x, rng, 1.0, 0.0), red) == pytest.approx(red)
    drawn = apply(lambda x, rng: noise.impulse_noise(x, rng, 0.2), np.full((1, 200, 200, 1), 0.5))
    assert np.mean(drawn == 0) == pytest.approx(0.1, abs=0.01)
    assert np.mean(drawn == 1) == pytest.approx(0.1, abs=0.01)
    poisson = apply(lambda x, rng: noise.shot_noise(x, rng, 3), np.full((1, 200, 200, 1), 0.5))
    assert (poisson.mean(), poisson.var()) == pytest.approx((0.5, 0.5 / 3), abs=0.01)
    point = np.zeros((1, 28, 28, 1))
    point[0, 14, 14] = 1
    places = {
        tuple(np.argwhere(corrupt_one(point, seed)[0, :, :, 0] > 0.5)[0] - 14) for seed in range(20)
    }
    assert places == {(a, b) for a in (-3, 3) for b in (-3, 3)}, (
        "translated by three pixels along both axes"
    )
    turned = geometry.rotate(point, np.random.default_rng(0), 0.4)
    assert turned.sum() == pytest.approx(1, abs=0.2), "about the centre"


def corrupt_one(x: np.ndarray, seed: int) -> np.ndarray:
    return geometry.translate(x, np.random.default_rng(seed), 3)


def test_mnist_specials(mnist_test: Images) -> None:
    striped = corrupted(mnist_test[:5], MNIST_C, "stripe", 1)
    inner = slice(7, 21)
    assert striped.x[..., inner].equal(mnist_test[:5].x[..., inner])
    assert striped.x[..., :7].equal(255 - mnist_test[:5].x[..., :7])
    for name in ("dotted_line", "zigzag"):
        lined = corrupted(mnist_test[:5], MNIST_C, name, 1)
        assert (lined.x >= mnist_test[:5].x).all(), "a line is only added"
    assert set(
        np.unique(corrupted(mnist_test[:5], MNIST_C, "canny_edges", 1).x.numpy()).tolist()
    ) == {0, 255}


def test_published_files_are_read_with_all_severities(tmp_path: Path) -> None:
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    x = np.zeros((50_000, 2, 2, 3), dtype=np.uint8)
    for severity in range(5):
        x[10_000 * severity : 10_000 * (severity + 1)] = severity + 1
    np.save(folder / "fog.npy", x)
    np.save(folder / "labels.npy", np.arange(50_000) % 10)
    found = published(tmp_path, "cifar10-c")
    assert list(found) == [("fog", severity) for severity in range(1, 6)]
    for (_, severity), load in found.items():
        images = load()
        assert images.x.shape == (10_000, 3, 2, 2)
        assert np.unique(images.x.numpy()).tolist() == [severity]
    (folder / "fog.npy").write_bytes(b"no")
    with pytest.raises(
        ValueError, match=r"fog\.npy or labels\.npy beside it is damaged or missing"
    ):
        found["fog", 1]()


def test_published_mnist_c_is_preferred_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mnist_test: Images
) -> None:
    folder = tmp_path / "mnist_c" / "fog"
    folder.mkdir(parents=True)
    np.save(folder / "test_images.npy", mnist_test.x.permute(0, 2, 3, 1).numpy())
    np.save(folder / "test_labels.npy", mnist_test.y.numpy())
    monkeypatch.setenv("CCAT_DATA", str(tmp_path))
    name, sources = corruptions_of("mnist", 50, seed=0)
    assert (name, list(sources)) == ("mnist-c", [CorruptedKey("fog", 1)])
    assert sources[CorruptedKey("fog", 1)]().x.equal(mnist_test.x[:50])
    np.save(folder / "test_labels.npy", mnist_test.y.numpy()[::-1].copy())
    with pytest.raises(Exception, match="has other labels than the test images"):
        sources[CorruptedKey("fog", 1)]()


@pytest.mark.parametrize(("family", "place"), [("mnist-c", "mnist_c"), ("cifar10-c", "CIFAR-10-C")])
def test_a_generated_set_has_the_published_layout_and_is_not_taken_for_it(
    family: str, place: str, tmp_path: Path
) -> None:
    shape = (3, 1, 28, 28) if family == "mnist-c" else (3, 3, 32, 32)
    images = Images(torch.randint(0, 256, shape, dtype=torch.uint8), torch.tensor([2, 0, 1]))
    generate(images, family, tmp_path / place, 5, lambda *_: None)
    assert published(tmp_path, family) == {}
    (tmp_path / place / "generated.json").unlink()
    found = published(tmp_path, family)
    table = FAMILIES[family][1]
    assert set(found) == {
        (name, severity) for name, levels in table.items() for severity in range(1, len(levels) + 1)
    }
    first = found["fog", 1]()
    assert first.x[:3].equal(corrupted(images, table, "fog", 1, 5).x)
    assert first.y[:3].tolist() == [2, 0, 1]
    with pytest.raises(ValueError, match="is there already"):
        generate(images, family, tmp_path / place, 5, lambda *_: None)


@pytest.fixture
def no_skimage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide scikit-image, which only the extra `corruptions` installs."""
    for name in ("skimage", "skimage.feature"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_skimage")
def test_edges_need_scikit_image_and_say_so_before_any_work(tmp_path: Path) -> None:
    images = Images(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), torch.zeros(2).long())
    message = r"canny_edges needs scikit-image: pip install 'ccat-torch\[corruptions\]'"
    done: list[object] = []
    with pytest.raises(ValueError, match=message):
        generate(images, "mnist-c", tmp_path / "c", 0, lambda *one: done.append(one))
    assert done == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=message):
        require_libraries(["fog", "canny_edges"])
    with pytest.raises(ValueError, match=message):
        corrupted(images, MNIST_C, "canny_edges", 1)


@pytest.mark.usefixtures("no_skimage")
def test_all_other_corruptions_need_no_scikit_image() -> None:
    require_libraries(CIFAR10_C)
    require_libraries(iter(["fog", "stripe"]))
    grey = Images(COLOUR.x[:2, :1, :28, :28], COLOUR.y[:2])
    for table, images in ((MNIST_C, grey), (CIFAR10_C, COLOUR[:2])):
        for name in table.keys() - {"canny_edges"}:
            assert len(corrupted(images, table, name, 1)) == 2


def test_bytes_survive_the_way_to_floats_and_back() -> None:
    every = np.arange(256, dtype=np.uint8)
    assert as_floats(every)[[0, 51, 255]].tolist() == [0, 0.2, 1]
    assert np.array_equal(as_bytes(as_floats(every)), every)
    assert as_bytes(np.array([-1, 0.5, 2])).tolist() == [0, 128, 255]


def test_an_interrupted_generation_leaves_nothing(tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(
            Images(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), torch.zeros(2).long()),
            "mnist-c",
            tmp_path / "c",
            0,
            stop,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_measured_on_corrupted_images(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mnist_test: Images,
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["train", *TINY, "--epochs", "1", "--run", "runs/tiny"])
    assert "mnist-c-generated is stored" in says(capsys, "corrupt", "tiny", "--examples", "60")
    file = tmp_path / "runs/tiny/corrupted/mnist-c-generated.safetensors"
    before = file.stat().st_mtime_ns
    says(capsys, "corrupt", "tiny", "--examples", "60")
    assert file.stat().st_mtime_ns == before, "nothing is computed twice"
    outcomes = collect(Run.open(Path("runs/tiny")))
    tau = float(np.median(outcomes.corrupted[0].answers.outcome.score))
    found = {one.name: one for one in evaluate(outcomes, tau=tau).corruptions}
    assert len(found) == 17
    outcome = next(one for one in outcomes.corrupted if one.name == "brightness").answers.outcome
    accepted = outcome.score >= tau
    assert found["brightness"].rates["coverage"] == accepted.mean()
    assert found["brightness"].rates["error"] == pytest.approx(
        (outcome.wrong & accepted).sum() / max(1, accepted.sum())
    )
    assert found["brightness"].without_rejection == outcome.wrong.mean()
    assert found["brightness"].tnr == pytest.approx((~accepted[outcome.wrong]).mean())
    assert found["mean"].without_rejection == pytest.approx(
        np.mean([found[name].without_rejection for name in MNIST_C])
    )
    judged = [one.answers.outcome for one in outcomes.corrupted]
    wrong = sum(int((one.wrong & (one.score >= tau)).sum()) for one in judged)
    assert found["pooled"].rates["error"] == pytest.approx(
        wrong / sum(int((one.score >= tau).sum()) for one in judged)
    )
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.5", "--table", "corruptions")
    assert "canny_edges" in shown
    assert "mnist-c-generated" in says(
        capsys, "evaluate", "tiny", "--tpr", "0.5", "--table", "main"
    )
    assert "--examples must be 1 to 9000" in says(
        capsys, "corrupt", "tiny", "--examples", "9001", error=True
    )


def test_the_contact_sheet_shows_every_corruption(mnist_test: Images) -> None:
    name, rows = contact_sheet("mnist", columns=3)
    assert [row for row, _ in rows] == ["none", *MNIST_C]
    assert {images.shape for _, images in rows} == {(3, 1, 28, 28)}
    assert name.startswith("mnist-c")
    figure = contact_sheet_figure(rows)
    assert [panel.get_ylabel() for panel in figure.axes] == ["none", *MNIST_C]
    assert as_files(figure)["png"][:4] == b"\x89PNG"
