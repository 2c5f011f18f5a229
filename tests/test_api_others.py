"""Attacks and scores of one's own and of others in `ccat.evaluate`: the real libraries."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import foolbox
import numpy as np
import pytest
import torch
from digits import reader
from foolbox.models.pytorch import PyTorchModel
from pyautoattack import AutoAttack as TheirAutoAttack
from torch import Generator, Tensor, nn
from truth import seeded

import ccat
from ccat import (
    PGD,
    Attack,
    Case,
    Counts,
    Detector,
    External,
    Found,
    Images,
    Linf,
    Problem,
    Threat,
    cross_entropy,
    metrics,
)
from ccat.rejection import Aware, fit

APGD_CE = ("custom", (("attacks", ("apgd-ce",)),))
Data = tuple[Tensor, Tensor, tuple[Tensor, Tensor]]


@pytest.fixture(scope="module")
def model(mnist_train: Images) -> nn.Module:
    return reader()


@pytest.fixture(scope="module")
def data(mnist_test: Images) -> Data:
    calibration = mnist_test[-300:]
    return mnist_test[:40].floats(), mnist_test[:40].y, (calibration.floats(), calibration.y)


def outcome(model: nn.Module, x: Tensor, y: Tensor) -> metrics.Outcome:
    with torch.no_grad():
        return metrics.outcome(model(x).softmax(1).numpy(), y.numpy())


def evaluate(model: nn.Module, data: Data, **options: Any) -> ccat.Result:
    x, y, calibration = data
    options = {"suite": None, "rest_tpr": None, **options}
    return ccat.evaluate(model, x, y, calibration=calibration, **options)


def families(result: ccat.Result) -> dict[str, float]:
    """The robust error of each family without rejection, under the only condition."""
    (found,) = result.evaluation.attacks
    return {family.name: family.without_rejection for family in found.families}


@dataclass(frozen=True)
class MyAttack(Attack):
    """The best of some random corners of the ball."""

    corners: int

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        found = problem.evaluate(torch.zeros_like(problem.x))
        for _ in range(self.corners):
            signs = torch.randint(2, problem.x.shape, generator=generator) * 2.0 - 1
            found = ccat.best(found, problem.evaluate(problem.threat.epsilon * signs))
        return found

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + self.corners)


def test_an_attack_of_ones_own_is_given_as_it_is(model: nn.Module, data: Data) -> None:
    threats = [Linf(0.2), ccat.L2(2.0)]
    result = evaluate(model, data, threats=threats, attacks=[MyAttack(5)])
    assert [found.condition.title for found in result.evaluation.attacks] == ["Linf:0.2", "L2:2"]
    for found in result.evaluation.attacks:
        assert [family.name for family in found.families] == ["MyAttack"]
        assert found.pooled.forwards == 6
    as_case = evaluate(model, data, suite=[Case("MyAttack", Linf(0.2), MyAttack(5))])
    assert as_case.adversarial["Linf:0.2"].equal(result.adversarial["Linf:0.2"])
    assert "| MyAttack" in as_case.table("attacks")


def test_attacks_are_added_to_a_suite_within_its_threats(model: nn.Module, data: Data) -> None:
    suite = [
        Case("PGD", Linf(0.1), PGD(3, 0.05)),
        Case("noise", ccat.L2(1.0), PGD(3, 0.05), ccat.any_class_confidence, source="noise"),
    ]
    result = evaluate(model, data, suite=suite, attacks=[MyAttack(2), MyAttack(3)])
    titles = {found.condition.title: found for found in result.evaluation.attacks}
    assert set(titles) == {"Linf:0.1", "distal L2:1"}
    names = [family.name for family in titles["Linf:0.1"].families]
    assert names == ["PGD", "MyAttack 1", "MyAttack 2"]


def greyer(x: Tensor, y: Tensor, by: float = 0.1) -> Tensor:
    return x + (0.5 - x).clamp(-by, by)


def test_a_function_is_an_attack(model: nn.Module, data: Data) -> None:
    """Of each its own result, also where several have no name that could be stored."""
    x, y, _ = data
    attacks = [
        greyer,
        partial(greyer, by=0.05),
        lambda x, y: x,
        lambda x, y: (x + 0.1).clamp(0, 1),
    ]
    result = evaluate(model, data, threats=Linf(0.1), attacks=attacks)
    (found,) = result.evaluation.attacks
    names = [family.name for family in found.families]
    assert names == ["greyer 1", "greyer 2", "<lambda> 1", "<lambda> 2"]
    images = [greyer(x, y), greyer(x, y, 0.05), x, (x + 0.1).clamp(0, 1)]
    for attempt, given in zip(result.outcomes.attempts, images, strict=True):
        expected = outcome(model, given, y)
        answers = next(iter(attempt.answers.values()))
        np.testing.assert_array_equal(answers.outcome.wrong, expected.wrong)
        np.testing.assert_allclose(answers.outcome.score, expected.score, atol=1e-5)


def test_a_function_gets_every_block_with_its_labels(mnist_test: Images) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    images = mnist_test[:250]
    seen: list[tuple[Tensor, Tensor]] = []

    def watching(x: Tensor, y: Tensor) -> Tensor:
        seen.append((x.clone(), y.clone()))
        x.zero_()  # what is given is a copy
        return torch.zeros_like(x)

    calibration = (images.floats(), model(images.floats()).argmax(1))
    data = (images.floats(), images.y, calibration)
    evaluate(model, data, threats=Linf(1.0), attacks=[watching])
    assert [len(y) for _, y in seen] == [1, 100, 100, 50], "it is tried out on one image first"
    assert torch.cat([x for x, _ in seen[1:]]).equal(images.floats())
    assert torch.cat([y for _, y in seen[1:]]).equal(images.y)


def test_attacks_of_others_are_scored_by_us(model: nn.Module, data: Data) -> None:
    """foolbox and AutoAttack as they are on PyPI find what they say they find."""
    x, y, _ = data
    threat = Linf(0.1)
    theirs = foolbox.attacks.LinfPGD(steps=40, random_start=True)
    options = {"attacks": ["apgd-ce", "apgd-dlr"], "seed": 0}
    result = evaluate(
        model,
        data,
        threats=threat,
        attacks=[
            ccat.Foolbox(theirs),
            ccat.AutoAttack("custom", tuple(options.items())),
            PGD(40, 0.01),
        ],
    )
    found = families(result)
    name = "foolbox LinfProjectedGradientDescentAttack"
    assert list(found) == [name, "AutoAttack custom", "PGD"]
    torch.manual_seed(0)
    other = reader()
    wrapped = PyTorchModel(other, bounds=(0, 1), device="cpu")
    by_foolbox = theirs(wrapped, x, y, epsilons=0.1)[1]
    by_autoattack = TheirAutoAttack(
        other, norm="Linf", eps=0.1, version="custom", device=torch.device("cpu"), **options
    ).run_standard_evaluation(x, y, batch_size=40)[0]
    clean = outcome(model, x, y)
    for family, images in ((name, by_foolbox), ("AutoAttack custom", by_autoattack)):
        worst = ccat.worst(clean, [outcome(model, images.clamp(0, 1), y)])
        expected = metrics.robust_error(clean, worst, -math.inf)
        assert found[family] == pytest.approx(expected, abs=0.026)  # one image of forty
        assert found[family] > metrics.error(clean, -math.inf)
    (pooled,) = (one.pooled for one in result.evaluation.attacks)
    assert pooled.attempts == 3
    assert pooled.without_rejection >= max(found.values()) - 1e-9


def test_ours_find_nearly_all_that_others_find(model: nn.Module, data: Data) -> None:
    threat = Linf(0.1)
    ours = evaluate(model, data, suite="demo", threats=threat, examples=20)
    theirs = evaluate(
        model,
        data,
        threats=threat,
        examples=20,
        attacks=[ccat.Foolbox(foolbox.attacks.LinfPGD(steps=40)), ccat.AutoAttack(*APGD_CE)],
    )
    (mine,), (other,) = ours.evaluation.attacks, theirs.evaluation.attacks
    assert other.pooled.headline.value <= mine.pooled.headline.value + 0.051  # one of twenty
    assert other.pooled.without_rejection <= mine.pooled.without_rejection + 0.051


def test_autoattack_within_other_norms_and_not_within_pixels(model: nn.Module, data: Data) -> None:
    attack = ccat.AutoAttack(*APGD_CE)
    threats: list[Threat] = [ccat.L2(1.0), ccat.L1(5.0)]
    result = evaluate(model, data, threats=threats, attacks=[attack], examples=10)
    x = data[0][:10]
    for threat in threats:
        images = result.adversarial[ccat.threats.label(threat)]
        assert (threat.size(images - x) <= threat.epsilon * (1 + 1e-5)).all()
    with pytest.raises(
        ValueError,
        match="case 'AutoAttack standard': AutoAttack does not support the threat L0:3",
    ):
        evaluate(model, data, threats=ccat.L0(3), attacks=[ccat.AutoAttack()])


def test_the_model_is_as_before_after_attacks_of_others(model: nn.Module, data: Data) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    evaluate(
        model,
        data,
        threats=Linf(0.1),
        attacks=[ccat.Foolbox(foolbox.attacks.LinfPGD(steps=3)), ccat.AutoAttack(*APGD_CE)],
        examples=5,
    )
    assert torch.get_rng_state().equal(state)
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert all(weight.requires_grad for weight in model.parameters())
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x, y: x[:, :, 1:],
            r"theirs must give images \(\d+, 1, 28, 28\) of torch.float32, not \(\d+, 1, 27, 28\)",
        ),
        (lambda x, y: (255 * x).to(torch.uint8), "not .* of torch.uint8"),
        (lambda x, y: x.numpy(), "not ndarray"),
        (
            lambda x, y: torch.full_like(x, math.nan),
            "values that are not numbers, first in example 0",
        ),
        (lambda x, y: x + 0.01, r"outside \[0,1\], first in example"),
        (
            lambda x, y: (x + 0.02).clamp(0, 1),
            r"theirs went beyond Linf:0.01: to 0.02, first in example 0; \d+ in all",
        ),
    ],
)
def test_bad_attacks_of_others_are_refused(
    function: Callable[[Tensor, Tensor], Tensor], message: str, model: nn.Module, data: Data
) -> None:
    """One image is enough to find out."""
    with pytest.raises(ValueError, match=message):
        evaluate(model, data, threats=Linf(0.01), attacks=[External("theirs", function)])


def test_a_function_that_fails_later_is_named_with_its_block(mnist_test: Images) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    x = mnist_test[:250].floats()
    y = model(x).argmax(1)

    def moody(x: Tensor, y: Tensor) -> Tensor:
        return (x + 0.2).clamp(0, 1) if len(x) == 50 else x

    where = "Linf:0.1 moody, in the block that begins at example 200: moody went beyond Linf:0.1"
    with pytest.raises(ValueError, match=where):
        evaluate(model, (x, y, (x, y)), threats=Linf(0.1), attacks=[moody])


class NotADataclass(Attack):
    def __call__(self, problem: Problem, generator: Generator) -> Found:
        return problem.evaluate(problem.x)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)


@dataclass
class NotFrozen(NotADataclass):
    corners: int = 1


@dataclass(frozen=True)
class Wrong(NotADataclass):
    def __call__(self, problem: Problem, generator: Generator) -> Found:
        return problem.x  # type: ignore[return-value]


@dataclass(frozen=True)
class Beyond(NotADataclass):
    def __call__(self, problem: Problem, generator: Generator) -> Found:
        return Found(1 - problem.x, torch.zeros(len(problem.x)))


@dataclass(frozen=True)
class Half:
    corners: int = 1


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (NotADataclass(), "test_api_others:NotADataclass must be a frozen dataclass"),
        (NotFrozen(), "NotFrozen must be frozen"),
        (MyAttack, "test_api_others:MyAttack is a class: make an instance, MyAttack"),
        (Half(), "test_api_others:Half has no .*cost.*: inherit from ccat.Attack"),
        (3, "the attack builtins:int must be a frozen dataclass"),
        (Wrong(), r"Wrong must return a Found with delta \(\d+, 1, 28, 28\)"),
        (Beyond(), r"Beyond returned perturbations outside of Linf:0.1 or of \[0,1\]"),
    ],
)
def test_bad_attacks_of_ones_own_are_refused(
    attack: Any, message: str, model: nn.Module, data: Data
) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(model, data, threats=Linf(0.1), attacks=[attack])


def test_rounding_is_projected_away(model: nn.Module, data: Data) -> None:
    x, _, _ = data
    attack = External("theirs", lambda x, y: (x + 0.100005).clamp(0, 1))
    result = evaluate(model, data, threats=Linf(0.1), attacks=[attack])
    assert Linf(0.1).size(result.adversarial["Linf:0.1"] - x).max() <= 0.1 + 1e-7


@pytest.fixture(scope="module")
def detector(model: nn.Module, mnist_train: Images) -> Detector:
    known, others = mnist_train[:1500], mnist_train[2000:2300]
    x, y = others.floats(), others.y
    problem = Problem.of(model, x, y, Linf(0.3), cross_entropy)
    attacked = problem.images(PGD(10, 0.05)(problem, seeded()))
    with torch.no_grad():
        rows = (model(x).argmax(1) == y) & (model(attacked).argmax(1) != y)
    clean = (known.floats(), known.y)
    return fit("mahalanobis", model, ("relu3",), clean, x[rows], attacked[rows], None)


def test_a_fitted_detector_rejects(model: nn.Module, data: Data, detector: Detector) -> None:
    x, y, (x_val, y_val) = data
    options: dict[str, Any] = {"threats": Linf(0.3), "attacks": [PGD(10, 0.05)], "tpr": 0.8}
    result = evaluate(model, data, **options, rejection=detector)
    right = ~outcome(model, x_val, y_val).wrong
    calibration = metrics.Outcome(~right, detector(x_val).double().numpy())
    tau = metrics.threshold(calibration, 0.8)
    assert result.evaluation.tau == pytest.approx(tau, rel=1e-5)
    clean = metrics.Outcome(outcome(model, x, y).wrong, detector(x).double().numpy())
    assert result.evaluation.rates["coverage"].value == metrics.coverage(clean, tau)
    images = result.adversarial["Linf:0.3"]
    attacked = metrics.Outcome(outcome(model, images, y).wrong, detector(images).double().numpy())
    (found,) = result.evaluation.attacks
    worst = ccat.worst(clean, [attacked])
    expected = metrics.robust_error(clean, worst, tau)
    assert found.pooled.headline.value == pytest.approx(expected, abs=1e-6)
    by_confidence = evaluate(model, data, **options)
    (confident,) = by_confidence.evaluation.attacks
    assert found.pooled.without_rejection == confident.pooled.without_rejection
    assert found.pooled.headline.value < confident.pooled.headline.value


def test_a_case_may_know_the_detector(model: nn.Module, data: Data, detector: Detector) -> None:
    unaware = Case("unaware", Linf(0.3), PGD(30, 0.02))
    aware = dataclasses.replace(unaware, name="aware", objective=Aware(), family="")
    result = evaluate(model, data, suite=[unaware, aware], rejection=detector, examples=20)
    (found,) = result.evaluation.attacks
    by_name = {family.name: family for family in found.families}
    assert by_name["aware"].auc < 0.2
    assert by_name["unaware"].auc > 0.8
    assert [one.aware for one in result.outcomes.attempts] == [False, True]
    with pytest.raises(ValueError, match="case 'aware' knows a detector, but"):
        evaluate(model, data, suite=[aware])


def test_any_function_of_images_and_probabilities_may_reject(model: nn.Module, data: Data) -> None:
    """Here: whatever is said to be a 1 is accepted, all else is not."""

    def ones(images: Tensor, probabilities: Tensor) -> Tensor:
        assert len(images) == len(probabilities)
        return (probabilities.argmax(1) == 1).double()

    x, *_ = data
    attacks = [PGD(3, 0.05)]
    result = evaluate(model, data, threats=Linf(0.1), attacks=attacks, rejection=ones, tpr=0.05)
    assert result.evaluation.tau == 1
    with torch.no_grad():
        answers = model(x).argmax(1)
    share = (answers == 1).double().mean().item()
    assert result.evaluation.rates["coverage"].value == pytest.approx(share)
    wrong = evaluate(model, data, threats=Linf(0.1), attacks=attacks, rejection=ccat.Confidence())
    own = evaluate(model, data, threats=Linf(0.1), attacks=attacks)
    assert wrong.table() == own.table(), "the confidence is a score like any other"
    with pytest.raises(ValueError, match="scores must be finite"):
        evaluate(
            model,
            data,
            threats=Linf(0.1),
            attacks=attacks,
            rejection=lambda images, given: given.amax(1) * math.nan,
        )


def test_stored_answers_give_what_the_model_gives(model: nn.Module, data: Data) -> None:
    x, y, (x_val, y_val) = data
    result = evaluate(model, data, threats=Linf(0.1), attacks=[PGD(10, 0.02)], tpr=0.9)
    with torch.no_grad():
        logits, val, worst = (model(one) for one in (x, x_val, result.adversarial["Linf:0.1"]))
    stored = ccat.evaluate_stored(
        logits, y, {Linf(0.1): [worst, logits]}, calibration=(val, y_val), tpr=0.9
    )
    assert stored.evaluation.tau == pytest.approx(result.evaluation.tau)
    (found,), (expected,) = stored.evaluation.attacks, result.evaluation.attacks
    assert found.pooled.headline.value == pytest.approx(expected.pooled.headline.value)
    assert found.pooled.attempts == 2
    confidence, answer = worst.softmax(1).max(1)
    clean, scores = logits.softmax(1).max(1), val.softmax(1).max(1)
    by_score = ccat.evaluate_stored(
        (clean.indices, clean.values),
        y,
        {Linf(0.1): (answer, confidence)},
        calibration=((scores.indices, scores.values), y_val),
        tpr=0.9,
    )
    assert by_score.evaluation.attacks[0].pooled.headline == found.pooled.headline
    noise = ccat.evaluate_stored(
        logits, y, {ccat.Condition(Linf(0.1), "noise"): logits}, calibration=(val, y_val), tpr=0.9
    )
    assert noise.evaluation.attacks[0].pooled.headline.value > 0.5
    assert "stored" in noise.table("attacks")
    for attacked, message in (
        (logits[:, 0], r"expected logits \(40, K\)"),
        (torch.cat([logits, logits]), "do not match"),
        ((answer[:3].float(), confidence[:3]), "integers"),
        ((answer[:3], confidence), "do not match"),
        (logits * float("nan"), "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            ccat.evaluate_stored(logits, y, {Linf(0.1): attacked}, calibration=(val, y_val))
