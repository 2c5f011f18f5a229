"""What the paper's evaluation costs, and how many workers one driver can serve.

python benchmarks/scale.py [--device cuda] [--images 1000]

The number of passes follows from the suites; the time of a pass is measured here, on the data set's
network. A driver stores what workers send it, block by block: that is measured too, and then the
whole is simulated.
"""

import argparse
import heapq
import pickle
import statistics
import tempfile
import time
from pathlib import Path

import torch

from ccat import RECIPES, SUITES, Case, Problem, create_model, other_class_confidence
from ccat.attacking import BLOCK, Attempt, Block
from ccat.data import data_digest
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.pipeline.run_results import RunResults
from ccat.rejection import CONFIDENCE
from ccat.runs import Run

Shape = tuple[int, int, int]
NETWORKS: dict[str, tuple[str, Shape]] = {
    "mnist": ("lenet", (1, 28, 28)),
    "svhn": ("resnet20", (3, 32, 32)),
    "cifar10": ("resnet20", (3, 32, 32)),
}
AHEAD = 2  # units per worker that are under way


def seconds_per_block(name: str, device: str) -> tuple[float, float]:
    """Time a forward, and a forward with a backward, of a hundred images: medians of three."""
    network, shape = NETWORKS[name]
    channels = shape[0]
    generator = torch.Generator().manual_seed(0)
    model = create_model(network, generator, channels=channels).eval().to(device)
    x = torch.rand(BLOCK, *shape, generator=torch.Generator().manual_seed(0)).to(device)
    y = torch.zeros(BLOCK, dtype=torch.int64, device=device)
    threat = SUITES[f"paper-{name}"].cases[0].threat
    problem = Problem.of(attack_copy(model, x), x, y, threat, other_class_confidence)
    found = []
    for run in (lambda: problem.evaluate(0 * x), lambda: problem.value_and_grad(0 * x)):
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
    """Time how long the driver keeps one block, where others of the condition are kept already.

    Returns:
        The seconds, and the bytes that come over the network.
    """
    _, shape = NETWORKS[name]
    with tempfile.TemporaryDirectory() as place:
        run = Run.create(Path(place) / "run", RECIPES["mnist-normal-demo"], "cpu")
        run.training.save_model(create_model("lenet", torch.Generator().manual_seed(0)))
        data = data_digest("mnist")
        results = RunResults(run, data, fitted=())
        answers = torch.rand(BLOCK, 10).softmax(1)
        scores = {CONFIDENCE: answers.amax(1)}
        block = Block(answers, torch.rand(BLOCK), scores, 1.0, 1, 1)
        sent, times = pickle.dumps((block, torch.rand(BLOCK, *shape))), []
        for restart in range(30):
            attempt = Attempt(SUITES["paper-mnist"].cases[0], restart, run.weights, data)
            begin = time.perf_counter()
            results.keep(attempt, 0, *pickle.loads(sent))
            times.append(time.perf_counter() - begin)
    return statistics.median(times[5:]), len(sent)


def hours_with(workers: int, blocks: list[float], store: float) -> float:
    """Simulate the hours until all blocks are stored.

    They are handed out the costliest first, some per worker under way, and stored by the driver one
    after the other.
    """
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


def seconds_of(case: Case, shape: Shape, forward: float, both: float) -> float:
    """Return what a block of a case takes."""
    cost = case.attack.cost(shape)
    return (cost.forwards - cost.backwards) * forward + cost.backwards * both


def main() -> None:
    """Print two lines on each data set."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--device", default="cpu")
    options.add_argument("--images", type=int, default=1000)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    keep_freed()
    for name, (network, shape) in NETWORKS.items():
        cases = SUITES[f"paper-{name}"].cases
        forward, both = seconds_per_block(name, chosen.device)
        store, sent = seconds_per_store(name)
        forwards = sum(case.restarts * case.attack.cost(shape).forwards for case in cases)
        backwards = sum(case.restarts * case.attack.cost(shape).backwards for case in cases)
        lasting = [
            seconds_of(case, shape, forward, both) for case in cases for _ in range(case.restarts)
        ]
        total = sum(lasting) / 3600 * chosen.images / BLOCK
        print(
            f"{name}, {network}: {forwards:,} forwards and {backwards:,} backwards per image; "
            f"{chosen.images} images are {len(lasting) * chosen.images // BLOCK:,} blocks of "
            f"{statistics.mean(lasting):.1f} s ({min(lasting):.1f} to {max(lasting):.0f}), "
            f"{total:,.0f} hours of one {chosen.device} ({1000 * forward:.1f} ms a forward, "
            f"{1000 * both:.1f} a pass)"
        )
        everything = lasting * (chosen.images // BLOCK)
        spread = []
        for count in (2, 10, 100, 1000):
            needed = hours_with(count, everything, store)
            busy = 100 * total / count / needed
            spread.append(f"{count:,} workers take {needed:,.1f} h ({busy:.0f} % busy)")
        print(
            f"  {', '.join(spread)}\n  the driver takes {1000 * store:.1f} ms and "
            f"{sent / 1e6:.1f} MB per block"
        )


if __name__ == "__main__":
    main()
