"""What a GPU makes of ccat: passes, attacks and training steps, eager, compiled and in bfloat16.

python benchmarks/gpu.py                            about ten minutes on a GPU; writes gpu.json
python benchmarks/gpu.py --device cpu --minutes 1   a smoke test

For each network, passes with a gradient and without are timed on the copy that attacks work on:
eager, compiled (torch.compile; CUDA graphs on a GPU), with gradients in bfloat16, and with both.
Contestants take turns, and a ratio is taken within each round. Then the suite `quick` within L∞
attacks 100 random images, and CCAT makes training steps. Images and weights are random: nothing
here says how robust a model is. What does not fit into the time is left out, and the file says so.
"""

import argparse
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from ccat import PGD, ConfidenceCalibrated, Linf, create_model, other_class_confidence
from ccat.attacking import Target
from ccat.attacking.block import attack_block
from ccat.attacking.copies import Copies, Fast
from ccat.catalog.suites import select
from ccat.errors import CcatError
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.models.compiled import Compiled
from ccat.models.half_gradients import HalfGradients
from ccat.threats import Condition

BATCH, ROUNDS = 100, 5
# shape of an image, and ε in L∞
NETWORKS = {
    "lenet": ((1, 28, 28), 0.3),
    "resnet20": ((3, 32, 32), 8 / 255),
    "wrn-28-10": ((3, 32, 32), 8 / 255),
}
EAGER = "eager"
Contest = tuple[dict[str, nn.Module], dict[str, float | str]]


def seeded() -> Generator:
    """Return the same random numbers for everyone."""
    return Generator().manual_seed(0)


@dataclass
class Clock:
    """The time that is left, and what was left out for want of it."""

    end: float
    device: torch.device
    left_out: list[str] = field(default_factory=list)

    def allows(self, what: str) -> bool:
        """Return True if there is time left; otherwise remember what is left out."""
        if time.monotonic() < self.end:
            return True
        self.left_out.append(what)
        return False

    def seconds(self, run: Callable[[], object]) -> float:
        """Return how long a function takes, with all that it starts on the device."""
        self.wait()
        begin = time.perf_counter()
        run()
        self.wait()
        return time.perf_counter() - begin

    def wait(self) -> None:
        """Wait until the device has done all it was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def network(name: str, device: torch.device, count: int) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network with statistics of real passes, images, and what it answers to them."""
    model = create_model(name, seeded()).to(device)
    x = torch.rand(count, *NETWORKS[name][0], generator=seeded()).to(device)
    with torch.no_grad():
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


def contestants(model: nn.Module, x: Tensor, clock: Clock) -> Contest:
    """Return the copies that make passes, by name, and the seconds that compiling took."""
    eager = attack_copy(model, x)
    found: dict[str, nn.Module] = {EAGER: eager, "bfloat16": HalfGradients(eager)}
    compiling: dict[str, float | str] = {}
    for name, of in (("compiled", eager), ("compiled bfloat16", found["bfloat16"])):
        if not clock.allows(f"{type(model).__name__}: {name}"):
            continue
        try:
            made = Compiled(of, x)
        except CcatError as wrong:
            compiling[name] = str(wrong)
        else:
            found[name], compiling[name] = made, round(made.seconds, 1)
    return found, compiling


def passes(copies: dict[str, nn.Module], x: Tensor, y: Tensor, clock: Clock) -> dict[str, object]:
    """Return images per second of each contestant, and its time in units of the eager copy's."""
    about: dict[str, object] = {}
    for run in (gradient, forward):
        times: dict[str, list[float]] = {name: [] for name in copies}
        for number in range(ROUNDS + 1):
            if number > 1 and not clock.allows(f"round {number} of {run.__name__} passes"):
                break
            for name, model in copies.items():
                seconds = clock.seconds(partial(run, model, x, y))
                times[name] += [seconds] * (number > 0)  # the first round warms up
        about[run.__name__] = {
            name: {
                "images per second": round(len(x) / statistics.median(each), 1),
                "of eager": round(
                    statistics.median(
                        one / eager for one, eager in zip(each, times[EAGER], strict=True)
                    ),
                    3,
                ),
            }
            for name, each in times.items()
        }
    return about


def suite(name: str, device: torch.device, clock: Clock, count: int) -> dict[str, object]:
    """Return seconds per image of the suite `quick` within L∞, and how far results are apart."""
    model, x, y = network(name, device, count)
    threat, shape = Linf(NETWORKS[name][1]), NETWORKS[name][0]
    cases = select("quick", shape, conditions=[Condition(threat)])
    ways = {EAGER: Fast(), "bfloat16": Fast(False, "bfloat16"), "compiled": Fast(compiled=True)}
    about: dict[str, object] = {}
    reached: dict[str, Tensor] = {}
    for way, fast in ways.items():
        if not clock.allows(f"{name}: suite, {way}"):
            break
        copies = Copies(fast, count)
        copies(model, x)  # compiling is timed elsewhere
        if copies.fast != fast:
            about[way] = "could not be compiled"
            continue
        target = Target(model, pool=x, pool_labels=y, batch=count, copied=copies)
        best, seconds = torch.full((count,), -torch.inf), 0.0
        for case in cases:
            block, _ = attack_block(target, case, x, y, seeded())
            answers = block.probabilities.scatter(1, y.cpu()[:, None], 0)
            best, seconds = best.maximum(answers.max(1).values), seconds + block.seconds
        reached[way] = best
        about[way] = {
            "seconds per image": round(seconds / count, 4),
            "largest difference of a confidence": float((best - reached[EAGER]).abs().max()),
        }
    return about


def training(name: str, device: torch.device, clock: Clock, count: int) -> dict[str, object]:
    """Return seconds of a CCAT step with ten iterations of PGD."""
    model, x, y = network(name, device, count)
    method = ConfidenceCalibrated(Linf(NETWORKS[name][1]), PGD(10, 0.01))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimiser.zero_grad()
        method(model.train(), model, x, y, seeded()).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    times = [clock.seconds(step)]
    while len(times) <= ROUNDS and clock.allows(f"{name}: step {len(times)} of training"):
        times.append(clock.seconds(step))
    return {"images": count, "seconds": round(statistics.median(times[1:] or times), 4)}


def machine(device: torch.device) -> dict[str, object]:
    """Return what was measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    return {"device": str(device), "name": name, "torch": torch.__version__, "batch": BATCH}


def main() -> None:
    """Measure, and write one JSON file."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--device", choices=["cuda", "cpu"])
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--out", type=Path, default=Path("gpu.json"))
    given = options.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        options.exit(2, "There is no GPU that PyTorch can use; --device cpu is a smoke test.\n")
    device = torch.device(given.device or "cuda")
    torch.set_num_threads(1)
    keep_freed()
    warnings.simplefilter("ignore")
    on_gpu = device.type == "cuda"
    results: dict[str, object] = {"machine": machine(device), "smoke test": not on_gpu}
    names = list(NETWORKS) if on_gpu else ["lenet"]
    begin, share = time.monotonic(), 60 * given.minutes / len(names)
    left_out: list[str] = []
    for number, name in enumerate(names, 1):
        clock = Clock(begin + number * share, device)
        count = BATCH if on_gpu else 10
        about: dict[str, object] = {"training step": training(name, device, clock, count)}
        about["suite quick, L∞"] = suite(name, device, clock, count)
        model, x, y = network(name, device, count)
        copies, compiling = contestants(model, x, clock)
        results[name] = about | passes(copies, x, y, clock) | {"seconds of compiling": compiling}
        left_out += clock.left_out
        results["left out"] = left_out
        given.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: done after {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{given.out} is written" + ("" if on_gpu else ": a smoke test on a CPU, not a result"))


if __name__ == "__main__":
    main()
