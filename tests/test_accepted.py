"""Everyone's attacks, made aware of rejection: the reduction to two classes, and what it finds."""

import math

import pytest
import torch
from digits import reader
from torch import Tensor, nn
from truth import seeded

import ccat
from ccat import PGD, EveryTarget, Images, Linf, Problem, accepted_as, metrics
from ccat.attacks.accepted import CountedModel
from ccat.attacks.passes import Counts
from ccat.objectives import any_class_confidence, other_class_confidence


class Logits(nn.Module):
    """The images are the logits."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


@pytest.mark.parametrize("tau", [None, 0.2, 0.5, 0.9])
def test_class_one_wins_just_where_the_target_is_accepted(tau: float | None) -> None:
    z = 3 * torch.randn(5000, 1, 1, 4, generator=seeded(), dtype=torch.float64)
    probabilities = z.flatten(1).softmax(1)
    outcome = metrics.outcome(probabilities, torch.zeros(5000, dtype=torch.int64))
    for target in range(4):
        expected = (probabilities.argmax(1) == target) & (
            torch.from_numpy(outcome.score) >= (tau or 0.0)
        )
        for classes in (2, 10):
            given = accepted_as(Logits(), target, tau, classes)(z)
            assert given.shape == (5000, classes)
            assert given.argmax(1).eq(1).equal(expected)
            assert given.argmax(1).le(1).all(), "further classes never win"
    assert expected.any()


def test_further_classes_move_with_the_target() -> None:
    z = torch.randn(3, 1, 1, 4, generator=seeded()).requires_grad_()
    given = accepted_as(Logits(), 2, 0.9, 10)(z)
    gradients = [torch.autograd.grad(given[:, k].sum(), z, retain_graph=True)[0] for k in (1, 5, 9)]
    assert gradients[0].equal(gradients[1])
    assert gradients[0].equal(gradients[2])
    assert gradients[0].any()


def test_what_is_no_target_threshold_or_model_is_said() -> None:
    arguments: list[tuple[int, float | None, int, str]] = [
        (-1, None, 2, "number of a class"),
        (0, 1.0, 2, "tau"),
        (0, 0.5, 1, "at least 2"),
    ]
    for target, tau, classes, message in arguments:
        with pytest.raises(ValueError, match=message):
            accepted_as(Logits(), target, tau, classes)
    with pytest.raises(ValueError, match=r"nn\.Module"):
        accepted_as(len, 0)  # type: ignore[arg-type]
    x = torch.rand(2, 1, 2, 2)
    with pytest.raises(ValueError, match="needs a problem with a model"):
        EveryTarget(PGD(1, 0.1))(Problem(x, Linf(0.1), lambda x, rows: x.sum((1, 2, 3))), seeded())


def test_passes_are_counted() -> None:
    counts = Counts()
    model = CountedModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), counts)
    x = torch.rand(5, 1, 2, 2, requires_grad=True)
    torch.autograd.grad(model(x).sum(), x)
    with torch.no_grad():
        model(x[:3])
    assert (counts.forwards, counts.backwards) == (8, 5)


@pytest.fixture(scope="module")
def problem(mnist_train: Images, mnist_test: Images) -> Problem:
    x, y = mnist_test[:12].floats(), mnist_test[:12].y
    pool = mnist_train[:300]
    return Problem.of(
        reader(), x, y, Linf(0.15), other_class_confidence, pool.floats(), None, pool.y
    )


def accepted(problem: Problem, delta: Tensor, tau: float) -> int:
    assert problem.model is not None
    assert problem.labels is not None
    with torch.no_grad():
        given = problem.model(problem.x + delta).softmax(1)
    return int(((given.argmax(1) != problem.labels) & (given.amax(1) >= tau)).sum())


def test_an_attack_that_is_content_with_any_error_finds_accepted_ones(problem: Problem) -> None:
    tau = 0.9
    autoattack = ccat.AutoAttack("custom", (("attacks", ("apgd-ce",)),))
    pytest.importorskip("pyautoattack")
    plain = autoattack(problem, seeded())
    before = problem.counts.forwards
    aware = EveryTarget(autoattack, tau)(problem, seeded())
    assert problem.counts.forwards > before + 100
    assert accepted(problem, aware.delta, tau) >= accepted(problem, plain.delta, tau)
    assert accepted(problem, aware.delta, tau) >= 8
    assert (problem.threat.size(aware.delta) <= 0.15 + 1e-6).all()


def test_foolbox_starts_from_accepted_images(problem: Problem) -> None:
    foolbox = pytest.importorskip("foolbox")
    attack = foolbox.attacks.HopSkipJumpAttack(
        steps=2, max_gradient_eval_steps=20, initial_gradient_eval_steps=10
    )
    named = EveryTarget(ccat.Foolbox(attack, from_pool=True), 0.5)
    assert named.name == "foolbox HopSkipJumpAttack, every target"
    found = named(problem, seeded())
    assert found.value.isfinite().all()
    assert (problem.threat.size(found.delta) <= 0.15 + 1e-6).all()


def test_on_noise_every_class_is_a_target_and_our_attacks_run_too(mnist_train: Images) -> None:
    noise = torch.rand(4, 1, 28, 28, generator=seeded())
    y = torch.zeros(4, dtype=torch.int64)
    problem = Problem.of(reader(), noise, y, Linf(0.3), any_class_confidence)
    found = EveryTarget(PGD(40, 0.05), 0.99)(problem, seeded())
    assert found.value.exp().min() > 0.9
    assert math.isfinite(found.value.sum())


def test_an_attack_that_asks_for_more_classes_or_gradients_says_so(problem: Problem) -> None:
    pytest.importorskip("pyautoattack")
    targeted = ccat.AutoAttack("custom", (("attacks", ("apgd-t",)),))
    with pytest.raises(ValueError, match=r"failed with IndexError.*does it ask for more classes"):
        EveryTarget(targeted, 0.9)(problem, seeded())
    found = EveryTarget(targeted, 0.9, classes=10)(problem, seeded())
    assert found.value.isfinite().all()

    def blind(images: Tensor, labels: Tensor) -> Tensor:
        return torch.autograd.grad(images.sum(), images)[0]

    with pytest.raises(ValueError, match=r"blind failed with RuntimeError.*gradients"):
        ccat.External("blind", blind)(problem, seeded())
