"""What the paper's evaluation costs, and how many workers one driver can serve.

python benchmarks/scale.py [--device cuda] [--images 1000]

Passes follow from the suites; the time of a pass is measured here, on the data set's network; a driver stores what workers send it, block
by block, which is measured, too, and then simulated.
"""

import argparse
import heapq
import pickle
import statistics
import tempfile
import time
from pathlib import Path

import torch

from ccat import Problem, create_model, other_class_confidence
from ccat.attempts import BLOCK, Attempt, Block
from ccat.cookbook import RECIPES
from ccat.memory import keep_freed
from ccat.models import folded
from ccat.recipes import Case
from ccat.stages.blocks import keep_block
from ccat.store import Run
from ccat.suites import SUITES

NETWORKS = {"mnist": ("lenet", (1, 28, 28)), "svhn": ("resnet20", (3, 32, 32)), "cifar10": ("resnet20", (3, 32, 32))}
AHEAD = 2  # units per worker that are under way


def seconds_per_block(name: str, device: str) -> tuple[float, float]:
    """A forward, and a forward with a backward, of a hundred images: medians of three."""
    network, shape = NETWORKS[name]
    model = create_model(network, torch.Generator().manual_seed(0)).eval().to(device)
    x = torch.rand(BLOCK, *shape, generator=torch.Generator().manual_seed(0)).to(device)
    problem = Problem.of(
        folded(model, x), x, torch.zeros(BLOCK, dtype=torch.int64), SUITES[f"paper-{name}"][0].threat, other_class_confidence
    )
    found = []
    for run in (lambda: problem.at(0 * x), lambda: problem.climb(0 * x)):
        times = []
        for _ in range(4):
            begin = time.perf_counter()
            run()
            if device != "cpu":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        found.append(statistics.median(times[1:]))
    return found[0], found[1]


def seconds_per_store(name: str) -> tuple[float, int]:
    """Of the driver for one block, where others of the threat are kept already; and the bytes that come over the network."""
    _, shape = NETWORKS[name]
    with tempfile.TemporaryDirectory() as place:
        run = Run.create(Path(place) / "run", RECIPES["mnist-normal-demo"], "cpu")
        run.save_model(create_model("lenet", torch.Generator().manual_seed(0)))
        result = Block(torch.rand(BLOCK, 10).softmax(1), torch.rand(BLOCK), 1.0, 1, 1)
        sent, times = pickle.dumps((result, torch.rand(BLOCK, *shape))), []
        for restart in range(30):
            attempt = Attempt.of(SUITES["paper-mnist"][0], restart, run.weights, "data")
            begin = time.perf_counter()
            result, delta = pickle.loads(sent)
            keep_block(run, attempt, 0, result, delta, "worst")
            times.append(time.perf_counter() - begin)
    return statistics.median(times[5:]), len(sent)


def hours_with(workers: int, blocks: list[float], store: float) -> float:
    """Until all blocks are stored: handed out the costliest first, some per worker under way, stored by the driver one after the other."""
    ends = [0.0] * workers
    free = 0.0
    stored: list[float] = []
    for number, seconds in enumerate(sorted(blocks, reverse=True)):
        now = heapq.heappop(ends)
        if number >= AHEAD * workers:
            now = max(now, stored[number - AHEAD * workers])
        heapq.heappush(ends, now + seconds)
        free = max(free, now + seconds) + store
        stored.append(free)
    return free / 3600


def hours(case: Case, shape: tuple[int, int, int], forward: float, both: float) -> float:
    """Of a block of a case."""
    cost = case.attack.cost(shape)
    return ((cost.forwards - cost.backwards) * forward + cost.backwards * both) / 3600


def main() -> None:
    """One line per data set."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cpu")
    options.add_argument("--images", type=int, default=1000)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    keep_freed()
    for name, (network, shape) in NETWORKS.items():
        cases = SUITES[f"paper-{name}"]
        forward, both = seconds_per_block(name, chosen.device)
        store, sent = seconds_per_store(name)
        forwards = sum(case.restarts * case.attack.cost(shape).forwards for case in cases)
        backwards = sum(case.restarts * case.attack.cost(shape).backwards for case in cases)
        lasting = [3600 * hours(case, shape, forward, both) for case in cases for _ in range(case.restarts)]
        total = sum(lasting) / 3600 * chosen.images / BLOCK
        print(
            f"{name}, {network}: {forwards:,} forwards and {backwards:,} backwards per image; {chosen.images} images are "
            f"{len(lasting) * chosen.images // BLOCK:,} blocks of {statistics.mean(lasting):.1f} s ({min(lasting):.1f} to "
            f"{max(lasting):.0f}), {total:,.0f} hours of one {chosen.device} ({1000 * forward:.1f} ms a forward, {1000 * both:.1f} a pass)"
        )
        everything = lasting * (chosen.images // BLOCK)
        spread = ", ".join(
            f"{count:,} workers take {(needed := hours_with(count, everything, store)):,.1f} h ({100 * total / count / needed:.0f} % busy)"
            for count in (2, 10, 100, 1000)
        )
        print(f"  {spread}\n  the driver takes {1000 * store:.1f} ms and {sent / 1e6:.1f} MB per block")


if __name__ == "__main__":
    main()
