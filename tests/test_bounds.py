"""Bounds and certificates against closed forms, exhaustive search, attacks and rounding."""

import itertools
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from truth import Small, seeded

from ccat import APGD, L2, MODELS, PGD, Frame, Linf, Normalised, Problem, Random, create_model
from ccat.attacks import Attack
from ccat.bounds import (
    Arithmetic,
    Interval,
    NoBoundError,
    against_label,
    bound,
    box_around,
    certify,
    differences,
    linear_differences,
)
from ccat.bounds.certificate import _worst
from ccat.models import arguments_for
from ccat.models.predict import probabilities
from ccat.objectives import any_class_confidence, other_class_confidence
from ccat.threats import Threat

EXACT = Arithmetic()
BOTH: tuple[Literal["interval", "linear"], ...] = ("interval", "linear")


class Residual(nn.Module):
    """Every kind of layer that our networks have, in one small network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.pool, self.fc = nn.MaxPool2d(2), nn.Linear(4 * 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        x = functional.relu(self.conv2(x) + x)
        x = functional.avg_pool2d(self.pool(x), 2) - 0.1
        logits: Tensor = self.fc(torch.flatten(x, 1) * 2 / 3)
        return logits


def wild(model: nn.Module, seed: int) -> nn.Module:
    """Return a model with random weights and statistics, in evaluation mode."""
    generator = seeded(seed)
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            if value.is_floating_point():
                value.copy_(0.7 * torch.randn(value.shape, generator=generator))
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
                assert module.running_var is not None
                module.running_var.abs_().add_(0.1)
    return model.eval()


def networks(seed: int) -> nn.Module:
    plain = nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(27, 8), nn.Tanh()
    )
    kinds: list[Callable[[], nn.Module]] = [
        Residual,
        lambda: nn.Sequential(*plain, nn.Linear(8, 3)),
        lambda: nn.Sequential(*plain, nn.Linear(8, 3), nn.Sigmoid()),  # the last is not linear
        lambda: Normalised(Residual(), [0.3], [0.5]),
        lambda: nn.Sequential(nn.Conv2d(1, 3, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    ]
    return wild(kinds[seed % len(kinds)](), seed)


def chains(seed: int) -> nn.Module:
    """Networks that have linear bounds."""
    layers: list[nn.Module] = [
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16, 7), nn.Dropout(), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(),
        nn.Linear(6, 3),
    ]  # fmt: skip
    before = [nn.Hardtanh(0.2, 0.6)] if seed % 3 == 0 else []
    model: nn.Module = nn.Sequential(*before, *layers)
    return wild(Normalised(model, [0.4], [0.6]) if seed % 2 else model, seed)


def images(seed: int, count: int = 4) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 1, 8, 8, generator=seeded(seed)) ** 2
    return x, torch.randint(3, (count,), generator=seeded(seed + 1))


def literal(model: nn.Sequential, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Interval bounds by the book: positive and negative weights apart, both ends through relu."""
    for layer in model:
        if isinstance(layer, nn.Linear | nn.Conv2d):

            def part(x: Tensor, weight: Tensor, layer: nn.Module = layer) -> Tensor:
                if isinstance(layer, nn.Linear):
                    return functional.linear(x, weight)
                assert isinstance(layer, nn.Conv2d)
                return functional.conv2d(x, weight, None, layer.stride, layer.padding)

            positive, negative = layer.weight.clamp_min(0), layer.weight.clamp_max(0)
            bias = layer.bias.view(-1, *(1,) * (layer.weight.ndim - 2))  # type: ignore[union-attr]
            lower, upper = (
                part(lower, positive) + part(upper, negative) + bias,
                part(upper, positive) + part(lower, negative) + bias,
            )
        else:
            lower, upper = layer(lower), layer(upper)
    return lower, upper


def test_the_bounds_are_those_of_the_literal_formula() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
    ).double()
    x = torch.rand(6, 1, 8, 8, dtype=torch.float64, generator=seeded())
    lower, upper = (x - 0.1).clamp(0, 1), (x + 0.1).clamp(0, 1)
    found = bound(model, Interval.between(lower, upper), EXACT)
    low, high = literal(model, lower, upper)
    torch.testing.assert_close(found.lower, low)
    torch.testing.assert_close(found.upper, high)


@pytest.mark.parametrize("threat", [Linf(0.2), Frame(2)])
def test_one_affine_layer_is_bounded_exactly(threat: Threat) -> None:
    model = wild(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), 0).double()
    x = torch.rand(5, 1, 8, 8, dtype=torch.float64, generator=seeded())
    assert isinstance(threat, Linf | Frame)
    lower, upper = threat.bounds(x)
    box = Interval.between(x + lower, x + upper)
    found = differences(model, box, EXACT)
    weight, bias = model[1].weight, model[1].bias  # type: ignore[index]
    for t, j in itertools.product(range(3), repeat=2):
        gain = weight[t] - weight[j]
        corner = torch.where(gain > 0, box.upper.flatten(1), box.lower.flatten(1))
        expected = corner @ gain + bias[t] - bias[j]
        torch.testing.assert_close(found[:, t, j], expected)
    y = torch.tensor([0, 1, 2, 0, 1])
    worst = against_label(model, box, y, EXACT)
    torch.testing.assert_close(worst, found[torch.arange(5), :, y])


@pytest.mark.parametrize("bounds", ["interval", "linear"])
def test_nothing_on_a_grid_of_all_images_lies_beyond_the_certificate(
    bounds: Literal["interval", "linear"],
) -> None:
    """Images of two by two pixels: every image of a fine grid within the threat is tried."""
    levels = torch.linspace(0, 1, 21)
    grid = torch.cartesian_prod(*[levels] * 4).view(-1, 1, 2, 2)
    within = []
    for seed in range(6):
        layers = (nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        model = wild(nn.Sequential(*layers), seed)
        answers = probabilities(model, grid, batch=len(grid))
        confidence, answer = answers.max(1)
        x = torch.full((1, 1, 2, 2), 0.5)
        for epsilon, y in itertools.product((0.05, 0.2, 0.5), range(3)):
            threat = Linf(epsilon)
            found = certify(model, x, torch.tensor([y]), threat, bounds=bounds)
            inside = (grid - x).abs().flatten(1).amax(1) <= epsilon + 1e-6
            wrong = confidence[inside & (answer != y)]
            assert not len(wrong) or (found.wrong[0] and wrong.max() <= found.score[0])
            within.append(len(wrong) > 0 or not found.wrong[0])
    assert np.mean(within) > 0.8  # and the certificate seldom claims what no image does


@settings(max_examples=40)
@given(
    st.integers(0, 10_000),
    st.sampled_from([Linf(0.02), Linf(0.3), Frame(1)]),
    st.sampled_from(["interval", "linear"]),
)
def test_no_attack_finds_more_than_the_certificate_allows(
    seed: int, threat: Threat, bounds: Literal["interval", "linear"]
) -> None:
    model, (x, y) = (networks if bounds == "interval" else chains)(seed), images(seed)
    attacks: list[Attack] = [
        PGD(10, 0.05), APGD(10, start="random"), Random(20), PGD(5, 0.5, start="random"),
    ]  # fmt: skip
    possible = certify(model, x, y, threat, batch=3, bounds=bounds)
    noise = certify(model, x, None, threat, bounds=bounds)
    for attack, objective, certified in itertools.product(
        attacks, (other_class_confidence, any_class_confidence), (possible, noise)
    ):
        problem = Problem.of(model, x, y, threat, objective)
        found = problem.images(attack(problem, seeded(seed)))
        confidence, answer = probabilities(model, found).max(1)
        wrong = np.asarray(answer != y) if certified is possible else np.ones(len(x), np.bool_)
        assert (certified.wrong | ~wrong).all()
        assert (np.asarray(confidence)[wrong] <= certified.score[wrong]).all()


def test_linear_bounds_are_those_of_the_literal_formula() -> None:
    """One hidden layer: every rectifier by its lines, one unit at a time, corners of the box."""
    model = wild(nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), 3)
    first, second = (model.double().requires_grad_(False)[n] for n in (1, 3))  # type: ignore[index]
    x = torch.full((1, 1, 2, 2), 0.5, dtype=torch.float64)
    found = linear_differences(model, Interval(x, torch.full_like(x, 0.2)), EXACT)
    centre, radius = first(x.flatten(1))[0], first.weight.abs() @ torch.full((4,), 0.2).double()
    lower, upper = centre - radius, centre + radius
    assert ((lower < 0) & (upper > 0)).any()
    for t, j in itertools.product(range(3), repeat=2):
        gain = second.weight[t] - second.weight[j]
        total = second.bias[t] - second.bias[j]
        weights = torch.zeros(4, dtype=torch.float64)
        for h in range(5):
            if lower[h] >= 0 or upper[h] <= 0:
                slope, shift = float(lower[h] >= 0), 0.0
            elif gain[h] > 0:
                slope = float(upper[h] / (upper[h] - lower[h]))
                shift = -slope * float(lower[h])
            else:
                slope, shift = float(upper[h] > -lower[h]), 0.0
            weights = weights + gain[h] * slope * first.weight[h]
            total = total + gain[h] * (slope * first.bias[h] + shift)
        expected = total + weights @ x.flatten() + 0.2 * weights.abs().sum()
        torch.testing.assert_close(found[0, t, j], expected.detach())


def test_linear_bounds_behind_a_curve_are_those_of_what_it_makes_of_pixels() -> None:
    layers = wild(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)), 5)
    curve = nn.Hardtanh(0.3, 0.5)
    x = torch.rand(1, 1, 8, 8, dtype=torch.float64, generator=seeded())
    box = Interval(x, torch.full_like(x, 0.1))
    inside = Interval.between(curve(box.lower), curve(box.upper))
    found = linear_differences(nn.Sequential(curve, *layers.children()).double(), box, EXACT)
    torch.testing.assert_close(found, linear_differences(layers.double(), inside, EXACT))
    free = linear_differences(layers.double(), box, EXACT)
    assert (found < free - 1e-3).any(), "the curve takes something away from the attacker"


def test_linear_bounds_certify_where_intervals_do_not() -> None:
    better = []
    for seed in range(8):
        model, (x, y) = chains(seed), images(seed)
        wide, tight = (certify(model, x, y, Linf(0.03), bounds=one) for one in BOTH)
        assert (wide.wrong | ~tight.wrong).all()
        assert (tight.score <= wide.score).all()
        better.append((wide.score - tight.score).max())
    assert np.mean(better) > 0.05


class Cut(nn.Module):
    """Has no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


class Defaulted(nn.Module):
    """Takes a number beside the images, which is no layer of the chain."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3))

    def forward(self, x: Tensor, top: float = 1.0) -> Tensor:
        logits: Tensor = self.net(top - x)
        return logits


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Defaulted(), "top is used in a computation"),
        (nn.Sequential(nn.Flatten(), Cut(), nn.Linear(64, 3)), "detach of Sequential is neither"),
        (Residual(), "uses the result of relu twice"),
        (nn.Sequential(nn.Flatten(), nn.Tanh()), "_1 of Sequential is neither"),
        (nn.Sequential(nn.Tanh(), nn.Hardtanh()), r"does not return logits \(N, K\)"),
    ],
)
def test_what_has_no_linear_bounds_is_named(model: nn.Module, message: str) -> None:
    with pytest.raises(NoBoundError, match=message):
        certify(model.eval(), torch.rand(1, 1, 8, 8), None, Linf(0.3), bounds="linear")


def test_an_argument_that_is_not_used_does_not_stand_in_the_way() -> None:
    class Spare(Defaulted):
        def forward(self, x: Tensor, top: float = 1.0) -> Tensor:
            logits: Tensor = self.net(1.0 * x)
            return logits

    model, (x, y) = wild(Spare(), 1), images(1)
    with pytest.raises(NoBoundError, match="mul of Spare is neither"):  # 1.0 stands first
        certify(model, x, y, Linf(0.01), bounds="linear")

    class Plain(Spare):
        def forward(self, x: Tensor, top: float = 1.0) -> Tensor:
            logits: Tensor = self.net(x * 1.0)
            return logits

    tight = certify(wild(Plain(), 1), x, y, Linf(0.01), bounds="linear")
    assert (tight.score <= certify(wild(Plain(), 1), x, y, Linf(0.01)).score).all()


def test_rounding_of_the_model_lies_within_its_bounds() -> None:
    """Sums that cancel are off by more than the box is wide; any order of summation may be used."""
    weight = 1e3 * torch.randn(3, 64, generator=seeded(2))
    weight[:, 32:] = -weight[:, :32]
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with torch.no_grad():
        model[1].weight.copy_(weight)  # type: ignore[operator]
        model[1].bias.zero_()  # type: ignore[operator]
    half = torch.rand(20, 1, 4, 8, generator=seeded(3))
    x = torch.cat([half, half], 2)
    exact = model.double()
    with torch.no_grad():
        u = differences(
            exact, Interval(x.double(), torch.zeros_like(x).double()), Arithmetic(2.0**-24)
        )
        model = model.float()
        flat = x.flatten(1)
        sums = torch.zeros(20, 3)
        for column in torch.randperm(64, generator=seeded(4)):  # in float32, in another order
            sums = sums + flat[:, column, None] * weight[:, column]
    for logits in (sums, model(x).detach()):
        z = logits.double()
        assert (z[:, :, None] - z[:, None, :] <= u + 1e-12).all()
    assert (sums != 0).any()  # in exact arithmetic all are zero
    assert u.max() < 1


def test_the_certificate_covers_what_attacks_are_granted() -> None:
    """A perturbation may exceed ε by a share of 1e-4 and an image [0,1] by rounding."""
    x = torch.tensor([[[[0.5, 0.0]]]], dtype=torch.float64)
    box = box_around(x, Linf(0.1))
    assert (box.upper[0, 0, 0] >= torch.tensor([0.6 + 1e-5, 0.1 + 1e-5])).all()
    assert (box.lower[0, 0, 0] <= torch.tensor([0.4 - 1e-5, 0.0])).all()
    assert box.lower.min() >= -1e-12
    frame = box_around(torch.full((1, 1, 5, 5), 0.5, dtype=torch.float64), Frame(1))
    assert frame.radius[0, 0, 2, 2] < 1e-5
    assert frame.radius[0, 0, 0, 0] > 0.49


@pytest.mark.parametrize("name", MODELS)
def test_every_network_of_ours_has_bounds(name: str) -> None:
    small = name.startswith(("lenet", "wide-lenet", "steep-lenet", "trades", "msd"))
    shape = (1, 28, 28) if small else (3, 16, 16)
    model = create_model(name, seeded(), **arguments_for(name, *shape, 10)).eval()
    x = torch.rand(1, *shape, generator=seeded())
    found = bound(model, Interval(x, torch.zeros_like(x)), EXACT)
    torch.testing.assert_close(found.centre, model(x), rtol=1e-3, atol=1e-4)
    assert found.radius.abs().max() == 0
    assert certify(model, x, None, Linf(1e-6)).wrong.all()  # something is the answer


class Deciding(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) if x.sum() > 0 else -x.flatten(1)


class Doubled(nn.Conv2d):
    """A convolution by its type, but not by what it computes."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def test_a_subclass_is_looked_into_and_not_taken_for_its_parent() -> None:
    model = nn.Sequential(Doubled(1, 2, 3), nn.Flatten())
    x = torch.rand(2, 1, 4, 4, generator=seeded())
    found = bound(model, Interval(x, torch.zeros_like(x)), EXACT)
    torch.testing.assert_close(found.centre, model(x))


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten())
    model[0].register_forward_hook(lambda *given: 2 * given[2])
    return model


class AlwaysDropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x).flatten(1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Flatten(), nn.GELU()), "layer 1, a GELU, of Sequential has no rule"),
        (nn.Sequential(nn.Flatten(), nn.Softmax(1)), "layer 1, a Softmax, of Sequential"),
        (Deciding(), "Deciding cannot be followed, because its forward decides by values"),
        (hooked(), "layer 0 of Sequential has hooks"),
        (AlwaysDropping(), "never switched off makes the answer random"),
        (nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False)), "differently in every batch"),
        (nn.Sequential(nn.Conv2d(1, 2, 3)), "Sequential does not return logits"),
    ],
)
def test_what_has_no_bounds_is_named(model: nn.Module, message: str) -> None:
    with pytest.raises(NoBoundError, match=message):
        certify(model, torch.rand(1, 1, 8, 8), torch.tensor([0]), Linf(0.1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_has_no_layers_to_follow() -> None:
    scripted = torch.jit.script(nn.Flatten())
    with pytest.raises(NoBoundError, match="TorchScript"):
        certify(scripted, torch.rand(1, 1, 8, 8), torch.tensor([0]), Linf(0.1))


def test_only_boxes_are_certified() -> None:
    with pytest.raises(ValueError, match="needs a threat that is a box"):
        certify(Small(1, 3), torch.rand(1, 1, 8, 8), torch.tensor([0]), L2(1.0))


def test_half_precision_has_no_bounds() -> None:
    with pytest.raises(NoBoundError, match="half precision"):
        certify(networks(1).half(), *images(1), Linf(1e-4))


def test_certifying_leaves_the_model_as_it_was() -> None:
    model, (x, y) = networks(0).train(), images(0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    certify(model, x, y, Linf(0.1))
    assert model.training
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())


class Written(nn.Module):
    """A model whose forward is given."""

    def __init__(self, forward: Callable[["Written", Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 5), nn.Linear(5, 3)
        self.relu, self.drop, self.written = nn.ReLU(inplace=True), nn.Dropout(), forward

    def forward(self, x: Tensor) -> Tensor:
        return self.written(self, x)


def overwritten(self: Written, x: Tensor) -> Tensor:
    hidden = self.first(x.flatten(1))
    return self.last(hidden + self.relu(hidden))  # type: ignore[no-any-return]


def unread(self: Written, x: Tensor) -> Tensor:
    hidden = self.first(x.flatten(1))
    hidden.view(-1).relu_()
    return self.last(hidden)  # type: ignore[no-any-return]


class AlwaysTraining(Written):
    def train(self, mode: bool = True) -> "AlwaysTraining":
        super().train(mode)
        self.drop.training = True
        return self


def with_root_hook() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    model.register_forward_hook(lambda *given: -given[2])
    return model


def with_own_forward() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    model.forward = lambda x: -x.flatten(1)[:, :3]  # type: ignore[method-assign]
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Written(overwritten), "works in place on what is read elsewhere"),
        (Written(unread), "works in place on what is read elsewhere"),
        (with_root_hook(), "Sequential has hooks"),
        (with_own_forward(), "has a forward or a call of its own"),
        (Written(lambda self, x: self.last(x.mT.flatten(1)[:, :5])), "mT is a value"),
        (
            Written(lambda self, x: self.last(self.first(x.flatten(1) - x.mean()))),
            "mixes the images",
        ),
        (AlwaysTraining(lambda self, x: self.last(self.drop(self.first(x.flatten(1))))), "random"),
        (Written(lambda self, x: self.last(self.first(x.flatten(1)) + torch.randn(5))), "random"),
        (nn.Sequential(nn.Flatten(), nn.ELU(alpha=-1.0), nn.Linear(64, 3)), "does not rise"),
        (nn.Sequential(nn.AvgPool2d(2, divisor_override=-4), nn.Flatten()), "divisor"),
    ],
)
def test_what_computes_otherwise_than_its_layers_say_is_refused(
    model: nn.Module, message: str
) -> None:
    """Past defects, found by a reviewer: each had been certified for what it does not compute."""
    with pytest.raises(NoBoundError, match=message):
        certify(model, torch.rand(2, 1, 8, 8, generator=seeded()), None, Linf(0.1))


def test_a_bound_that_is_no_number_certifies_nothing() -> None:
    """A pruned unit: its bias is −∞, and a rectifier makes it 0."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    with torch.no_grad():
        model[1].bias[0] = -torch.inf  # type: ignore[operator]
    x = torch.rand(4, 1, 8, 8, generator=seeded())
    y = (model(x).argmax(1) + 1) % 3  # all are wrong
    for bounds in BOTH:
        with pytest.raises(NoBoundError, match="not finite"):
            certify(model, x, y, Linf(0.01), bounds=bounds)
    nowhere = torch.full((1, 3, 3), torch.nan)
    assert _worst(nowhere, torch.tensor([0])).item() == 1  # possible, as far as is known


def test_a_linear_layer_before_a_normalisation_of_another_axis_is_not_folded() -> None:
    layers = (nn.Flatten(2), nn.Linear(64, 3), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(9, 2))
    model = wild(nn.Sequential(*layers), 5)
    x = torch.rand(2, 3, 8, 8, generator=seeded())
    found = bound(model, Interval(x, torch.zeros_like(x)), EXACT)
    torch.testing.assert_close(found.centre, model(x), rtol=1e-4, atol=1e-4)
    certify(model, x, None, Linf(0.01), bounds="linear")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.rand(2, 1, 8, 8), torch.tensor([[0], [1]]), "labels must be 2 classes"),
        (torch.rand(2, 1, 8, 8), torch.tensor([0, -1]), "labels must be 2 classes"),
        (torch.rand(2, 1, 8, 8), torch.tensor([0, 3]), "labels must be 0 to 2, not 3"),
        (2 * torch.ones(2, 1, 8, 8), None, r"images must be in \[0,1\]"),
        (torch.full((2, 1, 8, 8), torch.nan), None, r"images must be in \[0,1\]"),
        (torch.rand(8, 8), None, r"images must be \(N, C, H, W\)"),
    ],
)
def test_images_and_labels_are_checked(x: Tensor, y: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify(networks(0), x, y, Linf(0.1))
    with pytest.raises(ValueError, match="bounds must be one of interval, linear"):
        certify(networks(0), *images(0), Linf(0.1), bounds="crown")  # type: ignore[arg-type]


def test_bytes_are_images_too() -> None:
    model, (x, y) = networks(0), images(0)
    grey = (x * 255).round().to(torch.uint8)
    one, other = certify(model, grey, y, Linf(0.1)), certify(model, grey / 255, y, Linf(0.1))
    assert (one.score == other.score).all()
