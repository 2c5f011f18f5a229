"""Rejection where a small step makes the model unsure, against a minimum that is known.

The answer of a linear model is least sure in a corner of the box, which is known in closed form.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import TINY, says
from torch import Tensor, nn
from truth import Small, seeded

import ccat
from ccat import Condition, Consistency, Frame, Linf, codec, metrics
from ccat.attacks.scores import frozen
from ccat.rejection import CONSISTENCY, Knowable, Rejection
from ccat.rejection.consistency import Consistent
from ccat.runs import Run


def judge(model: nn.Module, x: Tensor, *numbers: Any) -> Consistent:
    (found,) = Consistency(*numbers).load(model, {}, x[:1]).values()
    assert isinstance(found, Consistent)
    return found


def scores(model: nn.Module, x: Tensor, *numbers: Any) -> Tensor:
    with torch.no_grad(), frozen(model):
        given = model(x).softmax(1)
    return judge(model, x, *numbers)(x, given)


class Linear(nn.Module):
    """Two classes on either side of a plane, through the middle of the images."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, generator=seeded(3), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        margin = (x.flatten(1) - 0.5) @ self.weight
        return torch.stack([-margin, margin], 1)


def images(count: int, *shape: int) -> Tensor:
    return torch.rand(count, *shape, generator=seeded(1), dtype=torch.float64)


@pytest.mark.parametrize("epsilon", [0.02, 0.2, 0.7])
def test_on_a_linear_model_the_score_is_the_confidence_in_the_worst_corner(epsilon: float) -> None:
    model, x = Linear(), images(300, 1, 8, 8)
    with torch.no_grad():
        margin = 2 * (x.flatten(1) - 0.5) @ model.weight
        away = -margin.sign()[:, None] * model.weight.sign()
        corner = (x.flatten(1) + epsilon * away).clamp(0, 1)
        least = margin.sign() * (2 * (corner - 0.5) @ model.weight)
    expected = -np.logaddexp(0, -least.numpy())
    found = scores(model, x, epsilon, 4)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)
    assert (np.abs(expected) > 1e-6).sum() > 200, "most of them are no trivial zeros"
    short = scores(model, x, epsilon, 2)
    assert (short > found + 1e-9).all(), "two steps of ε/4 do not reach the corner"


def test_the_score_falls_with_the_ball_and_with_every_step() -> None:
    model, x = Small(3, 4), images(60, 3, 8, 8)
    with torch.no_grad(), frozen(model):
        last = model(x).log_softmax(1).amax(1)
    for epsilon in (1e-9, 0.01, 0.05, 0.2):
        found = scores(model, x, epsilon, 20)
        assert (found <= last + 1e-9).all()
        last = found
    for iterations in range(1, 12):
        more = scores(model, x, 0.2, iterations, 0.6)
        assert (more <= last + 1e-12).all() or iterations == 1
        last = more


def test_no_point_of_a_fine_grid_is_less_sure() -> None:
    """An independent search, by brute force over two entries of which the answer depends."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    g = seeded(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=g, dtype=torch.float64))
    x = images(20, 1, 1, 2)
    steps = torch.linspace(-0.1, 0.1, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(steps, steps).reshape(-1, 1, 1, 1, 2)
    with torch.no_grad():
        answers = model(x).argmax(1)
        around = (x + grid).clamp(0, 1)
        sure = model(around.flatten(0, 1)).log_softmax(1).unflatten(0, around.shape[:2])
    least = sure[:, torch.arange(20), answers].amin(0)
    torch.testing.assert_close(scores(model, x, 0.1, 40, 0.05), least, rtol=0, atol=3e-4)
    assert (sure.amax(2).amax(0) - least).median() > 3e-3


def test_the_gradient_is_that_of_the_minimum() -> None:
    """Central differences of the whole score; some entries are held by the box, not by the ball.

    The first image is left out: one of its entries has its minimum between its bounds, where steps
    of a fixed length do not settle.
    """
    model, x = Small(3, 4), images(5, 3, 8, 8)[1:]
    x[:, :, 2] = 0.004
    x[:, :, 5] = 0.993
    knowing = judge(model, x, 0.01, 6)
    at = x.clone().requires_grad_()
    score, logits = knowing.raw(at)
    (gradient,) = torch.autograd.grad(score.sum(), at)
    with frozen(model):
        torch.testing.assert_close(logits, model(x))
    torch.testing.assert_close(score, knowing(x, logits.softmax(1)))
    steps = 1e-6 * torch.eye(192, dtype=torch.float64).view(192, 1, 3, 8, 8)
    with torch.no_grad():
        up, down = (knowing.raw((x + side * steps).flatten(0, 1))[0] for side in (1, -1))
    numbers = ((up - down) / 2e-6).view(192, 4).T
    torch.testing.assert_close(gradient.flatten(1), numbers, rtol=1e-5, atol=1e-7)
    held = gradient[:, :, [2, 5]] == 0
    assert 0.1 < held.double().mean() < 0.9


def test_batches_devices_and_modes_change_nothing() -> None:
    model, x = Small(3, 4).train(), images(300, 3, 8, 8)
    whole = scores(model, x, 0.1, 5)
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    parts = torch.cat([scores(model, part, 0.1, 5) for part in torch.split(x, 70)])
    torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-12)
    assert torch.equal(scores(model, x, 0.1, 5), whole), "nothing is left to chance"
    assert len(judge(model, x)(x[:0], torch.zeros(0, 4))) == 0


def test_a_model_that_is_surer_than_floats_can_tell_is_still_doubted() -> None:
    """Its softmax has no gradient, its logits do."""
    model, x = Linear().float(), images(50, 1, 8, 8).float()
    with torch.no_grad():
        model.weight.mul_(300)
        margin = (2 * (x.flatten(1) - 0.5) @ model.weight).abs()
    sure = x[(margin > 200) & (margin < 600)]
    assert len(sure) > 5
    assert (scores(model, sure, 0.1, 4) < -100).any()


def test_one_judge_of_its_own_for_all_conditions() -> None:
    rejection = Consistency()
    assert rejection.judges([]) == (CONSISTENCY,) != (ccat.rejection.CONFIDENCE,)
    for condition in (Condition(Linf(0.3)), Condition(Frame(2)), Condition(Linf(0.3), "noise")):
        assert rejection.judge_of(condition, []) == CONSISTENCY
        assert rejection.judges_of(condition, []) == (CONSISTENCY,)
    assert rejection.to_fit([Linf(0.3)], [], grey=True) == []
    assert rejection.from_probabilities(torch.ones(2, 2)) is None
    assert (rejection.title, rejection.shared) == ("consistency 0.1", True)
    assert isinstance(judge(Linear(), images(1, 1, 8, 8)), Knowable)
    assert codec.decode(codec.encode(Consistency(0.1, 3, 0.5)), Rejection) == Consistency(
        0.1, 3, 0.5
    )
    raw = np.array([-3.0, -0.5, 0.0])
    scaled = rejection.scaled(raw, metrics.Outcome(np.zeros(3, dtype=bool), raw))
    np.testing.assert_allclose(np.log(scaled), raw)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0.0,), "Consistency: epsilon must be a number above 0 and at most 1, not 0.0"),
        ((1.5,), "Consistency: epsilon must be"),
        ((float("nan"),), "Consistency: epsilon must be"),
        ((True,), "Consistency: epsilon must be"),
        ((0.1, 0), "Consistency: iterations must be a whole number of at least 1, not 0"),
        ((0.1, 2.5), "Consistency: iterations must be"),
        ((0.1, 5, 0.0), "Consistency: rate must be a number above 0"),
        ((0.1, 5, float("inf")), "Consistency: rate must be"),
    ],
)
def test_bad_numbers_are_refused(numbers: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Consistency(*numbers)


def test_evaluate_adds_attacks_that_know_it() -> None:
    model, x = Small(3, 4).eval(), images(60, 3, 8, 8)
    with torch.no_grad():
        y = model(x).argmax(1)
    options: dict[str, Any] = {"threats": Linf(0.1), "suite": "demo", "examples": 5, "tpr": 0.9}
    result = ccat.evaluate(model, x, y, rejection=Consistency(0.05, 3), **options)
    assert {attempt.aware for attempt in result.outcomes.attempts} == {False, True}
    assert result.outcomes.judge == CONSISTENCY
    right = np.exp(scores(model, x[-30:], 0.05, 3).numpy())
    calibration = metrics.Outcome(np.zeros(30, dtype=bool), right)
    assert result.evaluation.tau == pytest.approx(metrics.threshold(calibration, 0.9))
    with pytest.raises(ValueError, match="a certificate bounds the confidence"):
        ccat.evaluate(model, x, y, rejection=Consistency(), certify="interval", **options)


@pytest.mark.filterwarnings("default:.*calibration images support a TPR")
def test_a_run_that_rejects_by_consistency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    says(capsys, "train", *TINY, "--epochs", "1", "--run", "runs/tiny")
    detect = ["detect", "tiny", "--detector"]
    few = ["--iterations", "2", "--suite", "demo", "--threat", "Linf:0.3", "--only", "*apgd*"]
    few += ["--examples", "5", "--workers", "1"]
    for given, message in (
        (["consistency", "--known", "5"], "--known is no option of --detector consistency"),
        (["lid", "--epsilon", "0.1"], "--epsilon is no option of --detector lid"),
        (["consistency", "--epsilon", "2"], "Consistency: epsilon must be"),
    ):
        assert message in says(capsys, *detect, *given, error=True)
    assert not list(Path("runs").glob("tiny-*"))
    says(capsys, *detect, "consistency", "--epsilon", "0.2", *few)
    run = Run.open(Path("runs/tiny-consistency"))
    assert run.rejection == Consistency(0.2, 2)
    assert "0 blocks computed" in says(capsys, *detect, "consistency", "--epsilon", "0.2", *few)
    shown = says(capsys, "evaluate", "tiny-consistency", "--tau", "0.1")
    assert "tiny-consistency, unaware" in shown
    assert "consistency 0.2" in says(capsys, "show", "tiny-consistency")
    says(capsys, "verify", "tiny-consistency")
    loaded = ccat.load("runs/tiny-consistency", tpr=0.9)
    assert set(loaded.predict(torch.rand(3, 1, 28, 28))) <= set(range(-1, 10))
