"""Training for certificates, against literal transcriptions."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from truth import seeded

from ccat import Images, IntervalBound, Linf, Normal, Problem
from ccat.attacks import PGD
from ccat.bounds import certify
from ccat.models import create_model
from ccat.objectives import cross_entropy
from ccat.training import LinearToZero, Probe, Recipe, epochs

X = torch.rand(7, 1, 8, 8, generator=seeded(), dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 2, 1, 0, 1])


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64, 6, bias=False),
            nn.BatchNorm1d(6),
            nn.ReLU(),
            nn.Linear(6, 3),
        ).double()
        for layer in (model[1], model[5]):
            nn.init.uniform_(layer.weight, -1.0, 1.0)  # type: ignore[arg-type]
            nn.init.uniform_(layer.bias, -1.0, 1.0)  # type: ignore[arg-type]
    return model.train()


def normalised(z: Tensor, clean: Tensor, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> Tensor:
    """Normalise by the statistics of the clean batch."""
    rest, shape = ([0, 2, 3], (1, -1, 1, 1)) if clean.ndim == 4 else ([0], (1, -1))
    mean, std = clean.mean(rest), (clean.var(rest, correction=0) + layer.eps).sqrt()
    scale = layer.weight / std
    return (z - mean.view(shape)) * scale.view(shape) + layer.bias.view(shape)


def literal(model: nn.Sequential, epsilon: float, kappa: float) -> Tensor:
    """Lower and upper bounds beside the clean batch, whose statistics normalise all three."""
    clean, lower, upper = X, (X - epsilon).clamp(0, 1), (X + epsilon).clamp(0, 1)
    for layer in list(model)[:-1]:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            middle, radius = (upper + lower) / 2, (upper - lower) / 2
            positive = copy.deepcopy(layer)
            positive.weight.data = layer.weight.data.abs()
            positive.bias = None
            clean, middle, radius = layer(clean), layer(middle), positive(radius)
            lower, upper = middle - radius, middle + radius
        elif isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
            one, other = (normalised(z, clean, layer) for z in (lower, upper))
            clean = normalised(clean, clean, layer)
            lower, upper = torch.minimum(one, other), torch.maximum(one, other)
        else:
            clean, lower, upper = layer(clean), layer(lower), layer(upper)
    last = model[-1]
    assert isinstance(last, nn.Linear)
    rows = []
    for n, y in enumerate(Y):
        worst = []
        for k in range(3):
            gain = last.weight[k] - last.weight[y]
            corner = torch.where(gain > 0, upper[n], lower[n])
            worst.append(gain @ corner + last.bias[k] - last.bias[y])
        rows.append(torch.stack(worst))
    bounded = functional.cross_entropy(torch.stack(rows), Y)
    return kappa * functional.cross_entropy(last(clean), Y) + (1 - kappa) * bounded


@pytest.mark.parametrize(("epsilon", "kappa"), [(0.1, 0.5), (0.3, 0.0), (0.05, 1.0)])
def test_the_loss_is_that_of_the_literal_formula(epsilon: float, kappa: float) -> None:
    model = network()
    loss = IntervalBound(epsilon, kappa)(model, model, X, Y, seeded())
    torch.testing.assert_close(loss, literal(network(), epsilon, kappa))


def test_the_gradient_is_that_of_finite_differences() -> None:
    model, method = network(), IntervalBound(0.1, 0.3)
    loss = method(model, model, X, Y, seeded())
    loss.backward()  # type: ignore[no-untyped-call]
    for weight in (model[0].weight, model[1].weight, model[4].weight, model[7].bias):
        assert isinstance(weight, Tensor)
        assert weight.grad is not None
        direction = torch.randn(weight.shape, generator=seeded(5), dtype=torch.float64)
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weight.add_(step * direction)
                values.append(method(model, model, X, Y, seeded()).item())
                weight.sub_(step * direction)
        expected = (values[0] - values[1]) / 2e-6
        assert math.isclose((weight.grad * direction).sum().item(), expected, rel_tol=1e-4)


def test_the_bounded_loss_is_never_below_that_of_an_attack() -> None:
    model = network().eval()
    bounded = IntervalBound(0.1, kappa=0.0)(model, model, X, Y, seeded())
    problem = Problem.of(model, X, Y, Linf(0.1), cross_entropy)
    attacked = problem.images(PGD(40, 0.02)(problem, seeded()))
    assert bounded >= functional.cross_entropy(model(attacked), Y)


def test_epsilon_and_kappa_grow_until_the_end_of_the_ramp() -> None:
    method = IntervalBound(0.4, kappa=0.25, ramp=0.5)
    assert method.at(0.0) == IntervalBound(0.0, 1.0, 0.5)
    assert method.at(0.25) == IntervalBound(0.2, 0.625, 0.5)
    assert method.at(0.5) == method.at(1.0) == method
    assert IntervalBound(0.4, ramp=0.0).at(0.0) == IntervalBound(0.4, ramp=0.0)
    assert method.threats == (Linf(0.4),)
    assert Normal().at(0.3) == Normal()


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"epsilon": 1.1}, "epsilon must be a number at least 0 and at most 1, not 1.1"),
        ({"epsilon": 0.3, "kappa": -0.1}, "kappa must be a number at least 0 and at most 1"),
        ({"epsilon": 0.3, "kappa": 2}, "kappa must be a number at least 0 and at most 1, not 2"),
        ({"epsilon": 0.3, "ramp": math.nan}, "ramp must be a number at least 0"),
    ],
)
def test_numbers_out_of_range_are_refused(numbers: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IntervalBound(**numbers)


def test_training_makes_certificates(mnist_train: Images) -> None:
    """A few steps turn a vacuous certificate into one that holds for most images."""
    method = IntervalBound(0.1, ramp=0.3)
    probe = Probe(Linf(0.1), PGD(2, 0.05))
    recipe = Recipe("test", method, 8, LinearToZero(), probe, rate=5e-3, optimiser="adam")
    model = create_model("lenet", seeded())
    images = mnist_train[:3000]
    x, y = mnist_train[50_000:50_100].floats(), mnist_train[50_000:50_100].y
    before = certify(model, x, y, Linf(0.1)).wrong.mean()
    for _ in epochs(recipe, model, images, mnist_train[3000:3050], seeded()):
        pass
    after = certify(model.eval(), x, y, Linf(0.1)).wrong.mean()
    assert before > 0.99
    assert after < 0.75
