"""What compiling passes saves and costs: compiled passes against eager ones of the same copy.

python benchmarks/compile.py [--rounds 7] [NETWORK ...]

Of each network the copy that attacks work on makes passes eagerly and compiled, in turns, in one
process with one thread, and processor time is counted. A ratio is taken within each round; shown
are the median, the smallest and the largest. Then PGD runs on both copies, and the model itself
scores what they find. The graphs are compiled afresh, into a folder of their own.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from ccat import PGD, Linf, Problem, create_model, other_class_confidence
from ccat.memory import keep_freed
from ccat.models import attack_copy, probabilities
from ccat.models.compiled import Compiled

# name: network, its arguments, shape of an image, images at once
NETWORKS: dict[str, tuple[str, dict[str, int], tuple[int, int, int], int]] = {
    "lenet": ("lenet", {}, (1, 28, 28), 100),
    "resnet20-16": ("resnet20", {"width": 16}, (3, 32, 32), 50),
    "resnet20-64": ("resnet20", {"width": 64}, (3, 32, 32), 10),
    "wrn-28-10": ("wrn-28-10", {}, (3, 16, 16), 8),
}


def seeded() -> Generator:
    """Return the same random numbers for everyone."""
    return Generator().manual_seed(0)


def network(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network with statistics of real passes, images, and what it answers to them."""
    architecture, arguments, shape, count = NETWORKS[name]
    model = create_model(architecture, seeded(), **arguments)
    x = torch.rand(count, *shape, generator=seeded())
    with torch.no_grad():
        for _ in range(3):
            model.train()(x)
        return model.eval(), x, model(x).argmax(1)


def forward(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Make a pass without a gradient."""
    with torch.no_grad():
        other_class_confidence(model(x), y)


def gradient(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Make a pass with a gradient."""
    image = x.detach().requires_grad_()
    torch.autograd.grad(other_class_confidence(model(image), y).sum(), image)


def ratios(
    run: Callable[[nn.Module, Tensor, Tensor], None],
    copies: tuple[nn.Module, nn.Module],
    x: Tensor,
    y: Tensor,
    rounds: int,
) -> tuple[list[float], float]:
    """Return compiled over eager time, one per round, and the median eager milliseconds."""
    found, eager = [], []
    for number in range(rounds + 1):
        seconds = []
        for model in copies:
            begin = time.process_time()
            for _ in range(3):
                run(model, x, y)
            seconds.append((time.process_time() - begin) / 3)
        if number:  # the first round warms up
            found.append(seconds[1] / seconds[0])
            eager.append(1000 * seconds[0])
    return found, statistics.median(eager)


def difference(
    model: nn.Module, copies: tuple[nn.Module, nn.Module], x: Tensor, y: Tensor
) -> float:
    """Return how far confidences that PGD finds on the two copies are apart, at most."""
    found = []
    for copied in copies:
        problem = Problem.of(copied, x, y, Linf(0.03), other_class_confidence)
        images = problem.images(PGD(10, 0.01)(problem, seeded()))
        answers = probabilities(model, images).scatter(1, y[:, None], 0)
        found.append(answers.max(1).values)
    return float((found[0] - found[1]).abs().max())


def main() -> None:
    """Print a line for each network and kind of pass."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("networks", nargs="*", metavar="NETWORK", choices=[[], *NETWORKS])
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    torch.set_num_threads(1)
    keep_freed()
    print(
        "| network, images | pass | eager | compiled / eager | compiling | PGD differs by |\n"
        "|---|---|---:|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory() as place:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = place
        for name in given.networks or NETWORKS:
            model, x, y = network(name)
            eager = attack_copy(model, x)
            begin = time.process_time(), os.times().children_user
            compiled = Compiled(eager, x)
            cost = time.process_time() - begin[0] + os.times().children_user - begin[1]
            copies = (eager, compiled)
            apart = difference(model, copies, x, y)
            for kind in (gradient, forward):
                each, milliseconds = ratios(kind, copies, x, y, given.rounds)
                print(
                    f"| {name}, {len(x)} of {x.shape[2]}×{x.shape[3]} | {kind.__name__} | "
                    f"{milliseconds:.1f} ms | {statistics.median(each):.2f} "
                    f"({min(each):.2f}–{max(each):.2f}) | {cost:.0f} s | {apart:.0e} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
