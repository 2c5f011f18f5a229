"""A recipe of the catalogue on your own images, which may be few.

Twenty epochs on MNIST are 12,000 steps; on 60 pictures, in batches of 100, they are twenty, and
nothing is learnt. The recipe is then given smaller batches and more epochs, and at most a fifth of
the images is monitored. The run records this like anything that was typed.
"""

import math
from collections.abc import Collection
from dataclasses import replace

from ccat.data import UNVERIFIED, split_of
from ccat.pipeline.train import images_of
from ccat.training.recipe import Recipe
from ccat.training.schedules import PerEpoch

LEAST_STEPS = 1000  # that training takes
LEAST_BATCH = 16  # images per step


def fitted(recipe: Recipe, typed: Collection[str]) -> tuple[Recipe, str]:
    """Return a recipe that learns from as many images as there are, and what was changed in words.

    Args:
        recipe: A recipe of the catalogue, with what the user typed.
        typed: The fields that the user typed, such as "epochs": these stay as they are.
    """
    if not recipe.dataset.startswith(UNVERIFIED):
        return recipe, ""
    there = len(split_of(recipe.dataset, "train"))
    if recipe.images is not None and recipe.images > there and "images" not in typed:
        recipe = replace(recipe, images=None)
    if "monitor" not in typed:
        recipe = replace(recipe, monitor=min(recipe.monitor, max(1, there // 5)))
    training = len(images_of(recipe)[0])
    steps = recipe.epochs * _per_epoch(training, recipe.batch)
    # A rate that falls after every epoch would be gone long before the last of many.
    keeps = isinstance(recipe.schedule, PerEpoch) or {"epochs", "batch"} & set(typed)
    if steps >= LEAST_STEPS or keeps:
        return recipe, ""
    batch = min(recipe.batch, max(LEAST_BATCH, training // 10))
    epochs = math.ceil(LEAST_STEPS / _per_epoch(training, batch))
    told = (
        f"few images: {recipe.epochs} epochs in batches of {recipe.batch} would be {steps} steps "
        f"of training, so it takes {epochs} epochs in batches of {batch}; --epochs and --batch "
        "set others"
    )
    return replace(recipe, epochs=epochs, batch=batch), told


def _per_epoch(images: int, batch: int) -> int:
    """Return the steps of an epoch; a last batch that is not full is left out."""
    return images // min(batch, images)
