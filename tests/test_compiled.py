"""Compiled passes, and gradients in bfloat16: faster, and attacks find the same.

Graphs are made here without a C++ compiler, by the backend "aot_eager"; benchmarks/compile.py uses
the real one.
"""

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from truth import seeded

from ccat import PGD, Case, Linf, evaluate, other_class_confidence
from ccat.attacking import Target, copies
from ccat.attacking.block import attack_block, pose
from ccat.attacking.copies import Copies, Fast, decide
from ccat.attacks.smooth import smoothed
from ccat.cli import main
from ccat.models import attack_copy, compiled
from ccat.models.compiled import CannotCompileError, Compiled, Timing
from ccat.models.half_gradients import HalfGradients
from ccat.runs import Run

FASTER, SLOWER = Timing(1.0, 0.5, 0.2), Timing(1.0, 1.1, 0.2)
CASE = Case("Conf", Linf(0.1), PGD(5, 0.05), other_class_confidence)


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    )
    for weight in model.parameters():
        nn.init.uniform_(weight, -0.5, 0.5, generator=seeded(1))
    return model.to(dtype).eval()


def images(count: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=seeded(2), dtype=dtype)


def gradient(model: nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(model(x).square().sum(), x)
    return found


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Compile without a C++ compiler to passes that seem fast; yields what was compiled."""
    made: list[str] = []
    real = torch.compile

    def compile_eagerly(function: Any, **options: Any) -> Any:
        made.append(function.__name__)
        assert options.pop("mode") is None
        return real(function, backend="aot_eager", **options)

    monkeypatch.setattr(torch, "compile", compile_eagerly)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(compiled, "_timing", lambda *_, **__: FASTER)
    yield made
    torch._dynamo.reset()


def test_padding_begins_where_it_is_faster_than_an_eager_pass() -> None:
    assert Timing(1.0, 0.5, 0.0).least(101) == 51
    assert Timing(1.0, 0.5, 0.5).least(100) == 1  # one image takes as long as the compiled hundred
    assert Timing(1.0, 1.0, 0.1).least(100) == 100
    assert Timing(1.0, 2.0, 0.1).least(100) == 100


def test_any_number_of_images_gets_the_same_answers_and_gradients(graphs: list[str]) -> None:
    eager = attack_copy(network(), images(2))
    fast = Compiled(eager, images(10))
    used: list[int] = []
    graph = fast._graph
    fast._graph = lambda x: used.append(len(x)) or graph(x)  # type: ignore[func-returns-value]
    for count in (10, 9, 4, 3, 1, 11):  # from 4 on, a padded pass is faster
        x = images(count)
        torch.testing.assert_close(fast(x), eager(x), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient(fast, x), gradient(eager, x), rtol=1e-12, atol=1e-12)
    assert used == [10] * 6
    other = images(10, torch.float32)
    assert fast.float()(other).dtype == torch.float32  # compiled for float64 only
    assert used == [10] * 6
    assert graphs == ["answer"]


def test_smooth_gradients_are_those_of_the_eager_copy(graphs: list[str]) -> None:
    eager = attack_copy(network(), images(2))
    fast, half = Compiled(eager, images(6)), HalfGradients(eager)
    plain = gradient(eager, images(6))
    with smoothed(0.5):
        expected = gradient(eager, images(6))
        assert gradient(fast, images(6)).equal(expected)
        assert gradient(half, images(6)).equal(expected)
    assert not expected.allclose(plain)
    torch.testing.assert_close(gradient(fast, images(6)), plain, rtol=1e-12, atol=1e-12)


def test_an_attack_on_the_compiled_copy_finds_the_same(graphs: list[str]) -> None:
    model, x, y = network(), images(10), torch.arange(10) % 3
    made = Copies(Fast(compiled=True), batch=10)
    for resting in ((), (1, 5), range(8)):
        plain, delta = attack_block(Target(model), CASE, x, y, seeded(), resting)
        target = Target(model, batch=10, copied=made)
        block, same = attack_block(target, CASE, x, y, seeded(), resting)
        torch.testing.assert_close(same, delta, rtol=0, atol=1e-9)
        assert (block.forwards, block.backwards) == (plain.forwards, plain.backwards)
    assert graphs == ["answer"]  # once for all blocks
    assert isinstance(made(model, x), Compiled)
    outside = pose(target, CASE, x, y).model
    assert not isinstance(outside, Compiled)  # attacks of others get what PyTorch differentiates


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        logits = x.flatten(1)[:, :3]
        return 2 * logits if logits.sum() > 0 else logits


def test_what_cannot_be_compiled_is_attacked_all_the_same(graphs: list[str]) -> None:
    x = images(4)
    with pytest.raises(CannotCompileError, match="PyTorch cannot compile this model: "):
        Compiled(Branching(), x)
    made = Copies(Fast(compiled=True), batch=4)
    with pytest.warns(UserWarning, match="attacks go on without compiled passes"):
        assert not isinstance(made(Branching(), x), Compiled)
    assert not isinstance(made(Branching(), x), Compiled)  # and says so once
    with pytest.raises(CannotCompileError, match="not on mps"):
        compiled._graph_of(Branching(), torch.device("mps"))


def test_a_graph_that_answers_differently_is_refused(
    graphs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda x: function(x) * 1.01)
    with pytest.raises(CannotCompileError, match="answers differently"):
        Compiled(network(), images(4))


def test_auto_compiles_what_may_pay_and_uses_what_is_faster(
    graphs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = network(), images(4)
    asked = partial(decide, model=model, x=x, cases=[(CASE, 3)])
    assert asked("off", Copies(Fast(compiled=True), 4)) == (False, "")
    assert asked("auto", Copies(Fast(compiled=True), 4)) == (False, "")  # takes milliseconds
    assert not graphs
    monkeypatch.setattr(copies, "copy_seconds", lambda *_: 3000.0)
    assert asked("auto", Copies(Fast(compiled=True), 4)) == (
        True,
        "a compiled pass takes 0.50 of the time of an eager one",
    )
    assert asked("auto", Copies(Fast(compiled=True), 4), processes=2) == (False, "")
    monkeypatch.setattr(compiled, "_timing", lambda *_, **__: SLOWER)
    assert asked("auto", Copies(Fast(compiled=True), 4)) == (
        False,
        "a compiled pass takes 1.10 of the time of an eager one; attacks go on without compiled "
        "passes",
    )
    assert asked("on", Copies(Fast(compiled=True), 4)).compiled


@pytest.mark.filterwarnings("default:compiling passes needs")
def test_without_a_compiler_a_sentence_says_so_and_attacks_go_on(
    trained: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "c++-nowhere")
    command = ["attack", "tiny", "--suite", "tiny", "--only", "CE", "--no-check"]
    command += ["--examples", "100", "--workers", "1", "--compile", "on"]
    capsys.readouterr()
    main(command)
    told = capsys.readouterr()
    assert "1 blocks computed" in told.out
    assert re.search(r"c\+\+-nowhere was not found: .*; attacks go on without", told.err)


def test_bfloat16_gradients_lead_to_nearly_the_same_confidences() -> None:
    model, x, y = network(torch.float32), images(50, torch.float32), torch.arange(50) % 3
    half = HalfGradients(attack_copy(model, x))
    assert half(x.clone().requires_grad_()).equal(half.eager(x))  # scores are float32's
    rough, exact = gradient(half, x), gradient(half.eager, x)
    assert not rough.equal(exact)
    assert torch.cosine_similarity(rough.flatten(1), exact.flatten(1)).min() > 0.98
    found = [
        attack_block(Target(model, copied=copied), CASE, x, y, seeded())[0].value.exp()
        for copied in (attack_copy, Copies(Fast(gradients="bfloat16")))
    ]
    torch.testing.assert_close(*found, rtol=0, atol=0.01)


def test_bfloat16_is_for_gpus_and_other_words_are_refused() -> None:
    about = (network(torch.float32), images(40, torch.float32), torch.arange(40) % 3)
    with pytest.raises(ValueError, match="bfloat16 are for cuda devices, and this is cpu"):
        evaluate(*about, gradients="bfloat16")
    with pytest.raises(ValueError, match="compiled must be one of auto, on, off, not True"):
        evaluate(*about, compiled=True)  # type: ignore[arg-type]
