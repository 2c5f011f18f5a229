"""Planted errors: they are where they should be, strong attacks find them, weak ones do not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from digits import reader
from runs import says
from torch import Tensor, nn
from truth import seeded

import ccat
from ccat import APGD, L1, L2, PGD, SUITES, Beam, Case, External, Images, Linf, Suite, Threat
from ccat.attacking import Target
from ccat.attacking.check import check
from ccat.attacking.planted import ACCEPTED, Features, PlantedScore, plant
from ccat.attacks import Problem
from ccat.evaluation.planted import PlantedErrors
from ccat.objectives import other_class_confidence
from ccat.runs import Run
from ccat.threats import Condition

THREATS: dict[str, Threat] = {"Linf": Linf(0.1), "L2": L2(1.0), "L1": L1(5.0)}


@pytest.fixture(scope="module")
def model(mnist_train: Images) -> nn.Module:
    return reader().requires_grad_(False)


@pytest.fixture(scope="module")
def x(mnist_test: Images) -> Tensor:
    return mnist_test[:8].floats()


@pytest.mark.parametrize("threat", THREATS.values(), ids=THREATS)
def test_an_error_is_on_the_sphere_and_accepted_there_only(
    model: nn.Module, x: Tensor, mnist_test: Images, threat: Threat
) -> None:
    others = mnist_test[1000:1200].floats()
    plants = plant(model, x, threat, others, seeded())
    assert plants.separable.all()
    assert threat.size(plants.delta).allclose(torch.tensor(threat.epsilon), rtol=1e-3)
    score = PlantedScore(Features(model), plants, other_class_confidence)
    problem = Problem(x, threat, score)
    assert problem.evaluate(plants.delta).value.exp().min() > 0.95
    smaller = replace(threat, epsilon=0.9 * threat.epsilon)  # type: ignore[type-var]
    for seed in range(20):
        inside = Problem(x, smaller, score).evaluate(smaller.sample(x, seeded(seed)))
        assert inside.value.exp().max() < 0.5, "right at points further inside"


def test_strong_attacks_find_them_and_one_step_does_not(
    model: nn.Module, x: Tensor, mnist_train: Images, mnist_test: Images
) -> None:
    target = Target(model, pool=mnist_train[:500].floats())
    others = mnist_test[1000:1200].floats()
    weak = Case("one step", Linf(0.1), PGD(1, 0.1, momentum=0.0))
    strong = Case("strong", Linf(0.1), APGD(100))

    def one_step(images: Tensor, labels: Tensor) -> Tensor:
        return images

    outside = Case("theirs", Linf(0.1), External("theirs", one_step))
    found = check(target, "own", [weak, outside, strong], x, others)
    assert (found.planted, found.inseparable) == (8, 0)
    assert [one.name for one in found.attacks] == ["one step", "theirs", "strong"]
    assert found.attacks[0].found <= 2
    assert found.attacks[1].found == 0
    assert found.attacks[2].asked == 8 - found.attacks[0].found
    assert found.found >= 7
    assert check(target, "own", [weak, outside, strong], x, others) == found
    complete = check(target, "own", [weak, strong], x, others, complete=True)
    assert [one.asked for one in complete.attacks] == [8, 8]
    assert found.text == f"{found.found}/8"


def test_attacks_of_other_libraries_look_for_them_too(
    model: nn.Module, x: Tensor, mnist_test: Images
) -> None:
    foolbox = pytest.importorskip("foolbox")
    case = Case("theirs", Linf(0.1), ccat.Foolbox(foolbox.attacks.LinfPGD(steps=40)))
    found = check(Target(model), "own", [case], x[:3], mnist_test[1000:1200].floats())
    assert found.found >= 2


def test_where_nothing_can_be_told_apart_it_is_counted_apart(x: Tensor) -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(3, 2)

        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = self.last(0 * images.flatten(1)[:, :3])
            return logits

    case = Case("PGD", Linf(0.1), PGD(3, 0.1))
    found = check(Target(Constant()), "own", [case], x, x)
    assert (found.planted, found.inseparable, found.found, found.text) == (0, 8, 0, "none")


def test_features_are_the_input_of_the_last_layer_or_the_logits(x: Tensor) -> None:
    last = nn.Linear(784, 3)
    flat = nn.Sequential(nn.Flatten(), last)
    assert Features(flat)(x).equal(x.flatten(1))
    convolution = nn.Sequential(nn.Conv2d(1, 2, 28), nn.Flatten())
    assert Features(convolution)(x).equal(convolution(x))


def test_a_run_is_checked_by_itself_and_by_a_command(
    trained: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = (Case("Conf", Linf(0.1), PGD(5, 0.05)), Case("Conf", ccat.Frame(2), PGD(2, 0.5)))
    monkeypatch.setitem(SUITES, "tiny", Suite(cases))
    attack = ("attack", "tiny", "--suite", "tiny", "--workers", "1", "--examples", "100")
    says(capsys, *attack, "--no-check")
    assert trained.planted.read() == {}
    says(capsys, *attack)
    small = trained.planted.read()
    assert list(small) == [Condition(Linf(0.1))]
    assert small[Condition(Linf(0.1))].planted + small[Condition(Linf(0.1))].inseparable == 10
    shown = says(capsys, "evaluate", "tiny", "--tpr", "0.9")
    assert f"[{small[Condition(Linf(0.1))].text}]" in shown
    assert "errors planted in the model on purpose" in shown
    said = says(capsys, "check", "tiny", "--suite", "tiny", "--examples", "15", "--workers", "1")
    assert "all together" in said
    larger = trained.planted.read()[Condition(Linf(0.1))]
    assert larger.planted + larger.inseparable == 15
    says(capsys, *attack)
    assert trained.planted.read()[Condition(Linf(0.1))] == larger, "a larger check is kept"
    said = says(capsys, "check", "tiny", "--suite", "tiny", "--threat", "Frame:2", error=True)
    assert "L∞, L2 and L1 only" in said
    said = says(capsys, "check", "tiny", "--suite", "tiny", "--examples", "101", error=True)
    assert "--examples must be 1 to 100" in said
    (trained.path / "planted.json").write_text("{")
    assert "planted.json is damaged" in says(capsys, "evaluate", "tiny", error=True)


def test_any_model_is_checked_in_one_call(model: nn.Module, mnist_test: Images) -> None:
    images = mnist_test[:40].floats()
    result = ccat.check(
        model, images, threats=Linf(0.1), suite=None, attacks=[Beam(nearest=10)], examples=4
    )
    (found,) = result.checks.values()
    assert found.planted + found.inseparable == 4
    assert "all together" in str(result)
    for wrong, message in (
        ({"threats": ccat.Frame(1)}, "L∞, L2 and L1 only"),
        ({"threats": Linf(0.1), "examples": 0}, "examples"),
    ):
        with pytest.raises(ValueError, match=message):
            ccat.check(model, images, suite=None, attacks=[PGD(2, 0.1)], **wrong)
    with pytest.raises(ValueError, match="at least 4 images"):
        ccat.check(model, images[:2], threats=Linf(0.1))


def test_a_stored_check_is_read_with_care() -> None:
    plain = PlantedErrors("s", 3, 0, 2, ()).to_plain()
    assert PlantedErrors.from_plain(plain) == PlantedErrors("s", 3, 0, 2, ())
    with pytest.raises(ValueError, match="4 of 3 planted"):
        PlantedErrors.from_plain({**plain, "found": 4})
    assert ACCEPTED > 0.5
    assert Path("planted.json").name not in plain
