"""How long attacks take in units of the limit: as many bare passes of the folded network.

python benchmarks/attacks.py [PATTERN]     writes benchmarks/results.json: name -> ratio
python benchmarks/attacks.py searches      only QL, Square, Simple and Corner Search

All contestants of a line run in turn, several times, in one thread. A ratio is taken within each
round, and the median over rounds is shown with the smallest and the largest, so that noise shows.
Passes that a contestant makes more or less than the limit count against it or for it, but for QL,
Square, Simple and Corner Search, whose limit is as many forwards as they made.
"""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ccat import (
    L0,
    L1,
    L2,
    PGD,
    Attack,
    ConfidenceCalibrated,
    CornerSearch,
    Estimated,
    Linf,
    Problem,
    Simple,
    Square,
    create_model,
)
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.objectives import Objective, cross_entropy, other_class_confidence
from ccat.threats import Threat

Contest = dict[str, Callable[[], object]]
LIMIT = "limit"


def seeded() -> Generator:
    """Return the same random numbers for everyone."""
    return Generator().manual_seed(0)


def network(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network with statistics of real passes, images to attack, and their labels.

    There are as many images as in the paper's batch for the LeNet, fewer where a pass takes long.
    """
    width, count = {"lenet": (None, 100), "resnet20 16": (16, 50), "resnet20 64": (64, 10)}[name]
    model = (
        create_model("lenet", seeded())
        if width is None
        else create_model("resnet20", seeded(), width=width)
    )
    shape = (1, 28, 28) if width is None else (3, 32, 32)
    with torch.no_grad():
        for _ in range(3):
            model.train()(torch.rand(20, *shape, generator=seeded()))
        x = torch.rand(count, *shape, generator=seeded())
        return model.eval(), x, model(x).argmax(1)  # AutoAttack leaves out what is wrong already


def plain_folded(model: nn.Module, x: Tensor) -> nn.Module:
    """Return the limit's network: batch normalisation is folded away, the rest is PyTorch's."""
    return attack_copy(model, x, tuned=False)


def bare(model: nn.Module, x: Tensor, y: Tensor, objective: Objective, iterations: int) -> None:
    """Make T+1 forwards and T backwards."""
    for _ in range(iterations):
        image = x.detach().requires_grad_()
        torch.autograd.grad(objective(model(image), y).sum(), image)
    with torch.no_grad():
        objective(model(x), y)


def literal(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    objective: Objective,
    iterations: int,
    rate: float,
) -> Tensor:
    """Run Algorithm 2 as it is written.

    The trial is valued, and once more for its gradient; weights ask for their gradients too.
    """
    delta, best = torch.zeros_like(x), torch.zeros_like(x)
    value_best = torch.full((len(x),), -torch.inf)
    velocity, step = torch.zeros_like(x), torch.full((len(x), 1, 1, 1), rate)
    for _ in range(iterations):
        point = (x + delta).detach().requires_grad_()
        value = objective(model(point), y)
        value.sum().backward()  # type: ignore[no-untyped-call]
        assert point.grad is not None
        better = value.detach() > value_best
        best, value_best = (
            torch.where(better[:, None, None, None], delta, best),
            torch.where(better, value.detach(), value_best),
        )
        velocity = 0.9 * velocity + 0.1 * threat.ascent(point.grad, point.detach())
        trial = threat.project(x, delta + step * velocity)
        with torch.no_grad():
            accepted = (objective(model((x + trial).clamp(0, 1)), y) >= value)[:, None, None, None]
        delta, step = torch.where(accepted, trial, delta), torch.where(accepted, step, step / 1.1)
    return best


def pgd(name: str, objective: Objective, iterations: int) -> Contest:
    """Return ours, the literal one, and others', at equal numbers of iterations."""
    model, x, y = network(name)
    threat, rate = Linf(0.3 if name == "lenet" else 0.03), 0.01 if name == "lenet" else 0.001
    fast = plain_folded(model, x)

    def ours() -> object:
        problem = Problem.of(attack_copy(model, x), x, y, threat, objective)
        return PGD(iterations, rate)(problem, seeded())

    contest: Contest = {
        LIMIT: lambda: bare(fast, x, y, objective, iterations),
        "ours": ours,
        "literal": lambda: literal(model, x, y, threat, objective, iterations, rate),
    }
    return contest | (
        peers(model, x, y, threat.epsilon, rate, iterations) if objective is cross_entropy else {}
    )


def peers(
    model: nn.Module, x: Tensor, y: Tensor, epsilon: float, rate: float, iterations: int
) -> Contest:
    """Return PGD of foolbox and torchattacks and APGD of AutoAttack, all on cross-entropy."""
    import foolbox  # noqa: PLC0415
    import torchattacks  # noqa: PLC0415
    from foolbox.models.pytorch import PyTorchModel  # noqa: PLC0415
    from pyautoattack.autopgd_base import APGDAttack  # noqa: PLC0415

    theirs = foolbox.attacks.LinfPGD(steps=iterations, abs_stepsize=rate, random_start=False)
    wrapped = PyTorchModel(model, bounds=(0, 1), device="cpu")
    apgd = APGDAttack(
        model, n_iter=iterations, norm="Linf", eps=epsilon, loss="ce", device="cpu", seed=0
    )
    other = torchattacks.PGD(model, eps=epsilon, alpha=rate, steps=iterations, random_start=False)
    return {
        "foolbox": lambda: theirs.run(wrapped, x, y, epsilon=epsilon),
        "torchattacks": lambda: other(x, y),
        "AutoAttack": lambda: apgd.perturb(x, y),
    }


def training(name: str) -> Contest:
    """Return a step of CCAT with T = 40 on one batch."""
    model, x, y = network(name)
    method = ConfidenceCalibrated(Linf(0.3), PGD(40, 0.0125, backtracking=1.5))
    half = len(x) // 2
    fast = plain_folded(model, x)

    def descend(images: Tensor) -> None:
        functional.cross_entropy(model.train()(images), y).backward()  # type: ignore[no-untyped-call]
        model.eval()

    def least() -> None:
        bare(fast, x[:half], y[:half], other_class_confidence, 40)
        descend(x)

    def written() -> None:
        delta = literal(model, x[:half], y[:half], Linf(0.3), other_class_confidence, 40, 0.0125)
        descend(torch.cat([x[:half] + delta, x[half:]]))

    def ours() -> None:
        method(model.train(), model, x, y, seeded()).backward()  # type: ignore[no-untyped-call]

    return {LIMIT: least, "ours": ours, "literal": written}


def searching(name: str, attack: Attack, threat: Threat) -> Contest:
    """Return an attack that only looks at scores, against as many bare forwards."""
    model, x, y = network(name)

    def ours() -> Problem:
        problem = Problem.of(attack_copy(model, x), x, y, threat, other_class_confidence)
        attack(problem, seeded())
        return problem

    passes = ours().counts.forwards // len(x)
    fast = plain_folded(model, x)

    def forwards() -> None:
        with torch.no_grad():
            for _ in range(passes):
                other_class_confidence(fast(x), y)

    return {LIMIT: forwards, "ours": ours}


def projection() -> Contest:
    """Return a projection onto L1 ball and box together, against one sort of the same numbers."""
    x = torch.rand(100, 1, 28, 28, generator=seeded())
    delta = torch.randn(x.shape, generator=seeded())
    return {
        LIMIT: lambda: delta.flatten(1).abs().sort(1),
        "ours": lambda: L1(18.0).project(x, delta),
    }


def contests() -> dict[str, Callable[[], Contest]]:
    """Return all contests by name; a contest is made when it is called."""
    found: dict[str, Callable[[], Contest]] = {}
    for net, counts in (("lenet", (40, 200)), ("resnet20 16", (40,)), ("resnet20 64", (10,))):
        for kind, objective in (("CE", cross_entropy), ("Conf", other_class_confidence)):
            for count in counts:
                found[f"PGD-{kind} {count}, {net}"] = partial(pgd, net, objective, count)
    found["CCAT step, lenet"] = partial(training, "lenet")
    for net, count in (("lenet", 200), ("resnet20 16", 20)):
        estimated = PGD(count // 50 + 1, 0.01, gradient=Estimated(50, 0.1))
        searches: tuple[tuple[str, Attack, Threat], ...] = (
            ("QL", estimated, Linf(0.3)),
            ("Square Linf", Square(count), Linf(0.3)),
            ("Square L2", Square(count), L2(3.0)),
            ("Simple", Simple(count), Linf(0.3)),
        )
        for name, attack, threat in searches:
            found[f"{name}, {net}"] = partial(searching, net, attack, threat)
    found["Corner Search, lenet"] = partial(searching, "lenet", CornerSearch(50), L0(15))
    found["L1 projection"] = projection
    return found


def measured(contest: Contest, rounds: int) -> dict[str, list[float]]:
    """Return ratios to the limit, one per round, after a round that does not count."""
    ratios: dict[str, list[float]] = {name: [] for name in contest if name != LIMIT}
    for number in range(rounds + 1):
        seconds = {}
        for name, run in contest.items():
            begin = time.process_time()
            run()
            seconds[name] = time.process_time() - begin
        for name, found in ratios.items() if number else ():
            found.append(seconds[name] / seconds[LIMIT])
    return ratios


def main() -> None:
    """Print one line per contestant."""
    torch.set_num_threads(1)
    keep_freed()  # for all alike
    warnings.simplefilter("ignore")
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    pattern = "[QSC][Lqio]*" if pattern == "searches" else pattern
    file = Path(__file__).with_name("results.json")
    results: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    print(f"{'':44} median  (smallest–largest), in units of the limit")
    for name, make in contests().items():
        if not fnmatchcase(name, pattern):
            continue
        for who, ratios in measured(make(), 3 if "64" in name or "200" in name else 5).items():
            median = statistics.median(ratios)
            results[f"{name}: {who}"] = round(median, 3)
            print(
                f"{name + ': ' + who:44} {median:6.2f}  ({min(ratios):.2f}–{max(ratios):.2f})",
                flush=True,
            )
        file.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
