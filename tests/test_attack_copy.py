import copy

import pytest
import torch
from torch import Tensor, nn
from truth import seeded

from ccat import PGD, Linf, Problem, create_model, other_class_confidence
from ccat.models.attack_copy import StridedConv2d, attack_copy, is_faster


def trained(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Return a model with statistics and scales as if it had been trained."""
    model = create_model(name, seeded(1)).to(dtype)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            nn.init.uniform_(module.running_mean, -0.5, 0.5, generator=seeded(2))
            nn.init.uniform_(module.running_var, 0.5, 2.0, generator=seeded(3))
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=seeded(4))
            nn.init.uniform_(module.bias, -0.5, 0.5, generator=seeded(5))
    return model.train()


@pytest.mark.parametrize(
    ("name", "channels", "norms"), [("lenet", 1, 0), ("resnet20", 3, 0), ("preact-resnet18", 3, 9)]
)
def test_the_copy_answers_the_same_and_the_model_is_untouched(
    name: str, channels: int, norms: int
) -> None:
    """In pre-activation networks only the second normalisation of a block follows a convolution."""
    model = trained(name)
    before = copy.deepcopy(model.state_dict())
    x = torch.rand(
        3,
        channels,
        28 if channels == 1 else 32,
        28 if channels == 1 else 32,
        generator=seeded(6),
        dtype=torch.float64,
    )
    fast = attack_copy(model, x)
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert all(value.equal(before[key]) for key, value in model.state_dict().items())
    assert not fast.training
    assert not any(weight.requires_grad for weight in fast.parameters())
    assert sum(isinstance(module, nn.BatchNorm2d) for module in fast.modules()) == norms
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model.eval()(x))
    assert not any(module.training for module in fast.modules()), "nothing to set in each pass"


def test_attacks_reach_the_same_points() -> None:
    model = trained("lenet").eval()
    x, y = torch.rand(4, 1, 28, 28, generator=seeded(7), dtype=torch.float64), torch.arange(4)
    points = [
        PGD(8, 0.02)(Problem.of(one, x, y, Linf(0.2), other_class_confidence), seeded())
        for one in (model, attack_copy(model, x))
    ]
    torch.testing.assert_close(points[0].delta, points[1].delta, atol=1e-9, rtol=0)
    torch.testing.assert_close(points[0].value, points[1].value)


class Shared(nn.Module):
    """The output of a convolution is used twice, so that folding would change it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        nn.init.constant_(self.norm.bias, 3.0)

    def forward(self, x: Tensor) -> Tensor:
        out = self.convolution(x)
        return torch.cat([out, self.norm(out)], 1).mean((2, 3))


class Uncopied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator()

    def __deepcopy__(self, memo: object) -> "Uncopied":
        raise TypeError("a generator cannot be copied")

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :3]


def test_what_cannot_be_folded_is_left_as_it_is() -> None:
    x = torch.rand(2, 1, 6, 6, generator=seeded(1))
    shared = Shared().eval()
    torch.testing.assert_close(attack_copy(shared, x)(x), shared(x))
    alone = Uncopied()
    assert attack_copy(alone, x) is alone


@pytest.mark.parametrize("size", [28, 27, 9])
@pytest.mark.parametrize(("kernel", "padding"), [(5, 2), (7, 3), (5, 0), (6, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_strided_convolutions_have_the_same_gradient(
    size: int, kernel: int, padding: int, bias: bool
) -> None:
    torch.manual_seed(0)
    plain = (
        nn.Conv2d(3, 4, kernel, stride=2, padding=padding, bias=bias).double().requires_grad_(False)
    )
    assert is_faster(plain)
    x = torch.rand(
        2, 3, size, size + 1, generator=seeded(1), dtype=torch.float64, requires_grad=True
    )
    outputs = [plain(x), StridedConv2d(plain)(x)]
    torch.testing.assert_close(outputs[1], outputs[0])
    upstream = torch.rand(outputs[0].shape, generator=seeded(2), dtype=torch.float64)
    gradients = [torch.autograd.grad(output, x, upstream)[0] for output in outputs]
    torch.testing.assert_close(gradients[1], gradients[0])


class Twice(nn.Module):
    """The input of a rectifier is used again, so that it must not be overwritten."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.convolution, self.relu, self.first = nn.Conv2d(1, 3, 3), nn.ReLU(), first

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(x - 0.5) if self.first else x
        out = self.convolution(x)
        total: Tensor = (self.relu(out) + out).flatten(2).sum(2)
        return total


@pytest.mark.parametrize("first", [False, True])
def test_rectifiers_work_in_place_only_where_nobody_notices(first: bool) -> None:
    x = torch.rand(2, 1, 8, 8, generator=seeded(), dtype=torch.float64)
    lenet = attack_copy(trained("lenet"), torch.rand(2, 1, 28, 28, dtype=torch.float64))
    assert all(module.inplace for module in lenet.modules() if isinstance(module, nn.ReLU))
    model = Twice(first).double()
    fast = attack_copy(model, x)
    kept = x.clone()
    torch.testing.assert_close(fast(x), model(x).detach())
    assert x.equal(kept)
    assert not any(module.inplace for module in fast.modules() if isinstance(module, nn.ReLU))


class Late(nn.Module):
    """A rectifier that changes nothing but dark images."""

    def __init__(self) -> None:
        super().__init__()
        self.relu, self.layer = nn.ReLU(), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = x.flatten(1) - 0.2
        out: Tensor = self.layer(self.relu(h)) + 10 * h[:, :10]
        return out


class Viewed(nn.Module):
    """A common way to flatten: a view, which needs the output of the convolution in order."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.layer = nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.convolution(x).relu()
        out: Tensor = self.layer(h.view(len(h), -1))
        return out


def test_what_would_change_the_answer_is_taken_back() -> None:
    bright = torch.full((4, 1, 8, 8), 0.5, dtype=torch.float64)
    bright[1:] = 0
    late, viewed, x = (
        Late().double(),
        Viewed().double(),
        torch.rand(3, 3, 8, 8, dtype=torch.float64),
    )
    torch.testing.assert_close(attack_copy(late, bright)(bright), late(bright).detach())
    fast = attack_copy(viewed, x)
    torch.testing.assert_close(fast(x), viewed(x).detach())
    image = x.clone().requires_grad_()
    torch.autograd.grad(fast(image).sum(), image)


def test_a_resnet_keeps_channels_last_and_gradients_come_back_in_order() -> None:
    model = trained("resnet20")
    x = torch.rand(2, 3, 32, 32, generator=seeded(), dtype=torch.float64)
    fast = attack_copy(model, x)
    weights = [weight for weight in fast.parameters() if weight.ndim == 4]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
    one, other = (
        Problem.of(net, x, torch.arange(2), Linf(0.1), other_class_confidence).value_and_grad(0 * x)
        for net in (fast, model.eval())
    )
    assert one[1].is_contiguous()
    torch.testing.assert_close(one[1], other[1])
