"""`ccat.attack`: adversarial images in one call, on models whose worst perturbation is known."""

import math

import pytest
import torch
from digits import reader
from torch import Tensor, nn
from truth import Linear, Small, best_linear, seeded

import ccat
from ccat import PGD, Case, Images, Linf, Problem, Threat, other_class_confidence

THREATS: list[Threat] = [Linf(0.1), ccat.L2(0.5), ccat.L1(2.0), ccat.L0(4), ccat.Frame(1)]


def linear(seed: int = 1) -> tuple[Linear, Tensor, Tensor]:
    """A linear model and images that it says are of class 0."""
    model = Linear(torch.randn(1, 6, 6, generator=seeded(seed), dtype=torch.float64))
    x = torch.rand(40, 1, 6, 6, generator=seeded(2), dtype=torch.float64)
    x = x[model(x).argmax(1) == 0]
    return model, x, torch.zeros(len(x), dtype=torch.int64)


def margins(model: Linear, x: Tensor) -> Tensor:
    return (x * model.weight.detach()).flatten(1).sum(1)


def fooled(model: nn.Module, x: Tensor, y: Tensor, tau: float = 0.0) -> Tensor:
    """Whether each answer is wrong with a confidence of τ."""
    with torch.no_grad():
        given: Tensor = model(x).softmax(1)
    confidence, answer = given.max(1)
    return (answer != y) & (confidence >= tau)


@pytest.mark.parametrize("threat", THREATS, ids=ccat.threats.label)
def test_images_lie_within_the_threat_and_the_box(threat: Threat) -> None:
    model = Small(1, 4).train()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.rand(12, 1, 8, 8, generator=seeded(1), dtype=torch.float64)
    x[0], x[1] = 0, 1
    y = torch.arange(12) % 4
    x_adv = ccat.attack(model, x, y, threat, iterations=8)
    assert x_adv.shape == x.shape
    assert x_adv.dtype == x.dtype
    assert not x_adv.requires_grad
    assert ((x_adv >= 0) & (x_adv <= 1)).all()
    assert (threat.size(x_adv - x) <= threat.epsilon * (1 + 1e-6)).all()
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert all(weight.grad is None for weight in model.parameters())
    assert all(value.equal(weights[name]) for name, value in model.state_dict().items())
    model.eval()
    with torch.no_grad():
        before, after = (other_class_confidence(model(images), y) for images in (x, x_adv))
    assert (after >= before - 1e-6).all()
    assert after.mean() > before.mean()


@pytest.mark.parametrize("threat", THREATS[:4], ids=ccat.threats.label)
def test_on_a_linear_model_it_finds_what_pgd_finds_and_the_optimum(threat: Threat) -> None:
    model, x, y = linear()
    x_adv = ccat.attack(model, x, y, threat)
    gained = margins(model, x_adv) - margins(model, x)
    kind = ccat.threats.label(threat).partition(":")[0]
    most = best_linear(kind, threat.epsilon, x, model.weight.detach())
    assert (gained <= most * (1 + 1e-6)).all()
    assert (gained >= 0.99 * most).all()
    problem = Problem.of(model, x, y, threat, other_class_confidence)
    rate = 2500.0 if kind == "L0" else threat.epsilon / 10
    found = problem.images(PGD(100, rate)(problem, seeded()))
    assert (gained >= margins(model, found) - margins(model, x) - 1e-3 * most).all()


def test_the_result_depends_on_nothing_but_what_is_given() -> None:
    model = Small(1, 4).eval()
    x = torch.rand(6, 1, 8, 8, generator=seeded(1), dtype=torch.float64)
    y = torch.arange(6) % 4
    one = ccat.attack(model, x, y, Linf(0.1), iterations=5)
    torch.rand(3)
    assert ccat.attack(model, x, y.int(), Linf(0.1), iterations=5).equal(one)
    again = ccat.attack(model, x, y, Linf(0.1), iterations=5, generator=seeded(0))
    assert again.equal(one)
    pool = torch.rand(4, 1, 8, 8, generator=seeded(5), dtype=torch.float64)
    other = ccat.attack(model, x, y, Linf(0.1), iterations=5, pool=pool, generator=seeded(9))
    assert not other.equal(one)


def test_more_images_than_a_block_holds() -> None:
    model, x, y = linear()
    x, y = x[:1].expand(130, -1, -1, -1), y[:1].expand(130)
    x_adv = ccat.attack(model, x, y, Linf(0.1), iterations=20)
    assert len(x_adv) == 130
    gained = margins(model, x_adv) - margins(model, x)
    assert (gained >= 0.99 * best_linear("Linf", 0.1, x[:1], model.weight.detach())).all()


class Counting(nn.Module):
    """Passes images on, and counts how many."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.passed = model, [0]

    def forward(self, x: Tensor) -> Tensor:
        self.passed[0] += len(x)
        logits: Tensor = self.model(x)
        return logits

    def __deepcopy__(self, _: object) -> "Counting":
        return self


def test_with_tau_it_stops_at_a_wrong_answer_of_that_confidence() -> None:
    """Where it is out of reach the result is the same as without."""
    model, x, y = linear()
    counting = Counting(model)
    strongest = ccat.attack(counting, x, y, Linf(0.2), iterations=10)
    passes = counting.passed[0]
    reach = margins(model, strongest).sigmoid()
    assert (reach > 0.6).any()
    counting.passed[0] = 0
    for tau in (0.0, 0.6, 0.9):
        content = ccat.attack(counting, x, y, Linf(0.2), tau=tau, iterations=10)
        possible = fooled(model, strongest, y, tau)
        assert fooled(model, content, y, tau)[possible].all()
        assert (Linf(0.2).size(content - x) <= 0.2 + 1e-9).all()
    counting.passed[0] = 0
    easy = x[fooled(model, strongest, y, 0.6)]
    content = ccat.attack(counting, easy, y[: len(easy)], Linf(0.2), tau=0.6, iterations=10)
    assert counting.passed[0] < passes / 4, "attacks that come later have nothing to do"
    never = ccat.attack(model, x, y, Linf(0.2), tau=1.0, iterations=10)
    assert never.equal(ccat.attack(model, x, y, Linf(0.2), iterations=10))


def test_with_tau_an_image_that_is_wrong_already_is_left_alone() -> None:
    model, x, y = linear()
    wrong = 1 - y
    confidence = model(x).softmax(1)[:, 0].detach()
    tau = confidence.median().item()
    x_adv = ccat.attack(model, x, wrong, Linf(0.1), tau=tau, iterations=5)
    left = confidence >= tau
    assert x_adv[left].equal(x[left])
    assert (x_adv != x)[~left].flatten(1).any(1).all()
    moved = ccat.attack(model, x, wrong, Linf(0.1), iterations=5)
    assert (moved != x).flatten(1).any(1).all(), "without τ the strongest is wanted"


def test_digits_are_attacked_as_by_an_evaluation(mnist_test: Images) -> None:
    model, images = reader(), mnist_test[:20]
    x, y = images.floats(), images.y
    calibration = (mnist_test[-300:].floats(), mnist_test[-300:].y)
    x_adv = ccat.attack(model, x, y, Linf(0.1), iterations=20)
    suite = [Case(f"PGD {rate}", Linf(0.1), PGD(20, rate)) for rate in (0.01, 0.03)]
    result = ccat.evaluate(model, x, y, calibration=calibration, suite=suite)
    for tau in (0.0, result.evaluation.tau):
        by_suite = fooled(model, result.adversarial["Linf:0.1"], y, tau)
        by_call = fooled(model, x_adv, y, tau)
        assert by_call.sum() >= by_suite.sum() - 1
        assert by_call.sum() > fooled(model, x, y, tau).sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": lambda x: x}, r"the model must be an nn\.Module, not function"),
        ({"x": torch.rand(3, 1, 6, 6) * 3}, r"images must be in \[0,1\].*belongs inside the model"),
        ({"x": torch.zeros(3, 1, 6, 6, dtype=torch.uint8)}, r"8-bit images are x\.float\(\) / 255"),
        ({"x": torch.rand(3, 1, 6, 6)}, r"the images are torch\.float32 .* use x\.to"),
        ({"y": torch.zeros(3)}, "labels must be 3 integers, one per image"),
        ({"y": torch.zeros(2, dtype=torch.int64)}, "labels must be 3 integers, one per image"),
        ({"y": torch.tensor([0, 1, 2])}, "labels must be below 2, the model's number of classes"),
        ({"threat": 0.3}, r"a threat is given as ccat\.Linf\(8 / 255\) .* not 0\.3"),
        ({"threat": "Linf:0.3"}, r"a threat is given as ccat\.Linf\(8 / 255\)"),
        ({"threat": Linf}, r"a threat is given as ccat\.Linf\(8 / 255\)"),
        ({"threat": ccat.Frame(3)}, "Frame: a border of 3 leaves nothing inside"),
        ({"tau": 1.5}, "tau must be a number at least 0 and at most 1, not 1.5"),
        ({"tau": math.nan}, "tau must be a number at least 0 and at most 1, not nan"),
        ({"tau": "0.5"}, "tau must be a number"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1, not 0"),
        ({"iterations": 1.5}, "iterations must be a whole number of at least 1, not 1.5"),
        ({"pool": torch.rand(3, 3, 6, 6)}, r"needs a pool of other images of shape \(1, 6, 6\)"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], message: str) -> None:
    model, x, y = linear()
    arguments: dict[str, object] = {"model": model, "x": x[:3], "y": y[:3], "threat": Linf(0.1)}
    with pytest.raises(ValueError, match=message):
        ccat.attack(**{**arguments, "iterations": 2, **change})  # type: ignore[arg-type]
