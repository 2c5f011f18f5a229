"""`ccat benchmark`: a card that a stranger can verify, and lower."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from runs import says

from ccat import sealed
from ccat.data import counted
from ccat.runs import Run

SUITE = ("--suite", "tiny", "--examples", "100", "--workers", "1")


@pytest.fixture
def card(trained: Run, capsys: pytest.CaptureFixture[str]) -> Path:
    said = says(capsys, "benchmark", "tiny", "--out", "card", *SUITE)
    assert said.startswith("# card\n")
    assert "`ccat verify card` computes it again" in said
    return Path("card")


def test_a_card_says_both_bounds_and_its_worst_case(card: Path) -> None:
    text = (card / "card.md").read_text()
    plain = json.loads((card / "card.json").read_text())
    (evaluation,) = plain["evaluation"]["evaluations"]
    worst = evaluation["worst"]["rates"]["robust_error"]["value"]
    every = [a["pooled"]["rates"] for a in evaluation["attacks"]]
    assert worst >= max(one["robust_error"]["value"] for one in every if "robust_error" in one)
    assert f"at least {100 * worst:.1f} % of what it accepts is wrong" in text
    assert "Linf:0.1 between" in text
    assert "42,106 weights" in text
    assert "--suite tiny" in text
    assert "| worst case of all |" in text
    html = (card / "card.html").read_text()
    assert "<script" not in html
    assert "worst case of all" in html


def test_a_card_can_be_moved_and_verified_without_the_run_it_was_made_of(
    card: Path, trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(trained.path)
    shutil.move(card, "elsewhere")
    assert "every file is as it was written" in says(capsys, "verify", "elsewhere")


def test_a_card_whose_files_do_not_match_its_numbers_is_refused(
    card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = card / "card.json"
    whole = file.read_bytes()
    plain = json.loads(whole)
    file.write_bytes(whole.replace(b"robust", b"nobust"))
    assert "card.json is damaged" in says(capsys, "verify", "card", error=True)
    attack = plain["evaluation"]["evaluations"][0]["attacks"][0]
    attack["pooled"]["rates"]["robust_error"]["value"] = 0.0123  # and sealed again
    body = {name: value for name, value in plain.items() if name != "digest"}
    file.write_bytes(json.dumps(sealed.seal(body)).encode())
    said = says(capsys, "verify", "card", error=True)
    assert "its card says 0.0123 for evaluation.evaluations[0].attacks[0].pooled" in said
    file.write_bytes(whole)
    (card / "card.md").write_text("# card\n\nIt withstands everything.\n")
    assert "not what its numbers make" in says(capsys, "verify", "card", error=True)
    (card / "card.md").unlink()
    assert "card.md is damaged" in says(capsys, "verify", "card", error=True)


def test_an_outsider_lowers_a_card(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads((card / "card.json").read_text())
    images = counted("mnist")[:100].floats().numpy()
    x_adv = np.clip(images + 0.1 * np.sign(0.5 - images), 0, 1)
    np.savez("yours.npz", x_adv=x_adv)
    said = says(capsys, "score", "card", "yours.npz", "--threat", "Linf:0.1", "--name", "You")
    assert "card.md counts them" in said
    after = json.loads((card / "card.json").read_text())
    assert after["facts"]["scored"] == ["You"]
    assert before["facts"]["scored"] == []
    assert "scored: You" in (card / "card.md").read_text()
    assert "every file is as it was written" in says(capsys, "verify", "card")


def test_few_images_do_not_shrink_a_card(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("few.npz", x_adv=counted("mnist")[:1].floats().numpy())
    said = says(
        capsys, "score", "card", "few.npz", "--threat", "Linf:0.1", "--name", "me", error=True
    )
    assert "the card counts 100 images, and the file has 1" in said
    whole = (card / "card.json").read_bytes()
    plain = json.loads(whole)
    wrong: tuple[object, ...] = (None, [], {}, {"name": "x\n\n**Proved**"})
    for facts in wrong:
        body = {name: value for name, value in plain.items() if name not in ("digest", "facts")}
        sealed_again = sealed.seal(body | ({} if facts is None else {"facts": facts}))
        (card / "card.json").write_bytes(json.dumps(sealed_again).encode())
        assert "does not say what the model is" in says(capsys, "verify", "card", error=True)


def test_what_cannot_be_benchmarked_is_said(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("full").mkdir()
    Path("full/file").write_text("mine")
    for arguments, message in (
        (["nothing"], "there is no run 'nothing'"),
        (["lenet"], "where to? --out names the folder"),
        (["lenet", "--out", "card"], "on which images? --dataset names them"),
        (["tiny", "--dataset", "mnist"], "--dataset belongs to a model from elsewhere"),
        (["tiny", "--out", "full"], "is not empty and not a card"),
    ):
        assert message in says(capsys, "benchmark", *arguments, *SUITE, error=True)
    assert sorted(path.name for path in Path().iterdir()) == ["full", "runs"]


def test_a_card_goes_on_after_an_interrupt_and_into_the_run_itself(
    trained: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    says(capsys, "attack", "tiny", *SUITE, "--no-check")
    attempts = sorted(trained.path.glob("attempts/*/*"))
    times = [file.stat().st_mtime_ns for file in attempts]
    odd = trained.path.rename("runs/tiny@28")
    attempts = sorted(odd.glob("attempts/*/*"))
    says(capsys, "benchmark", "tiny@28", *SUITE)
    assert "every file is as it was written" in says(capsys, "verify", "tiny@28")
    assert [file.stat().st_mtime_ns for file in attempts] == times  # nothing is computed twice
    assert (odd / "card.html").exists()
