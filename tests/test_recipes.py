"""The recipes of the catalogue: their names, and the settings of the paper."""

import pytest

from ccat import PGD, RECIPES, SUITES, Adversarial, ConfidenceCalibrated, Linf
from ccat.codec import digest


def test_every_recipe_is_found_by_its_name_and_every_case_is_its_own() -> None:
    assert all(name == recipe.name for name, recipe in RECIPES.items())
    for suite in SUITES.values():
        cases = suite.cases
        assert len({digest(case.identity()) for case in cases}) == len(cases)
        assert len({(case.name, case.condition) for case in cases}) == len(cases)


def test_the_papers_settings_on_mnist() -> None:
    ccat, at = RECIPES["mnist-ccat"], RECIPES["mnist-at"]
    assert isinstance(ccat.method, ConfidenceCalibrated)
    assert isinstance(at.method, Adversarial)
    assert (ccat.epochs, ccat.batch, ccat.rate, ccat.momentum) == (100, 100, 0.1, 0.9)
    assert ccat.model == "resnet20"
    assert ccat.schedule(0.0, 100) == 1
    assert ccat.schedule(2.7, 100) == pytest.approx(0.95**2)
    assert RECIPES["mnist-ccat-small"].schedule(3, 6) == 0.5
    assert ccat.method.rho == 10
    assert ccat.method.threat == at.method.threat == Linf(0.3)
    for attack in (ccat.method.attack, at.method.attack):
        assert isinstance(attack, PGD)
        assert (attack.iterations, attack.momentum, attack.backtracking) == (40, 0.9, 1.5)
        assert 31.1 * attack.rate >= 0.3  # a zero start reaches the boundary
