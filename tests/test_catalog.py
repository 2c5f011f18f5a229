"""Suites: what is in them, that every case of them runs, and how parts of them are chosen."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from truth import seeded

from ccat import (
    APGD,
    L0,
    L1,
    L2,
    PGD,
    SUITES,
    Attack,
    Beam,
    Border,
    Case,
    Condition,
    Confidence,
    Counts,
    Detection,
    Exchange,
    Found,
    Frame,
    Linf,
    Problem,
    Refined,
    Shrinking,
    Suite,
    Threat,
    Windows,
    create_model,
)
from ccat.attacks.external import as_attack
from ccat.catalog import select
from ccat.catalog.strong import Effort, distal, rates_for, strong
from ccat.catalog.suites import aware, cases_of, within
from ccat.objectives import any_class_confidence, cross_entropy
from ccat.rejection import Aware
from ccat.threats import label

MNIST = (1, 28, 28)


def on(*threats: Threat) -> list[Condition]:
    return [Condition(threat) for threat in threats]


def shortened(case: Case) -> Case:
    return dataclasses.replace(case, attack=shorter(case.attack))


def shorter(attack: Any) -> Any:
    if isinstance(attack, Refined):
        return Refined(shorter(attack.first), shorter(attack.then))
    if isinstance(attack, Beam):
        return dataclasses.replace(attack, rounds=((3, 2), (1, 2)), nearest=2)
    if isinstance(attack, Exchange):
        return Exchange(1)
    if isinstance(attack, Border):
        return Border(1, 2, 2)
    if isinstance(attack, Windows):
        return Windows(((3, 2), (1, 2)), 2)
    return dataclasses.replace(attack, iterations=max(1, attack.iterations // 100))


@pytest.mark.parametrize("name", SUITES)
def test_every_case_runs_at_a_hundredth_of_its_iterations(name: str) -> None:
    suite = SUITES[name]
    channels, size, _ = suite.shape
    model = create_model("lenet", seeded(), channels=channels, size=size).eval()
    x = torch.rand(2, *suite.shape, generator=seeded(1))
    pool = torch.rand(3, *suite.shape, generator=seeded(2))
    for case in suite.cases:
        if case.name == "Corner Search" and channels == 3:
            continue  # eight corners of a thousand pixels take too long here
        assert not isinstance(case.objective, Aware), "a suite does not know what rejects"
        short = shortened(case)
        labels = torch.zeros(2, dtype=torch.int64)
        problem = Problem.of(model, x, labels, case.threat, case.objective, pool)
        found = short.attack(problem, seeded(3))
        assert (case.threat.size(found.delta) <= case.threat.epsilon * (1 + 1e-5)).all(), case
        unmoved = problem.evaluate(torch.zeros_like(x)).value
        if "zero" in case.name or not isinstance(case.attack, PGD):
            assert (found.value >= unmoved).all(), case


def test_the_papers_table_of_attacks() -> None:
    suite = SUITES["paper-mnist"].cases
    threats = list(dict.fromkeys(label(case.threat) for case in suite))
    assert threats == ["Linf:0.3", "Linf:0.4", "L2:3", "L1:18", "L0:15", "Frame:2"]
    restarts = {(label(c.threat), c.source, c.name): c.restarts for c in suite}
    assert restarts["Linf:0.3", "test", "PGD-Conf zero"] == 1
    assert restarts["Linf:0.3", "test", "PGD-Conf random"] == 10
    assert restarts["L1:18", "test", "PGD-CE random"] == 50
    assert restarts["L0:15", "test", "Simple"] == 10
    assert restarts["Frame:2", "test", "PGD-CE random"] == 50
    assert sum(n for (_, source, _), n in restarts.items() if source == "noise") == 11
    assert [label(c.threat) for c in suite if c.family == "Square"] == [
        "Linf:0.3",
        "Linf:0.4",
        "L2:3",
    ]
    assert [label(c.threat) for c in suite if c.family == "Corner Search"] == ["L0:15"]
    iterations = {c.family: getattr(c.attack, "iterations", 0) for c in suite}
    assert iterations == {
        "PGD-Conf": 1000,
        "PGD-CE": 200,
        "QL": 1000,
        "Simple": 1000,
        "Geometry": 1000,
        "Random": 5000,
        "Square": 5000,
        "Corner Search": 200,
    }


@pytest.mark.parametrize("name", SUITES)
def test_a_zero_start_reaches_the_boundary_well_within_its_iterations(name: str) -> None:
    """With damped momentum and no rejection the reach is rate · (T − 9 (1 − 0.9^T)) in L∞."""
    for case in SUITES[name].cases:
        if isinstance(case.threat, Linf) and isinstance(case.attack, PGD):
            steps = case.attack.iterations
            reach = case.attack.rate * (steps - 9 * (1 - 0.9**steps))
            assert reach > 1.5 * case.threat.epsilon, case
    weight = torch.ones(1, 1, 4, 4)
    problem = Problem(
        torch.full((1, 1, 4, 4), 0.5),
        Linf(0.3),
        lambda image, rows: (image * weight).sum((1, 2, 3)),
    )
    found = PGD(40, 0.001, start="zero")(problem, seeded())
    assert found.delta.max().item() == pytest.approx(0.001 * (40 - 9 * (1 - 0.9**40)), rel=1e-4)


def test_a_part_of_a_suite_is_chosen_by_name_and_threat() -> None:
    assert select("quick", MNIST) == SUITES["quick"].cases
    squares = select("paper-mnist", MNIST, only="square*")
    assert [(c.name, label(c.threat)) for c in squares] == [
        ("Square", "Linf:0.3"),
        ("Square", "Linf:0.4"),
        ("Square", "L2:3"),
    ]
    assert {label(c.threat) for c in select("quick", MNIST, conditions=on(L1(18.0)))} == {"L1:18"}
    assert [c.name for c in select("quick", MNIST, "*near*", on(Linf(0.3)))] == ["Beam near"]
    assert select("quick", MNIST, conditions=on(L1(18.0), L1(18.0))) == select(
        "quick", MNIST, conditions=on(L1(18.0))
    )
    with pytest.raises(
        ValueError,
        match=r"no case of suite demo is called 'square\*'; there are APGD-Conf zero, ",
    ):
        select("demo", MNIST, "square*")
    with pytest.raises(ValueError, match=r"no case of suite quick within L0:3 is called '\*then"):
        select("quick", MNIST, "*then apgd-conf", on(Linf(0.2), L0(3)))
    with pytest.raises(ValueError, match="there is no suite 'fast'; there are paper-mnist, "):
        select("fast", MNIST)


def test_threats_that_a_suite_does_not_have_are_attacked_as_it_attacks_its_own() -> None:
    """Around images of any size; the rates are the suite's own in parts of ε."""
    quick = SUITES["quick"].cases
    cases = select("quick", (3, 64, 48), conditions=on(Linf(8 / 255), L0(5)))
    assert [c.name for c in cases if c.threat == L0(5)] == [
        c.name for c in quick if c.threat == L0(15)
    ]
    assert rates_for(Linf(8 / 255)) == (0.00105, 0.00523)
    own = [c for c in quick if c.threat in (L2(3.0), L1(18.0))]
    for mine, scaled in zip(own, within("quick", *on(L2(3.0), L1(18.0))), strict=True):
        assert type(mine.attack) is type(scaled.attack)
        assert getattr(scaled.attack, "rate", 1.0) == pytest.approx(
            getattr(mine.attack, "rate", 1.0), rel=0.1
        )
    both = select("quick", MNIST, conditions=on(Linf(0.3), Linf(0.2)))
    assert set(both) > {c for c in quick if c.condition == Condition(Linf(0.3))}
    assert {c.condition for c in both} == set(on(Linf(0.3), Linf(0.2))), "no noise unasked"
    noise = Condition(Linf(0.3), "noise")
    assert set(select("quick", MNIST, conditions=[noise])) == {
        c for c in quick if c.condition == noise
    }
    other = select("quick", (3, 64, 48), conditions=[Condition(L0(5), "noise")])
    assert {(c.source, c.objective) for c in other} == {("noise", any_class_confidence)}
    with pytest.raises(
        ValueError,
        match="suite paper-mnist has its own threats only; use demo, quick, standard, ",
    ):
        select("paper-mnist", MNIST, conditions=on(Linf(0.2)))


def test_a_suite_for_images_of_another_size_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match="suite demo is made for images of 1x28x28, not of 3x32x32; use paper-svhn or "
        "paper-cifar10 or",
    ):
        select("demo", (3, 32, 32))
    assert select("quick", (3, 32, 32)) == SUITES["quick-colour"].cases
    with pytest.raises(
        ValueError, match="not of 1x8x8; say which threats fit yours: --threat Linf:8/255"
    ):
        select("quick", (1, 8, 8))


def test_a_suite_of_ones_own_is_an_entry_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Case("mine", Linf(0.1), PGD(2, 0.05))
    monkeypatch.setitem(SUITES, "mine", Suite((mine,), (1, 8, 8)))
    assert select("mine", (1, 8, 8)) == (mine,)
    with pytest.raises(ValueError, match="suite mine has its own threats only"):
        select("mine", (1, 8, 8), conditions=on(Linf(0.2)))
    monkeypatch.setitem(SUITES, "mine", Suite((mine,), (1, 8, 8), Effort(3, 6)))
    others = select("mine", (1, 8, 8), conditions=on(Linf(0.2)))
    assert [c.attack.iterations for c in others if isinstance(c.attack, Shrinking)] == [3]


def test_noise_is_attacked_for_the_confidence_in_any_class() -> None:
    for name, suite in SUITES.items():
        noise = [case for case in suite.cases if case.source == "noise"]
        assert noise, name
        assert {case.objective for case in noise} == {any_class_confidence}
        assert {type(case.threat) for case in noise} == {Linf}
    effort = Effort(10, 20)
    around_images = [
        case.attack for case in strong(Linf(0.3), effort) if case.objective is not cross_entropy
    ]
    assert [case.attack for case in distal(Linf(0.3), effort)] == around_images


def conditions(cases: tuple[Case, ...]) -> set[Condition]:
    return {case.condition for case in cases}


@pytest.mark.parametrize("threats", [(), (L1(7.0), L0(3), Frame(1))])
def test_attacks_that_know_the_detector_are_added_for_every_condition(threats: Any) -> None:
    unaware = select("quick", MNIST, conditions=on(*threats))
    every = select("quick", MNIST, conditions=on(*threats), rejection=Detection("lid"))
    assert every[: len(unaware)] == unaware
    added = every[len(unaware) :]
    assert conditions(added) == conditions(unaware)
    for condition in conditions(added):
        objectives = {case.objective for case in added if case.condition == condition}
        assert objectives == {Aware(0.0), Aware(0.3), Aware(1.0), Aware(3.0)}
    assert all(case.family.startswith("aware ") for case in added)
    assert all(case.name.startswith("aware ") for case in added)
    assert all(case.attack.cost(MNIST).backwards == 200 for case in added)
    assert select("quick", MNIST, conditions=on(*threats), rejection=Confidence()) == unaware
    assert aware(unaware, ()) == ()


def test_a_part_of_the_attacks_that_know_the_detector_is_chosen_by_name() -> None:
    found = select("quick", MNIST, "aware apgd*", on(Linf(0.3)), Detection("lid"))
    assert {type(case.attack) for case in found} == {APGD}
    assert [case.name for case in found if case.source == "test"] == [
        f"aware APGD, penalty {penalty:g}" for penalty in (0.3, 1, 3)
    ]


@dataclass(frozen=True)
class Still(Attack):
    """Leaves images as they are."""

    times: int = 1

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        return problem.evaluate(torch.zeros_like(problem.x))

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1)


def unmoved(x: Tensor, y: Tensor) -> Tensor:
    return x


def test_attacks_of_ones_own_become_cases_within_each_threat() -> None:
    """They are named after their class or function, and numbered if several share the name."""
    attacks = [Still(), PGD(3, 0.1), Still(2), as_attack(unmoved)]
    cases = cases_of(attacks, on(Linf(0.1), L2(1.0)))
    assert [case.name for case in cases] == 2 * ["Still 1", "PGD", "Still 2", "unmoved"]
    assert [label(case.threat) for case in cases] == 4 * ["Linf:0.1"] + 4 * ["L2:1"]
    assert [case.attack for case in cases[:4]] == attacks
    assert [case.family for case in cases[:2]] == ["Still 1", "PGD"]
    with pytest.raises(ValueError, match="case 'APGD': APGD does not support the threat L0:3"):
        cases_of([APGD(3)], on(L0(3)))
