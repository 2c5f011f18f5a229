"""What trained runs show: how much resting saves in long attacks, and how much faster two processes finish a suite than one.

python benchmarks/suites.py RUN [RUN ...]     adds to benchmarks/results.json

Resting: PGD with T = 1000 on the first 100 test images, with and without examples that can no longer change leaving the batch; the values
found must be the same. Processes: `ccat attack` of a copy of the first run with --workers 1 and 2, seconds on the clock, start-up included.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

import torch
from torch import Generator, Tensor

from ccat import PGD, Problem
from ccat.attacks.passes import Rest
from ccat.memory import keep_freed
from ccat.models import folded
from ccat.objectives import cross_entropy, other_class_confidence
from ccat.stages.shared import counted
from ccat.store import Run
from ccat.threats import L2, Linf

RESULTS = Path(__file__).with_name("results.json")


class Restless(Rest):
    """Nobody leaves."""

    def going(self) -> Tensor | None:
        return None


class Without(Problem):
    """Examples go on to the end."""

    def begun(self) -> Self:
        return replace(self, rest=Restless(len(self.x), self.x.device, 1.0))


def resting(path: str) -> dict[str, float]:
    """Of the time without resting, the time with it."""
    run = Run.open(Path(path))
    images = counted(run.recipe.dataset)[:100]
    x, y, fast = images.floats(), images.y, folded(run.model(), images.floats())
    ratios = {}
    for name, threat, rate, objective in (
        ("Conf, Linf 0.3", Linf(0.3), 0.01, other_class_confidence),
        ("Conf, L2 3", L2(3.0), 0.2, other_class_confidence),
        ("CE, Linf 0.3", Linf(0.3), 0.01, cross_entropy),
    ):
        seconds, values, passes = [], [], []
        for kind in (Without, Problem):
            problem = kind.of(fast, x, y, threat, objective)
            begin = time.process_time()
            values.append(PGD(1000, rate)(problem, Generator()).value)
            seconds.append(time.process_time() - begin)
            passes.append(problem.counts.forwards)
        same = (values[0] - values[1]).abs().max().item()
        key = f"resting, PGD-{name}, T=1000, {run.path.name}"
        ratios[key] = round(seconds[1] / seconds[0], 3)
        print(
            f"{key}: {ratios[key]:.2f} of the time, {passes[1] / passes[0]:.2f} of the passes, values differ by at most {same:.1g}",
            flush=True,
        )
    return ratios


def processes(path: str) -> dict[str, float]:
    """One process's seconds over two processes'."""
    seconds = []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / "run"
            copy.mkdir()
            for name in ("run.json", "model.safetensors"):
                shutil.copy(Path(path) / name, copy)
            begin = time.monotonic()
            command = [sys.executable, "-m", "ccat", "attack", str(copy), "--suite", "demo", "--examples", "200", "--workers", str(workers)]
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.monotonic() - begin)
    ratio = seconds[0] / seconds[1]
    print(f"suite demo, 200 images: {seconds[0]:.0f} s with one process, {seconds[1]:.0f} s with two: {ratio:.2f} times as fast")
    return {"two processes over one": round(ratio, 2)}


def main() -> None:
    """All of them."""
    torch.set_num_threads(1)
    keep_freed()
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    results = json.loads(RESULTS.read_text())
    for path in sys.argv[1:]:
        results |= resting(path)
    results |= processes(sys.argv[1])
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
