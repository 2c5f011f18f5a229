"""`ccat verify` finds what was changed, also where the seal was made to fit."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from runs import says
from safetensors.torch import load_file

from ccat import sealed
from ccat.runs import Run

ATTACK = ["attack", "tiny", "--suite", "tiny", "--examples", "100", "--workers", "1"]


@pytest.fixture
def attacked(trained: Run, capsys: pytest.CaptureFixture[str]) -> Path:
    says(capsys, *ATTACK)
    return trained.path


def resealed(
    file: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    tensors, about = sealed.unpack(file.read_bytes())
    file.write_bytes(sealed.pack(change(tensors), about))


def test_a_run_as_it_was_written_is_verified(
    attacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = says(capsys, "verify", "tiny", "--sample", "10")
    assert "every file is as it was written; " in said
    assert int(said.split("written; ")[1].split()[0]) > 20


def test_every_changed_file_is_named(attacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = attacked.with_name("whole")
    shutil.copytree(attacked, whole)
    for file in sorted(whole.rglob("*")):
        name = file.relative_to(whole)
        if file.is_dir() or str(name) in (
            "lock",
            "evaluation.json",
            "headline.json",
            "timings.jsonl",
        ):
            continue
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        (attacked / name).write_bytes(content)
        assert f"{name} is damaged" in says(capsys, "verify", "tiny", error=True), name
        (attacked / name).write_bytes(file.read_bytes())
    assert "every file is as it was written" in says(capsys, "verify", "tiny")


def test_perturbations_that_are_not_allowed_are_refused(
    attacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = attacked.glob("worst/test-Linf-0.2/*/0000.safetensors")
    content = file.read_bytes()
    found = load_file(file)["by"] >= 0
    row = int(found.nonzero()[0])
    export = ["export", "tiny", "--threat", "Linf:0.2", "--out", "x.npz"]

    def further(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors["delta"][row] = 0.25
        return tensors

    def smaller(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return tensors | {"delta": tensors["delta"][..., :5]}

    def unmade(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors["delta"][row] = torch.nan
        return tensors

    for change, message in (
        (further, "are not allowed (a perturbation"),
        (smaller, "are of (100, 1, 28, 5), not of (100, 1, 28, 28)"),
        (unmade, "its perturbations are not finite"),
    ):
        resealed(file, change)
        assert message in says(capsys, *export, error=True)
        assert message in says(capsys, "verify", "tiny", error=True)
        assert not Path("x.npz").exists()
        file.write_bytes(content)
    (file,) = attacked.glob("worst/test-L2-1/*/0000.safetensors")
    resealed(file, lambda tensors: tensors | {"delta": tensors["delta"] * 0.5})
    assert "answers example" in says(capsys, "verify", "tiny", error=True)


def test_files_that_no_run_holds_are_named(
    attacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (attacked / "notes.txt").write_text("mine")
    assert "notes.txt is no file of a run" in says(capsys, "verify", "tiny", error=True)
