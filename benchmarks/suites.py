"""What trained runs show of two ways to save time: retiring examples, and a second process.

python benchmarks/suites.py RUN [RUN ...]     adds to benchmarks/results.json

Retiring: PGD with T = 1000 on the first 100 test images, with and without examples that can no
longer change leaving the batch; the values found must be about the same. Processes: `ccat attack`
of a copy of the first run with --workers 1 and 2, seconds on the clock, start-up included.
"""

import json
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
from ccat.attacks.passes import Retired
from ccat.data import counted
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.objectives import cross_entropy, other_class_confidence
from ccat.runs import Run
from ccat.threats import L2, Linf

RESULTS = Path(__file__).with_name("results.json")


class Nobody(Retired):
    """Lets every example go on."""

    def remaining(self, count: int) -> Tensor | None:
        """Return None: all are searched."""
        return None


class Unretiring(Problem):
    """A problem in which examples go on to the end."""

    def search(self) -> Self:
        """Return this problem for one search, in which no example is retired."""
        return replace(self, retired=Nobody(len(self.x), self.x.device, 1.0))


def retiring(path: str) -> dict[str, float]:
    """Return the time with retiring as a share of the time without it."""
    run = Run.open(Path(path))
    images = counted(run.recipe.dataset)[:100]
    x, y = images.floats(), images.y
    fast = attack_copy(run.training.model(), x)
    ratios = {}
    for name, threat, rate, objective in (
        ("Conf, Linf 0.3", Linf(0.3), 0.01, other_class_confidence),
        ("Conf, L2 3", L2(3.0), 0.2, other_class_confidence),
        ("CE, Linf 0.3", Linf(0.3), 0.01, cross_entropy),
    ):
        seconds, values, passes = [], [], []
        for kind in (Unretiring, Problem):
            problem = kind.of(fast, x, y, threat, objective)
            begin = time.process_time()
            values.append(PGD(1000, rate)(problem, Generator()).value)
            seconds.append(time.process_time() - begin)
            passes.append(problem.counts.forwards)
        most = (values[0] - values[1]).abs().max().item()
        key = f"resting, PGD-{name}, T=1000, {run.path.name}"
        ratios[key] = round(seconds[1] / seconds[0], 3)
        print(
            f"{key}: {ratios[key]:.2f} of the time, {passes[1] / passes[0]:.2f} of the passes, "
            f"values differ by at most {most:.1g}",
            flush=True,
        )
    return ratios


def processes(path: str) -> dict[str, float]:
    """Return the seconds of one process over those of two."""
    files, seconds = Run.open(Path(path)).packed(), []
    for workers in ("1", "2"):
        with tempfile.TemporaryDirectory() as place:
            copy = Run.unpacked(files, Path(place) / "run")
            command = [sys.executable, "-m", "ccat", "attack", str(copy.path), "--suite", "demo"]
            begin = time.monotonic()
            subprocess.run(
                [*command, "--examples", "200", "--workers", workers],
                check=True,
                capture_output=True,
            )
            seconds.append(time.monotonic() - begin)
    ratio = seconds[0] / seconds[1]
    print(
        f"suite demo, 200 images: {seconds[0]:.0f} s with one process, {seconds[1]:.0f} s with "
        f"two: {ratio:.2f} times as fast"
    )
    return {"two processes over one": round(ratio, 2)}


def main() -> None:
    """Measure both, and add them to the results."""
    torch.set_num_threads(1)
    keep_freed()
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    results = json.loads(RESULTS.read_text())
    for path in sys.argv[1:]:
        results |= retiring(path)
    results |= processes(sys.argv[1])
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
