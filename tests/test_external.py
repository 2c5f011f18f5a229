"""Attacks of others: the real libraries, any function, and what is refused of them."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import foolbox
import pytest
import torch
from test_threats import images
from torch import Tensor, nn
from truth import Small, seeded

import ccat
from ccat import (
    APGD,
    L0,
    L1,
    L2,
    PGD,
    Attack,
    AutoAttack,
    External,
    Foolbox,
    Frame,
    Images,
    Linf,
    Problem,
    Threat,
    best,
    other_class_confidence,
)
from ccat.attacks import Counts, Given, checked_delta

TARGETED = AutoAttack("custom", (("attacks", ["apgd-ce", "apgd-dlr"]),))


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


def small(threat: Threat, model: nn.Module | None = None) -> Problem:
    model = model or Small(3, 10)
    return Problem.of(model, images(1), torch.arange(4), threat, other_class_confidence)


def fooled(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        wrong: Tensor = model(x).argmax(1) != y
    return wrong.double().mean().item()


def test_attacks_of_others_are_scored_by_us(model: nn.Module, mnist_test: Images) -> None:
    """foolbox and AutoAttack as they are on PyPI find next to nothing that ours do not."""
    x, y = mnist_test[:40].floats(), mnist_test[:40].y
    threat = Linf(0.1)
    problem = Problem.of(model, x, y, threat, other_class_confidence)
    ours = best(PGD(40, 0.01)(problem, seeded()), APGD(40)(problem, seeded()))
    unmoved, share = fooled(model, x, y), fooled(model, problem.images(ours), y)
    assert share > unmoved + 0.2
    theirs: list[Foolbox | AutoAttack] = [
        Foolbox(foolbox.attacks.LinfPGD(steps=40, random_start=True)),
        TARGETED,
    ]
    assert [one.name for one in theirs] == [
        "foolbox LinfProjectedGradientDescentAttack",
        "AutoAttack custom",
    ]
    for one in theirs:
        before = problem.counts.forwards
        found = one(problem, seeded())
        assert problem.counts.forwards > before + 20 * len(x), "their passes are counted"
        assert threat.size(found.delta).max() <= 0.1 * (1 + 1e-6)
        with torch.no_grad():
            value = other_class_confidence(model(problem.images(found)), y)
        torch.testing.assert_close(found.value, value)
        assert fooled(model, problem.images(found), y) > unmoved + 0.2
        together = problem.images(best(ours, found))
        assert fooled(model, together, y) <= share + 0.026


def test_libraries_find_the_same_each_time_whatever_was_drawn_before() -> None:
    theirs = Foolbox(foolbox.attacks.LinfPGD(steps=3, random_start=True))
    found = theirs(small(Linf(0.1)), seeded(1))
    torch.rand(3)
    again = theirs(small(Linf(0.1)), seeded(2))
    assert again.delta.equal(found.delta)


@pytest.mark.parametrize("norm", [Linf(0.1), L2(0.5), L1(3.0)], ids=lambda one: type(one).__name__)
def test_autoattack_takes_norm_and_size_of_the_threat(norm: Threat) -> None:
    attack = AutoAttack("custom", (("attacks", ["apgd-ce"]), ("seed", 1)))
    problem = Problem.of(
        Small(3, 10).float(), images(1).float(), torch.arange(4), norm, other_class_confidence
    )
    found = attack(problem, seeded())
    assert (norm.size(found.delta) <= norm.epsilon * (1 + 1e-5)).all()


def test_autoattack_is_made_for_three_norms() -> None:
    supported = [AutoAttack().supports(one) for one in (Linf(0.1), L2(1.0), L1(1.0))]
    assert supported == [True] * 3
    for threat in (L0(3), Frame(1)):
        assert not AutoAttack().supports(threat)
        with pytest.raises(ValueError, match="AutoAttack is made for Linf, L2 and L1, not for"):
            AutoAttack()(small(threat), seeded())


def test_autoattack_runs_some_attacks_of_a_version_with_its_restarts() -> None:
    """On its own, "custom" restarts APGD five times, and "standard" does not."""
    passes = {}
    model, x = Small(3, 10).float(), images(1).float()
    about = (model, x, model(x).argmax(1), Linf(1e-6), other_class_confidence)
    for version in ("standard", "custom"):
        problem = Problem.of(*about)  # nothing is found, so that no restart is left out
        AutoAttack(version, (("attacks", ("apgd-ce",)),))(problem, seeded())
        passes[version] = problem.counts.backwards
    assert 0 < 4 * passes["standard"] < passes["custom"]
    unknown = AutoAttack("standard", (("attacks", ("apgd-ce", "apgd")),))
    with pytest.raises(ValueError, match="AutoAttack standard has no 'apgd', only apgd-ce, apgd-t"):
        unknown(small(Linf(0.001)), seeded())
    with pytest.raises(ValueError, match="`attacks` names none"):
        AutoAttack("standard", (("attacks", ()),))(small(Linf(0.001)), seeded())


@pytest.mark.parametrize(
    ("attack", "library"),
    [(Foolbox(None), "foolbox.models.pytorch"), (TARGETED, "pyautoattack")],
)
def test_a_library_that_is_not_installed_is_named(
    attack: Attack, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=r"pip install 'ccat-torch\[peers\]'"):
        attack(small(Linf(0.1)), seeded())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x, y: x[:, :, 1:],
            r"theirs must give images \(4, 3, 8, 8\) of torch.float64, not \(4, 3, 7, 8\)",
        ),
        (lambda x, y: (255 * x).to(torch.uint8), r"not .* of torch.uint8"),
        (lambda x, y: x.numpy(), "not ndarray"),
        (
            lambda x, y: torch.full_like(x, math.nan),
            "values that are not numbers, first in example 0",
        ),
        (lambda x, y: x + 0.01, r"outside \[0,1\], first in example 0"),
        (
            lambda x, y: torch.cat([x[:2], (x[2:] + 0.02).clamp(0, 1)]),
            r"theirs went beyond Linf:0\.01: to 0\.02, first in example 2; 2 in all",
        ),
    ],
)
def test_bad_attacks_of_others_are_refused(
    function: Callable[[Tensor, Tensor], Tensor], message: str
) -> None:
    problem = small(Linf(0.01))
    with pytest.raises(ValueError, match=message):
        External("theirs", function)(problem, seeded())
    assert problem.counts.forwards == 0


def test_rounding_is_projected_away() -> None:
    problem = small(Linf(0.1))
    found = External("theirs", lambda x, y: (x + 0.100005).clamp(0, 1))(problem, seeded())
    assert Linf(0.1).size(found.delta).max() <= 0.1 + 1e-12


def test_rounding_of_pixels_that_did_not_change_does_not_count() -> None:
    x = images(1)
    x_adv = (x + 5e-7).clamp(0, 1)
    x_adv[:, :, 0, 0] = 1 - x[:, :, 0, 0]
    changed = checked_delta(x, x_adv, L0(1), "theirs") != 0
    assert not changed[:, :, 1:].any()
    assert not changed[:, :, 0, 1:].any()


def test_values_that_rounding_puts_outside_the_box_are_taken() -> None:
    x = torch.zeros(1, 1, 4, 4)
    problem = Problem(
        x,
        Linf(0.1),
        lambda image, rows: image.sum((1, 2, 3)),
        labels=torch.zeros(1, dtype=torch.int64),
    )
    found = External("theirs", lambda x, y: x - 9e-7)(problem, seeded())
    assert not found.delta.any()


def test_a_function_gets_copies_seeded_random_numbers_and_a_frozen_model() -> None:
    model = Small(3, 10).train()
    problem = small(Linf(0.3), model)
    kept, state = problem.x.clone(), torch.get_rng_state()
    seen: list[Any] = []

    def function(x: Tensor, y: Tensor) -> Tensor:
        seen.append(any(module.training for module in model.modules()))
        seen.append(any(weight.requires_grad for weight in model.parameters()))
        seen.append(torch.rand(1).item())
        y.zero_()
        return x.add_(0.1).clamp_(0, 1)

    External("theirs", function)(problem, seeded())
    assert seen == [False, False, torch.rand(1, generator=seeded(0)).item()]
    assert problem.x.equal(kept)
    assert problem.labels is not None
    assert problem.labels.tolist() == [0, 1, 2, 3]
    assert torch.get_rng_state().equal(state)
    assert all(module.training for module in model.modules())
    assert all(weight.requires_grad for weight in model.parameters())


def test_attacks_of_others_need_labels_and_libraries_a_model() -> None:
    whole = small(Linf(0.1))
    bare = Problem(whole.x, whole.threat, whole.score)
    with pytest.raises(ValueError, match=r"mine needs labels.*make it with Problem\.of"):
        External("mine", lambda x, y: x)(bare, seeded())
    labelled = replace(bare, labels=whole.labels)
    value = External("mine", lambda x, y: x)(labelled, seeded()).value
    assert value.equal(whole.evaluate(torch.zeros_like(whole.x)).value)
    for attack in (Foolbox(foolbox.attacks.LinfPGD()), AutoAttack()):
        with pytest.raises(ValueError, match=f"{attack.name} needs a model"):
            attack(labelled, seeded())


def test_they_cost_one_forward_to_score_and_support_what_they_check() -> None:
    attacks: list[Attack] = [
        External("mine", lambda x, y: x),
        Foolbox(None),
        AutoAttack(),
        Given("00"),
    ]
    assert all(attack.cost((3, 8, 8)) == Counts(1) for attack in attacks)
    assert all(attack.supports(Linf(0.1)) for attack in attacks)
    assert attacks[0].supports(Frame(1))


def test_examples_computed_elsewhere_cannot_be_computed_again() -> None:
    with pytest.raises(ValueError, match="computed elsewhere and cannot be computed again"):
        Given("00")(small(Linf(0.1)), seeded())
