"""`ccat train`: train a model by a recipe, with any of its fields set."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import torch

from ccat import codec, extensions
from ccat.catalog import RECIPES
from ccat.cli.config import read_config
from ccat.cli.values import device_of, entry
from ccat.data import UNVERIFIED
from ccat.overrides import override, typed_instance
from ccat.pipeline.few_images import fitted
from ccat.pipeline.train import begin, composition, help_train, train
from ccat.progress import ProgressBar
from ccat.training import Method, Recipe
from ccat.training.distributed import init


def run(options: Namespace) -> None:
    """Train, or continue after a stop."""
    words = list(options.rest)
    name = words.pop(0) if words and not words[0].startswith("--") else None
    if options.config is not None:
        stored, fields = read_config(options.config)
        name = name or (None if options.recipe else stored)
        words = [f"--{key}={value}" for key, value in fields.items()] + words  # typed ones win
    chosen = _recipe(name, options.recipe)
    recipe = with_fields(chosen, words, options.unverified)
    _check(recipe)
    told = ""
    if chosen.name in RECIPES:  # in a recipe of your own, you have set everything
        recipe, told = fitted(recipe, _typed(words))
    suffix = "" if recipe == chosen else f"-{codec.digest(codec.encode(recipe))[:8]}"
    torch.set_num_threads(options.threads)
    with init(device_of(options)) as (ranks, device):
        if not ranks.first:
            help_train(recipe, device, ranks)
            return
        try:
            made = begin(options.run or Path("runs") / f"{chosen.name}{suffix}", recipe, device)
        except BaseException:
            ranks.broadcast(True)  # the others have nothing to do
            raise
        there = made.training.trained
        if not there:
            print(composition(recipe), *filter(None, [told]), sep="\n", file=sys.stderr)
        train(made, device, ProgressBar(recipe.name), ranks, tensorboard=options.tensorboard)
    if there:
        print(f"{made.path} is already trained")
        return
    log = made.training.log()
    if not log:
        print(f"{made.path} is trained; its log is missing")
        return
    last = log[-1]
    print(
        f"{made.path}: after {last['epoch']} epochs {100 * last['clean_error']:.1f} % of the "
        f"monitored training images are wrong, {100 * last['adversarial_error']:.1f} % under a "
        f"short attack (without rejection)"
    )


def with_fields(recipe: Recipe, arguments: Sequence[str], unverified: bool = False) -> Recipe:
    """Return the recipe with `--field value` or `--field=value` set.

    Raises:
        ValueError: If there is no such field, or the value does not fit.
    """
    words = iter(
        [
            part
            for argument in arguments
            for part in (argument.split("=", 1) if argument.startswith("--") else [argument])
        ]
    )
    changes = {}
    for word in words:
        if not word.startswith("--"):
            raise ValueError(f"{word!r} is not an option; fields are set as --epochs 3")
        value = next(words, None)
        if value is None or value.startswith("--"):
            raise ValueError(f"{word} needs a value")
        changes[word.removeprefix("--").replace("-", "_")] = value
    if "name" in changes:
        raise ValueError("a recipe keeps its name; --run chooses the directory")
    if unverified:
        dataset = changes.get("dataset", recipe.dataset)
        changes["dataset"] = UNVERIFIED + dataset.removeprefix(UNVERIFIED)
    return override(recipe, changes)


def _typed(words: Sequence[str]) -> set[str]:
    """Return the names of the fields that are set."""
    names = (word.removeprefix("--").split("=")[0] for word in words if word.startswith("--"))
    return {name.replace("-", "_") for name in names}


def _recipe(first: str | None, option: str | None) -> Recipe:
    if first and option:
        raise ValueError(f"one recipe at a time: {first} or {option}")
    name = first or option
    if name is None:
        raise ValueError("which recipe? `ccat recipes` lists those there are")
    if not extensions.is_name(name):
        return entry(name, RECIPES, "recipe")
    recipe = typed_instance(name)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{name} is a {type(recipe).__name__}, not a ccat.Recipe")
    return recipe


def _check(recipe: Recipe) -> None:
    """Refuse what cannot be imported, called or stored before anything is computed."""
    if extensions.is_name(recipe.model):
        extensions.load_typed(recipe.model)
    codec.require_implements(recipe.method, Method, "the method")
    codec.require_storable(recipe, Recipe)
