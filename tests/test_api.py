"""Any model in three lines, and the attacks of others, the real ones."""

import math

import foolbox
import pytest
import torch
from torch import Tensor, nn
from truth import seeded

import ccat
from ccat import External, Images, Linf, adapters, metrics
from ccat.stages.solving import Function, solve
from ccat.suites import SUITES


@pytest.fixture(scope="module")
def model(mnist_train: Images) -> nn.Module:
    """Half a minute's worth of learning is enough to have something to attack."""
    generator = seeded(3)
    net = ccat.create_model("lenet", generator).train()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for rows in torch.randperm(8000, generator=generator).view(-1, 100):
        loss = ccat.Normal()(net, net, mnist_train[rows].floats(), mnist_train[rows].y, generator)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net.eval()


@pytest.fixture(scope="module")
def data(mnist_test: Images) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    held_out = mnist_test[-300:]
    return mnist_test[:60].floats(), mnist_test[:60].y, (held_out.floats(), held_out.y)


def outcome(model: nn.Module, x: Tensor, y: Tensor) -> metrics.Outcome:
    with torch.no_grad():
        return metrics.outcome(model(x).softmax(1).numpy(), y.numpy())


def test_three_lines_give_what_the_parts_give(model: nn.Module, data: tuple[Tensor, Tensor, tuple[Tensor, Tensor]]) -> None:
    x, y, held_out = data
    model.train()
    norm = next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = ccat.evaluate(model, x, y, held_out=held_out, threats=[Linf(0.1), ccat.L0(4)], suite="demo", examples=20, name="mine")
    assert model.training
    assert not norm.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    model.eval()
    tau = metrics.threshold(outcome(model, *held_out), 0.99)
    clean = outcome(model, x, y)
    assert result.evaluation.tau == tau
    assert result.evaluation.error.value == metrics.error(clean, tau)
    for found in result.evaluation.attacks:
        worst = outcome(model, result.adversarial[found.threat], y[:20])
        size = ccat.L0(4).size if found.threat == "L0:4" else Linf(0.1).size
        assert size(result.adversarial[found.threat] - x[:20]).max() <= (4 if found.threat == "L0:4" else 0.1 + 1e-6)
        assert found.pooled.error.value == pytest.approx(metrics.robust_error(clean[:20], ccat.worst(clean[:20], [worst]), tau))
        assert found.pooled.attempts == 6
        assert found.pooled.error.value > metrics.error(clean[:20], tau)
    shown = str(result)
    assert all(part in shown for part in ("| mine", "Err", "Linf:0.1", "L0:4", "accepted", "(", "99 % TPR"))
    assert "| mine" in result.table("attacks")
    assert "at 95 %" in result.at(tpr=0.95).table()
    assert result.at(tau=-math.inf).evaluation.coverage.value == 1
    with pytest.raises(ValueError, match="there is no table 'none'; there are main"):
        result.table("none")


def test_without_held_out_images_the_last_ones_are_split_off(model: nn.Module, mnist_test: Images) -> None:
    """Bytes are images too; a suite with threats of its own needs none named."""
    nothing = [External("nothing", Linf(0.3), lambda x, y: x)]
    result = ccat.evaluate(model, mnist_test.x[:300], mnist_test.y[:300], suite=None, attacks=nothing)
    assert "No held_out images were given: the last 150 of 300 chose τ and are not counted." in result.table()
    assert result.evaluation.images == 150
    assert result.evaluation.attacks[0].pooled.error.value == result.evaluation.error.value
    with pytest.raises(ValueError, match=r"a TPR of 0\.99 needs at least 100 correctly classified held-out examples"):
        ccat.evaluate(model, mnist_test.x[:50], mnist_test.y[:50], attacks=nothing)


def test_attacks_of_others_are_scored_by_us(model: nn.Module, data: tuple[Tensor, Tensor, tuple[Tensor, Tensor]]) -> None:
    """foolbox and AutoAttack as they are on PyPI. They find what they say, and next to nothing that ours do not."""
    x, y, held_out = data
    threat = Linf(0.1)
    theirs = [
        adapters.foolbox(model, foolbox.attacks.LinfPGD(steps=40, random_start=True), threat),
        adapters.autoattack(model, threat, version="custom", attacks=["apgd-ce", "apgd-dlr"], seed=0),
    ]
    result = ccat.evaluate(model, x, y, held_out=held_out, threats=[threat], suite="demo", attacks=theirs, examples=40)
    (found,) = result.evaluation.attacks
    families = {family.name: family for family in found.families}
    assert {"foolbox LinfProjectedGradientDescentAttack", "AutoAttack custom"} <= set(families)
    clean = outcome(model, x[:40], y[:40])
    for one in theirs:
        x_adv = one.function(x[:40], y[:40]).clamp(0, 1)
        expected = metrics.robust_error(clean, ccat.worst(clean, [outcome(model, x_adv, y[:40])]), -math.inf)
        assert families[one.name].error_without_rejection == pytest.approx(expected, abs=0.026)  # foolbox has its own random numbers
    ours = ccat.evaluate(model, x, y, held_out=held_out, threats=[threat], suite="demo", examples=40)
    assert found.pooled.error.value <= ours.evaluation.attacks[0].pooled.error.value + 0.026
    with pytest.raises(ValueError, match="AutoAttack is made for Linf, L2 and L1, not for L0:3"):
        adapters.autoattack(model, ccat.L0(3))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: x[:, :, 1:], r"theirs must give images \(\d+, 1, 28, 28\) of torch.float32, not \(\d+, 1, 27, 28\)"),
        (lambda x, y: (255 * x).to(torch.uint8), "not .* of torch.uint8"),
        (lambda x, y: x.numpy(), "not ndarray"),
        (lambda x, y: torch.full_like(x, math.nan), "values that are not numbers, first in example 0"),
        (lambda x, y: x + 0.01, r"outside \[0,1\], first in example"),
        (lambda x, y: (x + 0.02).clamp(0, 1), r"theirs went beyond Linf:0.01: to 0.02, first in example 0; \d+ in all"),
    ],
)
def test_bad_attacks_of_others_are_refused(
    function: Function, message: str, model: nn.Module, data: tuple[Tensor, Tensor, tuple[Tensor, Tensor]]
) -> None:
    x, y, held_out = data
    with pytest.raises(ValueError, match=message):
        ccat.evaluate(model, x, y, held_out=held_out, suite=None, attacks=[External("theirs", Linf(0.01), function)])


def test_rounding_is_projected_away(model: nn.Module, data: tuple[Tensor, Tensor, tuple[Tensor, Tensor]]) -> None:
    x, y, held_out = data
    attack = External("theirs", Linf(0.1), lambda x, y: (x + 0.100005).clamp(0, 1))
    result = ccat.evaluate(model, x, y, held_out=held_out, suite=None, attacks=[attack])
    assert Linf(0.1).size(result.adversarial["Linf:0.1"] - x).max() <= 0.1 + 1e-7


class Odd(nn.Module):
    """Wrong in one way or another."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: Tensor) -> Tensor:
        logits = x.flatten(1)[:, 300:310]
        wrong = {"3d": logits[None], "few": logits[:, :3], "random": torch.rand_like(logits), "nan": logits / 0}
        return wrong[self.what]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("3d", r"must return logits of shape \(8, K\)"),
        ("few", "labels must be below 3"),
        ("random", "answers the same images differently each time"),
        ("nan", "not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:the model seems")
def test_bad_models_are_refused(what: str, message: str, data: tuple[Tensor, Tensor, tuple[Tensor, Tensor]]) -> None:
    x, y, held_out = data
    with pytest.raises(ValueError, match=message):
        ccat.evaluate(Odd(what), x, y, held_out=held_out, suite="demo")


def test_bad_data_are_refused(model: nn.Module, data: tuple[Tensor, Tensor, tuple[Tensor, Tensor]]) -> None:
    x, y, held_out = data
    with pytest.raises(ValueError, match=r"images must be in \[0,1\].*normalisation belongs inside the model"):
        ccat.evaluate(model, x * 3, y, held_out=held_out)
    with pytest.raises(ValueError, match="labels must be 60 integers"):
        ccat.evaluate(model, x, y.float(), held_out=held_out)
    with pytest.raises(ValueError, match="held_out has images of"):
        ccat.evaluate(model, x, y, held_out=(held_out[0][:, :, 1:], held_out[1]))
    with pytest.raises(ValueError, match="examples must be 1 to 60"):
        ccat.evaluate(model, x, y, held_out=held_out, examples=61)
    with pytest.raises(ValueError, match=r"the model must be an nn\.Module, not function"):
        ccat.evaluate(lambda x: x, x, y, held_out=held_out)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no suite 'quik'"):
        ccat.evaluate(model, x, y, held_out=held_out, suite="quik")
    with pytest.raises(ValueError, match="nothing to attack with"):
        ccat.evaluate(model, x, y, held_out=held_out, suite=None)
    with pytest.raises(ValueError, match="one image cannot be counted"):
        ccat.evaluate(model, x[:1], y[:1])


def test_no_pass_takes_more_images_than_asked_for() -> None:
    class Watched(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.sizes = torch.nn.Linear(16, 3), list[int]()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.sizes.append(len(x))
            out: torch.Tensor = self.layer(x.flatten(1))
            return out

    model, generator = Watched(), torch.Generator().manual_seed(0)
    case = SUITES["demo"][0]
    solve(model, torch.rand(20, 1, 4, 4), torch.zeros(20, dtype=torch.int64), case, generator, None, batch=6)
    assert model.sizes == [6, 6, 6, 2], "the model itself is asked for what its copy found"


def test_a_batch_of_nothing_is_refused() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(ValueError, match="batch must be"):
        ccat.evaluate(model, torch.rand(40, 1, 4, 4), torch.zeros(40, dtype=torch.int64), threats=[Linf(0.1)], batch=0)
