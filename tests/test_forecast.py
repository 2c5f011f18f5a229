"""What an attack will cost is said before it runs, and memory decides how much runs at once."""

import re
import shutil

import pytest
import torch
from runs import says

from ccat import memory
from ccat.attacking.forecast import _kept_bytes, fitting_batch
from ccat.models import attack_copy
from ccat.runs import Run

ATTACK = ("attack", "tiny", "--suite", "tiny")


def test_a_dry_run_says_what_each_case_costs_and_writes_nothing(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")}
    command = [*ATTACK, "--examples", "200", "--workers", "2"]
    text = says(capsys, *command, "--dry-run")
    assert {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")} == before
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ][2:]
    assert [row[:4] for row in cells] == [
        ["Linf:0.1 Conf", "4", "1,200", "800"],
        ["Linf:0.2 Conf", "2", "600", "400"],
        ["L2:1 CE", "2", "600", "400"],
        ["Frame:2 Conf", "2", "600", "400"],
        ["distal Linf:0.1 distal", "2", "600", "400"],
    ]
    assert all(re.fullmatch(r"\d+ s", row[4]) for row in cells)
    assert re.search(
        r"All: \d+ s on one process, about \d+ s on 2; .* 100 images at once. Nothing was attacked",
        text,
    )
    says(capsys, *command[:-1], "1")
    done = says(capsys, *command, "--dry-run", "--batch", "7")
    assert re.search(r"\| L2:1 CE +\| +0 \| +0 \| +0 \| +0 s \|", done)
    assert "7 images at once" in done


def test_few_images_at_once_find_the_same(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*ATTACK, "--examples", "100", "--workers", "1"]
    says(capsys, *command)
    found = {stored.record: stored.blocks for stored in trained.attempts.all()}
    shutil.rmtree(trained.path / "attempts")
    says(capsys, *command, "--batch", "33")
    again = {stored.record: stored.blocks for stored in trained.attempts.all()}
    assert again.keys() == found.keys()
    for record, (block,) in again.items():
        (before,) = found[record]
        torch.testing.assert_close(block.probabilities, before.probabilities, atol=1e-4, rtol=0)
        assert (block.forwards, block.backwards) == (before.forwards, before.backwards)


def test_memory_decides_how_many_images_go_through_at_once(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = trained.training.model(), torch.rand(1, 1, 28, 28)
    assert fitting_batch(model, x, "cpu", 1) == 100
    fast = attack_copy(model, x)
    kept = _kept_bytes(fast, x, 2) - _kept_bytes(fast, x, 1)
    rectified = 4 * (16 * 14 * 14 + 32 * 7 * 7 + 64 * 4 * 4)
    assert rectified <= kept < 2 * rectified, "what rectifiers keep"
    monkeypatch.setattr(memory, "free", lambda device: 2 * 2 * 10 * (2 * kept + 10 * 4 * 28 * 28))
    assert fitting_batch(model, x, "cpu", 2) == 10
    monkeypatch.setattr(memory, "free", lambda device: 1000.0)
    assert fitting_batch(model, x, "cpu", 2) == 1
    shown = says(capsys, *ATTACK, "--examples", "200", "--workers", "1", "--dry-run")
    assert re.search(r"\b1 images at once", shown)
