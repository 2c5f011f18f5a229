import dataclasses
from typing import Any

import pytest
import torch
from truth import seeded

from ccat import L0, L1, L2, PGD, Linf, Problem, Refined, create_model
from ccat.recipes import Case, label
from ccat.suites import SUITES, select, within


def shortened(case: Case) -> Case:
    return dataclasses.replace(case, attack=shorter(case.attack))


def shorter(attack: Any) -> Any:
    if isinstance(attack, Refined):
        return Refined(shorter(attack.first), shorter(attack.then))
    return dataclasses.replace(attack, iterations=max(1, attack.iterations // 100))


@pytest.mark.parametrize("suite", SUITES)
def test_every_case_runs_at_a_hundredth_of_its_iterations(suite: str) -> None:
    channels, size = (1, 28) if suite in ("paper-mnist", "quick", "demo", "standard") else (3, 32)
    model = create_model("lenet", seeded(), channels=channels, size=size).eval()
    x = torch.rand(2, channels, size, size, generator=seeded(1))
    pool = torch.rand(3, channels, size, size, generator=seeded(2))
    for case in SUITES[suite]:
        if case.name == "Corner Search" and channels == 3:
            continue  # eight corners of a thousand pixels take too long here
        short = shortened(case)
        problem = Problem.of(model, x, torch.zeros(2, dtype=torch.int64), case.threat, case.objective, pool)
        found = short.attack(problem, seeded(3))
        assert (case.threat.size(found.delta) <= case.threat.epsilon * (1 + 1e-5)).all(), case
        unmoved = problem.at(torch.zeros_like(x)).value
        if "zero" in case.name or not isinstance(case.attack, PGD):
            assert (found.value >= unmoved).all(), case


def test_the_papers_table_of_attacks() -> None:
    suite = SUITES["paper-mnist"]
    threats = list(dict.fromkeys(label(case.threat) for case in suite))
    assert threats == ["Linf:0.3", "Linf:0.4", "L2:3", "L1:18", "L0:15", "Frame:2"]
    restarts = {(label(c.threat), c.source, c.name): c.restarts for c in suite}
    assert restarts["Linf:0.3", "test", "PGD-Conf zero"] == 1
    assert restarts["Linf:0.3", "test", "PGD-Conf random"] == 10
    assert restarts["L1:18", "test", "PGD-CE random"] == 50
    assert restarts["L0:15", "test", "Simple"] == 10
    assert restarts["Frame:2", "test", "PGD-CE random"] == 50
    assert sum(n for (_, source, _), n in restarts.items() if source == "noise") == 11
    assert [label(c.threat) for c in suite if c.family == "Square"] == ["Linf:0.3", "Linf:0.4", "L2:3"]
    assert [label(c.threat) for c in suite if c.family == "Corner Search"] == ["L0:15"]
    iterations = {c.family: getattr(c.attack, "iterations", 0) for c in suite}
    assert iterations == {
        "PGD-Conf": 1000, "PGD-CE": 200, "QL": 1000, "Simple": 1000, "Geometry": 1000, "Random": 5000, "Square": 5000, "Corner Search": 200
    }  # fmt: skip


@pytest.mark.parametrize("suite", SUITES)
def test_a_zero_start_reaches_the_boundary_well_within_its_iterations(suite: str) -> None:
    """With damped momentum and no rejection the reach in T steps is rate · (T − 9 (1 − 0.9^T)) in L∞."""
    for case in SUITES[suite]:
        if isinstance(case.threat, Linf) and isinstance(case.attack, PGD):
            steps = case.attack.iterations
            reach = case.attack.rate * (steps - 9 * (1 - 0.9**steps))
            assert reach > 1.5 * case.threat.epsilon, case
    weight = torch.ones(1, 1, 4, 4)
    problem = Problem(torch.full((1, 1, 4, 4), 0.5), Linf(0.3), lambda image, rows: (image * weight).sum((1, 2, 3)))
    found = PGD(40, 0.001, start="zero")(problem, seeded())
    assert found.delta.max().item() == pytest.approx(0.001 * (40 - 9 * (1 - 0.9**40)), rel=1e-4)


def test_a_part_of_a_suite_is_chosen_by_name_and_threat() -> None:
    mnist = (1, 28, 28)
    assert select("quick", mnist) == SUITES["quick"]
    squares = select("paper-mnist", mnist, only="square*")
    assert [(c.name, label(c.threat)) for c in squares] == [("Square", "Linf:0.3"), ("Square", "Linf:0.4"), ("Square", "L2:3")]
    assert {label(c.threat) for c in select("quick", mnist, threats=[L1(18.0)])} == {"L1:18"}
    assert [c.name for c in select("quick", mnist, "*CE*", [Linf(0.3)])] == ["APGD-CE random"]
    with pytest.raises(ValueError, match=r"no case of suite demo is called 'square\*'; there are PGD-Conf zero 0.01, "):
        select("demo", mnist, "square*")


def test_threats_that_a_suite_does_not_have_are_attacked_as_it_attacks_its_own() -> None:
    """Around images of any size; the rates are the suite's own in parts of ε."""
    cases = select("quick", (3, 64, 48), threats=[Linf(8 / 255), L0(5)])
    assert [c.name for c in cases if c.threat == L0(5)] == [c.name for c in SUITES["quick"] if c.threat == L0(15)]
    assert [c.attack.rate for c in cases if isinstance(c.attack, PGD) and c.threat == Linf(8 / 255)] == [0.00105, 0.00523]
    own = [c for c in SUITES["quick"] if c.threat in (L2(3.0), L1(18.0))]
    for mine, scaled in zip(own, within("quick", L2(3.0), L1(18.0)), strict=True):
        assert type(mine.attack) is type(scaled.attack)
        assert getattr(scaled.attack, "rate", 1.0) == pytest.approx(getattr(mine.attack, "rate", 1.0), rel=0.1)
    both = select("quick", (1, 28, 28), threats=[Linf(0.3), Linf(0.2)])
    assert set(both) > {c for c in SUITES["quick"] if c.threat == Linf(0.3)}
    assert {label(c.threat) for c in both} == {"Linf:0.3", "Linf:0.2"}
    with pytest.raises(ValueError, match="suite paper-mnist has its own threats; with others there are demo, quick"):
        select("paper-mnist", (1, 28, 28), threats=[Linf(0.2)])


def test_a_suite_for_images_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="suite demo is made for images of 1x28x28, not of 3x32x32; use paper-svhn or paper-cifar10 or"):
        select("demo", (3, 32, 32))
    assert select("quick", (3, 32, 32)) == SUITES["quick-colour"]
    with pytest.raises(ValueError, match="not of 1x8x8; say which threats fit yours: --threat Linf:8/255"):
        select("quick", (1, 8, 8))
