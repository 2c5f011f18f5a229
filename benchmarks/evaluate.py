"""How long `ccat evaluate` takes on 100 stored attempts × 1000 images, beside reading their files.

python benchmarks/evaluate.py
"""

import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from ccat import PGD, RECIPES, Case, Linf, create_model
from ccat.attacking import BLOCK, Block, attempts_of
from ccat.data import data_digest, split_of
from ccat.evaluation.evaluate import evaluate
from ccat.pipeline.collect import collect
from ccat.rejection import CONFIDENCE
from ccat.runs import Run

ATTEMPTS, IMAGES = 100, 1000


def stored(root: Path) -> Run:
    """Make a run with random results."""
    generator = torch.Generator().manual_seed(0)
    run = Run.create(root / "run", RECIPES["mnist-normal-demo"], "cpu")
    run.training.save_model(create_model("lenet", generator))
    data = data_digest("mnist")
    right = functional.one_hot(split_of("mnist", "test").y, 10)
    clean = (4 * right + torch.rand(10_000, 10, generator=generator)).softmax(1)
    run.answers.save_clean(clean, data)
    case = Case("PGD", Linf(0.3), PGD(100, 0.01, start="random"), restarts=ATTEMPTS)
    for attempt in attempts_of((case,), run.weights, data):
        for number in range(IMAGES // BLOCK):
            answers = torch.rand(BLOCK, 10, generator=generator).mul(8).softmax(1)
            scores = {CONFIDENCE: answers.amax(1)}
            run.attempts.save(attempt, number, Block(answers, answers[:, 0], scores, 1.0, 100, 100))
    return run


def timed(function: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main() -> None:
    """Print one line per step."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = stored(Path(folder))
        files = list(run.path.rglob("*.safetensors"))
        reading = min(timed(lambda: [file.read_bytes() for file in files]) for _ in range(3))
        collecting = min(timed(lambda: collect(run)) for _ in range(3))
        outcomes = collect(run)
        evaluating = timed(lambda: [evaluate(outcomes, tpr) for tpr in (0.99, 0.98, 0.95)])
        tracemalloc.start()
        collect(run)
        peak = tracemalloc.get_traced_memory()[1]
    print(f"reading {len(files)} files: {reading:.2f} s")
    print(
        f"collecting outcomes from them: {collecting:.2f} s, {collecting / reading:.0f} times "
        f"reading; at most {peak / 1e6:.0f} MB of arrays in Python"
    )
    print(f"evaluating at three thresholds with intervals: {evaluating:.2f} s")


if __name__ == "__main__":
    main()
