"""Where the time of a training epoch goes, in units of the limit: bare passes of the same number.

python benchmarks/training.py [--images 2000] [RECIPE ...]

An epoch of a recipe, on a few of its images, is trained as `ccat train` does it: reading the data,
steps, the probe after the epoch, the checkpoint, the model's file. The limit of a step is its
attack's bare forwards and backwards on a copy with batch normalisation folded away, and one forward
and backward of the whole batch. Both take turns in one process with one thread; processor time is
counted, and a ratio is taken within each round.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Generator
from torch.nn import functional

from ccat import PGD, Adversarial, ConfidenceCalibrated, Normal, create_model
from ccat.catalog import RECIPES
from ccat.data import class_count, split_of
from ccat.memory import keep_freed
from ccat.models import arguments_for, attack_copy
from ccat.objectives import other_class_confidence
from ccat.pipeline.train import begin, train
from ccat.training.recipe import Recipe

PARTS = ("start", "steps", "probe, checkpoint and file")


def epoch(recipe: Recipe) -> dict[str, float]:
    """Return the seconds of the parts of one epoch."""
    marks = []
    with tempfile.TemporaryDirectory() as place:
        first = time.process_time()
        run = begin(Path(place) / "run", recipe, "cpu")
        train(run, "cpu", lambda *_: marks.append(time.process_time()))
        last = time.process_time()
    # Before the first step is over there is no mark: it is taken to last as long as the others.
    step = (marks[-1] - marks[0]) / (len(marks) - 1)
    return dict(
        zip(
            PARTS,
            (marks[0] - step - first, step * len(marks), last - marks[-1]),
            strict=True,
        )
    )


def limit(recipe: Recipe, steps: int) -> float:
    """Return the seconds of the bare passes of as many steps."""
    images = split_of(recipe.dataset, "train")[: recipe.batch]
    _, channels, height, width = images.x.shape
    size = arguments_for(recipe.model, channels, height, width, class_count(recipe.dataset))
    model = create_model(recipe.model, Generator().manual_seed(0), **size)
    x, y = images.floats(), images.y
    method = recipe.method
    iterations, attacked = 0, 0
    if isinstance(method, ConfidenceCalibrated | Adversarial):
        assert isinstance(method.attack, PGD)
        iterations = method.attack.iterations
        share = method.share if isinstance(method, Adversarial) else 0.5
        attacked = round(share * len(x))
    else:
        assert isinstance(method, Normal)
    begun = time.process_time()
    for _ in range(steps):
        fast = attack_copy(model, x, tuned=False)
        for _ in range(iterations):
            image = x[:attacked].clone().requires_grad_()
            torch.autograd.grad(
                other_class_confidence(fast(image), y[:attacked]).sum(), image, retain_graph=False
            )
        if iterations:
            with torch.no_grad():
                fast(x[:attacked])
        functional.cross_entropy(model.train()(x), y).backward()  # type: ignore[no-untyped-call]
    return time.process_time() - begun


def main() -> None:
    """Print a line for each recipe."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("recipes", nargs="*", default=["mnist-ccat-demo"], metavar="RECIPE")
    options.add_argument("--images", type=int, default=2000)
    options.add_argument("--batch", type=int, default=100)
    options.add_argument("--monitor", type=int, default=500)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    torch.set_num_threads(1)
    keep_freed()
    print("| one epoch | " + " | ".join((*PARTS, "all")) + " |\n" + "|---" * 5 + "|")
    for name in given.recipes:
        recipe = replace(
            RECIPES[name],
            epochs=1,
            images=given.images + given.monitor,
            monitor=given.monitor,
            batch=given.batch,
        )
        steps, rounds = given.images // given.batch, []
        for _ in range(given.rounds + 1):
            least = limit(recipe, steps)
            rounds.append({part: of / least for part, of in epoch(recipe).items()})
        shown = [statistics.median(one[part] for one in rounds[1:]) for part in PARTS]
        whole = statistics.median(sum(one.values()) for one in rounds[1:])
        print(f"| {name} | " + " | ".join(f"{part:.2f}" for part in (*shown, whole)) + " |")


if __name__ == "__main__":
    main()
