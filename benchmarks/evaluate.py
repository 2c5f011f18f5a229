"""How long `ccat evaluate` takes on 100 stored attempts × 1000 images, against merely reading their files.

python benchmarks/evaluate.py
"""

import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from ccat import PGD, Linf, create_model, other_class_confidence
from ccat.attempts import BLOCK, Attempt, Block
from ccat.cookbook import RECIPES
from ccat.evaluation import evaluate
from ccat.recipes import Case
from ccat.stages import measure
from ccat.stages.shared import data_digest, images_of
from ccat.store import Run

ATTEMPTS, IMAGES = 100, 1000


def stored(root: Path) -> Run:
    """A run with random results."""
    generator = torch.Generator().manual_seed(0)
    run = Run.create(root / "run", RECIPES["mnist-normal-demo"], "cpu")
    run.save_model(create_model("lenet", generator))
    data = data_digest("mnist")
    right = functional.one_hot(images_of("mnist", "test").y, 10)
    run.save_clean((4 * right + torch.rand(10_000, 10, generator=generator)).softmax(1), data)
    case = Case("PGD", "PGD", Linf(0.3), PGD(100, 0.01, start="random"), other_class_confidence, restarts=ATTEMPTS)
    for restart in range(ATTEMPTS):
        for block in range(IMAGES // BLOCK):
            probabilities = torch.rand(BLOCK, 10, generator=generator).mul(8).softmax(1)
            run.save_block(Attempt.of(case, restart, run.weights, data), block, Block(probabilities, probabilities[:, 0], 1.0, 100, 100))
    return run


def timed(function: Callable[[], object]) -> float:
    """Seconds."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main() -> None:
    """Prints one line per step."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = stored(Path(folder))
        files = list(run.path.rglob("*.safetensors"))
        reading = min(timed(lambda: [file.read_bytes() for file in files]) for _ in range(3))
        measuring = min(timed(lambda: measure(run)) for _ in range(3))
        measured = measure(run)
        evaluating = timed(lambda: [evaluate(measured, tpr) for tpr in (0.99, 0.98, 0.95)])
        tracemalloc.start()
        measure(run)
        peak = tracemalloc.get_traced_memory()[1]
    print(f"reading {len(files)} files: {reading:.2f} s")
    print(f"measuring them: {measuring:.2f} s, {measuring / reading:.0f} times reading; at most {peak / 1e6:.0f} MB of arrays in Python")
    print(f"evaluating at three thresholds with intervals: {evaluating:.2f} s")


if __name__ == "__main__":
    main()
