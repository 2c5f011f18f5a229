"""Damaged and hostile files from outside, cut commands, and small sets of one's own pictures."""

import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from runs import TINY, says

from ccat import Images, extensions, sealed
from ccat.cli import main
from ccat.data import class_count, names_of_classes, split_of
from ccat.data.npz import read_npz
from ccat.data.own import evenly_mixed, load_own
from ccat.errors import UntrustedError
from ccat.files import UNFINISHED, whole_folder
from ccat.runs import Run, RunError

# ---- .npz files


def member(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def archive(path: Path, content: bytes, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("x.npy", content)
    return path


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[80] ^= 255
    path.write_bytes(content)


def encrypted(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + place] |= 1
    path.write_bytes(content)


BOMB = b"\x93NUMPY\x01\x00v\x00" + (
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (4000000000,), }".ljust(117) + b"\n"
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: flipped(archive(path, member(np.arange(1000)))), "damaged or not an .npz"),
        (lambda path: encrypted(archive(path, member(np.arange(9)))), "x is encrypted"),
        (
            lambda path: archive(path, member(np.arange(9)), zipfile.ZIP_LZMA),
            "compressed in another way",
        ),
        (lambda path: archive(path, BOMB + b"\0" * 1000), "x is not as large as it says"),
        (lambda path: archive(path, member(np.arange(9)) + b"more"), "not as large as it says"),
        (lambda path: archive(path, b"no array"), "damaged or not an .npz file"),
        (lambda path: path.write_bytes(member(np.arange(9))), "damaged or not an .npz file"),
        (lambda path: path.write_bytes(b""), "damaged or not an .npz file"),
        (lambda path: np.savez(path, y=np.arange(3)), "has no array x; it needs x alone"),
    ],
)
def test_a_bad_npz_is_named(tmp_path: Path, make: Callable[[Path], Any], message: str) -> None:
    make(tmp_path / "bad.npz")
    with pytest.raises(ValueError, match=message) as said:
        read_npz(tmp_path / "bad.npz", ["x"], "x alone")
    assert "bad.npz" in str(said.value)


def test_an_npz_bomb_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / "bomb.npz", member(np.zeros(10**8, dtype=np.uint8)))
    assert (tmp_path / "bomb.npz").stat().st_size < 10**6
    monkeypatch.setattr("ccat.memory.free", lambda _: 2e8)
    with pytest.raises(ValueError, match="more than fit into memory"):
        read_npz(tmp_path / "bomb.npz", ["x"], "x")


def test_good_arrays_come_back_whatever_their_order(tmp_path: Path) -> None:
    rows, columns = np.arange(12).reshape(3, 4), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.savez_compressed(tmp_path / "a.npz", rows=rows, columns=columns, none=np.zeros((0, 2)))
    found = read_npz(tmp_path / "a.npz", ["rows", "columns", "none"], "")
    assert [one.tolist() for one in found] == [rows.tolist(), columns.tolist(), []]
    assert found[0].flags.writeable


# ---- pictures


def picture(path: Path, size: tuple[int, int] = (8, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size).save(path)
    return path


def test_a_picture_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for n in range(5):
            picture(tmp_path / name / f"{n}.png")
    huge = picture(tmp_path / "a" / "5.png")
    content = bytearray(huge.read_bytes())
    content[16:24] = (20_000).to_bytes(4, "big") * 2  # width and height in the header
    huge.write_bytes(content)
    for name in (str(tmp_path), f"{tmp_path}@8"):
        with pytest.raises(ValueError, match=r"5.png (has more than|is damaged)"):
            load_own(name, "train")
    with pytest.raises(ValueError, match="can be resized to 1 to 2048 pixels, not 99999999"):
        load_own(f"{tmp_path}@99999999", "train")


@pytest.mark.parametrize("cut", [1, 20, 30, 40])
def test_a_damaged_picture_is_named(tmp_path: Path, cut: int) -> None:
    for name in ("a", "b"):
        for n in range(5):
            picture(tmp_path / name / f"{n}.png")
    file = tmp_path / "b" / "0.png"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"0.png is damaged or not an image"):
        load_own(tmp_path, "train")


def test_every_part_of_mixed_images_has_each_class_in_proportion() -> None:
    labels = np.repeat([0, 1, 2], [500, 300, 100])
    order = evenly_mixed(labels)
    assert sorted(order) == list(range(900))
    assert not np.array_equal(order, evenly_mixed(labels, seed=1))
    for first, last in ((0, 90), (400, 500), (850, 900), (0, 450)):
        counts = np.bincount(labels[order[first:last]], minlength=3)
        expected = (last - first) * np.array([5, 3, 1]) / 9
        assert np.abs(counts - expected).max() <= 1


def shapes(folder: Path, counts: dict[str, int]) -> None:
    """Pictures of three kinds that a network can tell apart."""
    generator = np.random.default_rng(0)
    for kind, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for n in range(count):
            pixels = generator.integers(0, 60, (28, 28))
            pixels[4 + 8 * kind : 12 + 8 * kind] += 180
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{n:03d}.png")


@pytest.mark.filterwarnings("default")
def test_a_small_sorted_folder_is_trained_on_all_its_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shapes(tmp_path / "shapes", {"circle": 60, "square": 60, "triangle": 30})
    main(["train", "mnist-normal-demo", "--images", "none", "--dataset", "shapes", "--unverified"])
    said = capsys.readouterr()
    assert "training on 96 images (circle 38, square 39, triangle 19); 24 others" in said.err
    run = Run.open(next(Path("runs").iterdir()))
    answers = run.training.model()(split_of(run.recipe.dataset, "test").floats()).argmax(1)
    assert (answers == split_of(run.recipe.dataset, "test").y).all(), "also triangles"
    main(["attack", str(run.path), "--suite", "demo", "--threat", "Linf:0.1", "--only", "apgd*"])
    warned = capsys.readouterr().err
    assert "15 correctly classified calibration images support a TPR of at most 0.933" in warned
    assert "tables are shown at that or less" in warned
    assert "at 93.3 % TPR" in says(capsys, "evaluate", str(run.path))
    told = says(capsys, "evaluate", str(run.path), "--tpr", "0.99", error=True)
    assert "support TPRs up to 0.933" in told
    assert "Linf:0.1" in says(capsys, "evaluate", str(run.path), "--tpr", "0.9")


@pytest.mark.filterwarnings("default")
def test_a_class_that_is_hardly_there_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shapes(tmp_path / "shapes", {"circle": 60, "square": 60, "triangle": 5})
    command = ["train", "mnist-normal-demo", "--images", "none", "--epochs", "1"]
    main([*command, "--dataset", "shapes", "--unverified"])
    assert "hardly any images of some classes: triangle (3)" in capsys.readouterr().err
    assert class_count("unverified:shapes") == 3
    assert names_of_classes("unverified:shapes") == ("circle", "square", "triangle")


# ---- checkpoints


@pytest.fixture
def stopped(here: Path) -> Run:
    """A run that was killed after its second and last epoch, before its model was written."""
    main(["train", *TINY, "--epochs", "2", "--run", "runs/tiny"])
    run = Run.open(Path("runs/tiny"))
    (run.path / "trained.json").unlink()
    (run.path / "model.safetensors").unlink()
    return run


AGAIN = ["train", *TINY, "--epochs", "2", "--run", "runs/tiny"]


def test_what_is_trained_to_the_end_only_needs_its_model(
    stopped: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "after 2 epochs" in says(capsys, *AGAIN)
    (stopped.path / "trained.json").unlink()
    (stopped.path / "log.jsonl").unlink()
    assert "is trained; its log is missing" in says(capsys, *AGAIN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, _: tensors.pop("generator"), "is not complete"),
        (lambda tensors, _: tensors.update(generator=torch.zeros(3).byte()), "does not fit"),
        (lambda tensors, _: tensors.pop("momentum_buffer.fc.bias"), "does not fit its model"),
        (
            lambda tensors, _: tensors.update({"momentum_buffer.fc.bias": torch.zeros(3)}),
            "its momentum_buffer of fc.bias does not fit",
        ),
        (lambda tensors, _: tensors.pop("model.fc.bias"), "does not fit its model"),
        (lambda _, about: about.update(epoch=None), "does not belong to this run's recipe"),
        (lambda _, about: about.update(epoch=99), "is not complete, or of epoch 99"),
        (lambda _, about: about.pop("recipe"), "does not belong to this run's recipe"),
    ],
)
def test_an_incomplete_checkpoint_is_refused(
    stopped: Run,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, torch.Tensor], dict[str, Any]], object],
    message: str,
) -> None:
    file = stopped.path / "checkpoint.safetensors"
    tensors, about = sealed.unpack(file.read_bytes())
    change(tensors, about)
    file.write_bytes(sealed.pack(tensors, about))
    assert message in says(capsys, *AGAIN, error=True)


# ---- cut commands


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "out"

    def interrupted() -> None:
        with whole_folder(place) as folder:
            (folder / "a").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "deep").iterdir()) == []
    program = (
        "import sys, os; from pathlib import Path; from ccat.files import whole_folder\n"
        "with whole_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'a').write_text('half'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(place)], check=False)
    (left,) = (tmp_path / "deep").iterdir()
    assert left.name.endswith(UNFINISHED)
    other = place.with_name(f".other.somewhere.{os.getpid()}{UNFINISHED}")
    other.mkdir()
    with whole_folder(place) as folder:
        (folder / "a").write_text("whole")
    assert sorted((tmp_path / "deep").iterdir()) == sorted([place, other]), "the dead left nothing"
    assert (place / "a").read_text() == "whole"


# ---- links, and code inside of a run


def test_links_in_a_run_are_neither_followed_nor_written_through(
    here: Path, trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    attack = ["attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1"]
    precious = here / "precious"
    precious.write_text("precious")
    for name in ("lock", "lock.pid"):
        (trained.path / name).unlink(missing_ok=True)
        (trained.path / name).symlink_to(precious)
        if name == "lock":
            assert "lock cannot be locked" in says(capsys, *attack, error=True)
            (trained.path / name).unlink()
        else:
            says(capsys, *attack)
        assert precious.read_text() == "precious"
    (trained.path / "elsewhere").mkdir()
    (trained.path / "attempts").rename(here / "attempts")
    (trained.path / "attempts").symlink_to(here / "precious_folder")
    assert "attempts is a link, and ccat writes inside of a run only" in says(
        capsys, *attack, error=True
    )


def test_code_inside_of_a_run_is_never_imported(
    here: Path, trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extensions, "_trusted", set())
    monkeypatch.setattr(sys, "path", [*sys.path])
    place = Path("stored/tiny")
    shutil.copytree(trained.path, place)
    (place / "payload.py").write_text("raise SystemExit('it ran')")
    Run.open(place)
    extensions.trust_everything()
    with pytest.raises(UntrustedError, match=r"lies inside of the run .* not even with --trust"):
        extensions.resolve("stored.tiny.payload:make")


def test_a_run_of_brackets_does_not_hide_the_others(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs/deep").mkdir()
    Path("runs/deep/run.json").write_text("[" * 100_000)
    said = says(capsys, "runs")
    assert "nested too deeply" in said
    assert "| tiny" in said
    with pytest.raises(RunError, match="nested too deeply"):
        Run.open(Path("runs/deep"))


def test_images_are_what_they_were(mnist_test: Images) -> None:
    assert len(mnist_test) == 10_000, "official data keep their order"
