"""Any model in three lines: what `ccat.evaluate` measures, returns and refuses.

Attacks of one's own and of others are in test_api_others.py, `ccat.attack` in test_api_attack.py.
"""

import math

import numpy as np
import pytest
import torch
from digits import reader
from torch import Tensor, nn
from truth import seeded

import ccat
from ccat import PGD, Case, External, Images, Linf, any_class_confidence, metrics
from ccat.attacking import Target, attack_block
from ccat.catalog.suites import SUITES
from ccat.evaluation.groups import pooled_outcome

Data = tuple[Tensor, Tensor, tuple[Tensor, Tensor]]


@pytest.fixture(scope="module")
def model(mnist_train: Images) -> nn.Module:
    return reader()


@pytest.fixture(scope="module")
def data(mnist_test: Images) -> Data:
    calibration = mnist_test[-300:]
    return mnist_test[:60].floats(), mnist_test[:60].y, (calibration.floats(), calibration.y)


def outcome(model: nn.Module, x: Tensor, y: Tensor) -> metrics.Outcome:
    with torch.no_grad():
        return metrics.outcome(model(x).softmax(1).numpy(), y.numpy())


def test_three_lines_give_what_the_parts_give(model: nn.Module, data: Data) -> None:
    x, y, calibration = data
    threats: dict[str, ccat.Threat] = {"Linf:0.1": Linf(0.1), "L0:4": ccat.L0(4)}
    model.train()
    norm = next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = ccat.evaluate(
        model,
        x,
        y,
        calibration=calibration,
        threats=list(threats.values()),
        suite="demo",
        examples=20,
        name="mine",
    )
    assert model.training
    assert not norm.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    model.eval()
    tau = metrics.threshold(outcome(model, *calibration), 0.99)
    clean = outcome(model, x, y)
    evaluation = result.evaluation
    assert evaluation.tau == tau
    assert evaluation.rates["error"].value == metrics.error(clean, tau)
    assert [found.condition.title for found in evaluation.attacks] == list(threats)
    for found in evaluation.attacks:
        title = found.condition.title
        adversarial = result.adversarial[title]
        size = threats[title].size(adversarial - x[:20])
        assert size.max() <= threats[title].epsilon + 1e-6
        worst = ccat.worst(clean[:20], [outcome(model, adversarial, y[:20])])
        robust_error = found.pooled.rates["robust_error"].value
        assert robust_error == pytest.approx(metrics.robust_error(clean[:20], worst, tau))
        assert found.pooled.headline.value == robust_error
        assert found.pooled.attempts == (3 if isinstance(threats[title], Linf) else 1)
        assert robust_error > metrics.error(clean[:20], tau)
    shown = str(result)
    for part in ("| mine", "Err", "Linf:0.1", "L0:4", "coverage", "(", "99 % TPR"):
        assert part in shown
    assert "| mine" in result.table("attacks")
    assert "at 95 %" in result.at(tpr=0.95).table()
    assert result.at(tau=-math.inf).evaluation.rates["coverage"].value == 1
    with pytest.raises(ValueError, match="there is no table 'none'; there are main"):
        result.table("none")


def test_without_calibration_images_the_last_ones_are_split_off(
    model: nn.Module, mnist_test: Images
) -> None:
    """Bytes are images too."""
    nothing = [External("nothing", lambda x, y: x)]
    x, y = mnist_test.x[:300], mnist_test.y[:300]
    result = ccat.evaluate(model, x, y, threats=Linf(0.3), suite=None, attacks=nothing)
    assert "No calibration images were given: the last 150 of 300 chose τ" in result.table()
    assert (result.evaluation.images, result.evaluation.calibration) == (150, 150)
    (found,) = result.evaluation.attacks
    assert found.pooled.headline.value == result.evaluation.rates["error"].value
    with pytest.raises(ValueError, match=r"a TPR of 0\.99 needs at least 100 correctly classified"):
        ccat.evaluate(model, x[:50], y[:50], threats=Linf(0.3), attacks=nothing)


def test_a_single_threat_needs_no_list(model: nn.Module, data: Data) -> None:
    x, y, calibration = data
    options = {"calibration": calibration, "suite": None, "attacks": [PGD(10, 0.03)]}
    one = ccat.evaluate(model, x, y, threats=Linf(0.1), **options)  # type: ignore[arg-type]
    several = ccat.evaluate(model, x, y, threats=[Linf(0.1)], **options)  # type: ignore[arg-type]
    assert one.adversarial["Linf:0.1"].equal(several.adversarial["Linf:0.1"])
    assert not one.adversarial["Linf:0.1"].equal(x)
    assert one.table() == several.table()


def test_a_suite_may_be_cases_of_ones_own(model: nn.Module, data: Data) -> None:
    """What is found within a smaller ε counts within a larger one; noise has no worst images."""
    x, y, calibration = data
    suite = [
        Case("small", Linf(0.05), PGD(5, 0.02), restarts=2),
        Case("large", Linf(0.1), PGD(5, 0.02, start="random")),
        Case("noise", Linf(0.1), PGD(3, 0.05), any_class_confidence, source="noise"),
    ]
    result = ccat.evaluate(model, x, y, calibration=calibration, suite=suite, seen=[Linf(0.05)])
    small, large, noise = result.evaluation.attacks
    titles = [found.condition.title for found in (small, large, noise)]
    assert titles == ["Linf:0.05", "Linf:0.1", "distal Linf:0.1"]
    assert [found.pooled.attempts for found in (small, large, noise)] == [2, 3, 1]
    assert [found.seen for found in (small, large, noise)] == [True, False, False]
    assert {family.name for family in large.families} == {"small", "large"}
    assert list(noise.pooled.rates) == ["accepted_noise"]
    assert set(result.adversarial) == {"Linf:0.05", "Linf:0.1"}
    assert large.pooled.headline.value >= small.pooled.headline.value


@pytest.mark.parametrize("epsilon", [0.03, 0.1])
def test_adversarial_images_are_the_worst_case_of_every_example(
    epsilon: float, model: nn.Module, data: Data
) -> None:
    """Example by example, and the image itself where nobody broke it."""
    x, y, calibration = data
    suite = [
        Case("zero", Linf(epsilon), PGD(8, epsilon / 5)),
        Case("random", Linf(epsilon), PGD(4, epsilon / 3, start="random"), restarts=2),
        Case("half", Linf(epsilon / 2), PGD(8, epsilon / 5)),
    ]
    result = ccat.evaluate(model, x, y, calibration=calibration, suite=suite)
    group = result.outcomes.groups[-1]
    title = group.condition.title
    assert len(group.members) == 4
    clean = outcome(model, x, y)
    attempts = [result.outcomes.attempts[n].answers[group.judge].outcome for n in group.members]
    expected, by = metrics.worst_of(clean, attempts)
    broken = by >= 0
    assert 0 < broken.sum() < len(x), "some are broken and some are not"
    images = result.adversarial[title]
    assert images[~torch.from_numpy(broken)].equal(x[~torch.from_numpy(broken)])
    assert (images != x).flatten(1).any(1).numpy()[broken].all()
    found = outcome(model, images, y)
    np.testing.assert_array_equal(found.wrong, expected.wrong)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-5)
    counted = pooled_outcome(result.outcomes, group)[1]
    np.testing.assert_array_equal(counted.wrong, expected.wrong)
    np.testing.assert_allclose(counted.score, expected.score, atol=1e-6)


def test_an_image_that_is_wrong_anyway_is_kept_where_no_attempt_is(data: Data) -> None:
    """Attempts that fail do not count, whatever the answer to the image itself."""

    class Bright(nn.Module):
        """Says 1 of bright images."""

        def forward(self, x: Tensor) -> Tensor:
            margin = 20 * (x.mean((1, 2, 3)) - 0.5)
            return torch.stack([-margin, margin], 1)

    x = torch.rand(40, 1, 4, 4, generator=seeded(1)) * 0.2
    x[20:] += 0.8
    y = torch.tensor([0] * 15 + [1] * 5 + [1] * 20)  # five are wrong
    result = ccat.evaluate(
        Bright(),
        x,
        y,
        calibration=(x, y),
        tpr=0.9,
        threats=Linf(0.6),
        suite=None,
        attacks=[lambda x, y: torch.where(y.bool()[:, None, None, None], (x + 0.6), x).clamp(0, 1)],
    )
    images = result.adversarial["Linf:0.6"]
    assert images.equal(x), "brighter images of class 1 are right, so nothing was found"
    (found,) = result.evaluation.attacks
    assert found.pooled.without_rejection == pytest.approx(5 / 40)


class Odd(nn.Module):
    """Wrong in one way or another."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: Tensor) -> Tensor:
        logits = x.flatten(1)[:, 300:310]
        wrong = {
            "3d": logits[None],
            "few": logits[:, :3],
            "random": torch.rand_like(logits),
            "nan": logits / 0,
        }
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
def test_bad_models_are_refused(what: str, message: str, data: Data) -> None:
    x, y, calibration = data
    with pytest.raises(ValueError, match=message):
        ccat.evaluate(Odd(what), x, y, calibration=calibration, suite="demo")


def test_bad_data_are_refused(model: nn.Module, data: Data) -> None:
    x, y, calibration = data
    with pytest.raises(
        ValueError, match=r"images must be in \[0,1\].*normalisation belongs inside the model"
    ):
        ccat.evaluate(model, x * 3, y, calibration=calibration)
    with pytest.raises(ValueError, match="labels must be 60 integers"):
        ccat.evaluate(model, x, y.float(), calibration=calibration)
    with pytest.raises(ValueError, match="calibration has images of"):
        ccat.evaluate(model, x, y, calibration=(calibration[0][:, :, 1:], calibration[1]))
    with pytest.raises(ValueError, match=r"calibration must be a pair \(images, labels\)"):
        ccat.evaluate(model, x, y, calibration=x)  # type: ignore[arg-type]
    for examples in (0, 61, True, 2.5):
        with pytest.raises(ValueError, match="examples must be 1 to 60"):
            ccat.evaluate(model, x, y, calibration=calibration, examples=examples)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"the model must be an nn\.Module, not function"):
        ccat.evaluate(lambda x: x, x, y, calibration=calibration)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one image cannot be counted"):
        ccat.evaluate(model, x[:1], y[:1])
    with pytest.raises(ValueError, match="TPR must lie strictly between 0 and 1"):
        ccat.evaluate(model, x, y, calibration=calibration, tpr=99)


def test_bad_choices_of_attacks_are_refused(model: nn.Module, data: Data) -> None:
    x, y, calibration = data
    case = Case("mine", Linf(0.1), PGD(2, 0.1))

    def refused(message: str, **options: object) -> None:
        with pytest.raises(ValueError, match=message):
            ccat.evaluate(model, x, y, calibration=calibration, **options)  # type: ignore[arg-type]

    refused("there is no suite 'quik'", suite="quik")
    refused("nothing to attack with", suite=None)
    refused("nothing to attack with", suite=[], threats=Linf(0.1))
    refused("within which threats", suite=None, attacks=[PGD(2, 0.1)])
    refused("and Suite is neither", suite=SUITES["demo"])
    refused("and PGD is neither", suite=[case, PGD(2, 0.1)])
    refused("cases of your own have threats of their own", suite=[case], threats=Linf(0.2))
    for threats in (0.3, "Linf:0.3", ["Linf:0.3"], Linf):
        refused(r"a threat is given as ccat\.Linf\(8 / 255\)", threats=threats)
    refused("Frame: a border of 14 leaves nothing", threats=ccat.Frame(14), suite="demo")
    refused("Detection must be fitted first", rejection=ccat.Detection("lid"))
    refused(
        r"ccat\.Detector, or a rejection such as ccat\.Consistency\(\), not float", rejection=0.9
    )


def test_no_pass_takes_more_images_than_asked_for() -> None:
    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.sizes = nn.Linear(16, 3), list[int]()

        def forward(self, x: Tensor) -> Tensor:
            self.sizes.append(len(x))
            out: Tensor = self.layer(x.flatten(1))
            return out

    model = Watched()
    x, y = torch.rand(20, 1, 4, 4), torch.zeros(20, dtype=torch.int64)
    attack_block(Target(model, batch=6), SUITES["demo"].cases[0], x, y, seeded())
    assert model.sizes == [6, 6, 6, 2], "the model itself is asked for what its copy found"


def test_a_batch_of_nothing_is_refused() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    x, y = torch.rand(40, 1, 4, 4), torch.zeros(40, dtype=torch.int64)
    with pytest.raises(ValueError, match="batch must be"):
        ccat.evaluate(model, x, y, threats=[Linf(0.1)], batch=0)


def test_progress_is_told_in_passes_up_to_the_end(model: nn.Module, data: Data) -> None:
    x, y, calibration = data
    told: list[tuple[float, float, str]] = []
    ccat.evaluate(
        model,
        x,
        y,
        calibration=calibration,
        suite=[Case("one", Linf(0.1), PGD(2, 0.1)), Case("two", ccat.L2(1.0), PGD(4, 0.1))],
        progress=lambda done, total, text: told.append((done, total, text)),
    )
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1]
    assert {total for _, total, _ in told} == {told[0][1]}
    assert [text for _, _, text in told[:2]] == ["2 blocks", "1 of 2 blocks, L2:1 two"]
    assert told[-1][2].startswith("2 blocks, per image ")
