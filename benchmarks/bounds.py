"""What bounds cost: a training step for certificates, and certificates themselves.

python benchmarks/bounds.py

A step of `IntervalBound` in units of a step of normal training, on the networks of its recipes; and
certificates by intervals and by linear bounds in units of a forward pass of as many images. One
thread, CPU time, medians of interleaved rounds.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Generator, nn

from ccat import IntervalBound, Linf, Method, Normal, certify, create_model
from ccat.bounds import Bounds
from ccat.memory import keep_freed

ROUNDS = 30


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def ratio(one: Callable[[], object], other: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median of what the second takes in units of the first, warmed up."""
    pairs = [(seconds(one), seconds(other)) for _ in range(rounds + 3)][3:]
    return statistics.median(second / first for first, second in pairs)


def stepper(model: nn.Module, method: Method) -> Callable[[], object]:
    """Return a training step on a fixed batch of a hundred images."""
    generator = Generator().manual_seed(0)
    x = torch.rand(100, 1, 28, 28, generator=generator) ** 3
    y = torch.randint(10, (100,), generator=generator)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)

    def step() -> None:
        loss = method(model, model, x, y, generator)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def certificates(model: nn.Module, count: int, bounds: Bounds, rounds: int) -> float:
    """Return what a certificate of so many images takes in units of a forward pass of them."""
    x, y = torch.rand(count, 1, 28, 28), torch.zeros(count, dtype=torch.int64)
    with torch.no_grad():
        return ratio(
            lambda: model(x), lambda: certify(model, x, y, Linf(0.1), bounds=bounds), rounds
        )


def main() -> None:
    """Print the ratios."""
    torch.set_num_threads(1)
    keep_freed()
    for name in ("lenet", "wide-lenet", "steep-lenet"):
        model = create_model(name, Generator().manual_seed(0)).train()
        bounded = ratio(stepper(model, Normal()), stepper(model, IntervalBound(0.3)))
        print(f"{name}: a step of IntervalBound takes {bounded:.2f} steps of normal training")
        interval = certificates(model.eval(), 100, "interval", ROUNDS)
        print(f"{name}: an interval certificate takes {interval:.0f} forward passes")
    linear = certificates(create_model("lenet", Generator().manual_seed(0)).eval(), 2, "linear", 2)
    print(f"lenet: a linear certificate takes {linear:.0f} forward passes")


if __name__ == "__main__":
    main()
