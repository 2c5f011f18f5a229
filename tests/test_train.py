from dataclasses import replace
from pathlib import Path

import pytest
from torch import Generator, nn

from ccat import Images
from ccat.catalog.recipes import RECIPES
from ccat.data import Augmentation
from ccat.errors import PipelineError
from ccat.pipeline import train as stage
from ccat.pipeline.train import begin

RECIPE = replace(RECIPES["mnist-ccat-demo"], images=1200)


def test_a_recipe_that_does_not_fit_its_data_writes_nothing(
    mnist_train: Images, tmp_path: Path
) -> None:
    for recipe, message in (
        (replace(RECIPE, images=70_000), "asks for 70000 training images, mnist has 60000"),
        (replace(RECIPE, images=4), "4 training images are too few to train on and to monitor"),
        (
            replace(RECIPE, augmentation=Augmentation(padding=10**9)),
            "padding must be below 28 for images of 28x28, not 1000000000",
        ),
    ):
        with pytest.raises(PipelineError, match=message):
            begin(tmp_path / "run", recipe, "cpu")
    assert not (tmp_path / "run").exists()


def test_the_last_images_are_monitored_and_not_trained_on(mnist_train: Images) -> None:
    training, monitor = stage.images_of(RECIPE)
    assert (len(training), len(monitor)) == (700, 500)
    assert training.x.equal(mnist_train.x[:700])
    assert monitor.x.equal(mnist_train.x[700:1200])


def test_a_model_of_ones_own_may_be_trained_and_is_built_before_anything_is_written(
    mnist_train: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def create(name: str, generator: Generator, **arguments: int) -> nn.Module:
        assert not (tmp_path / "run").exists()
        built.append((name, arguments))
        if name == "mine:broken":
            raise ValueError("mine:broken cannot be called")
        return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))

    monkeypatch.setattr(stage, "create_model", create)
    with pytest.raises(ValueError, match="mine:broken cannot be called"):
        begin(tmp_path / "run", replace(RECIPE, model="mine:broken"), "cpu")
    assert not (tmp_path / "run").exists()
    run = begin(tmp_path / "run", replace(RECIPE, model="mine:factory"), "cpu")
    assert run.recipe.model == "mine:factory"
    shape = {"channels": 1, "classes": 10, "size": 28}
    assert built == [("mine:broken", shape), ("mine:factory", shape)]
