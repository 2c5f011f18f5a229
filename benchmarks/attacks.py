"""How long attacks take in units of the limit: as many bare passes of the folded network, and nothing else.

python benchmarks/attacks.py [PATTERN]     writes benchmarks/results.json, name -> ratio (median of interleaved runs)

All contestants of a line run in turn, several times, in one thread; a ratio is taken within each round, and the median over rounds is
shown with the smallest and the largest, so that noise shows. Passes that a contestant makes more or less than the limit count against it
or for it, but for QL, Square, Simple and Corner Search, whose limit is as many forwards as they made.
"""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ccat import L0, L1, L2, PGD, ConfidenceCalibrated, CornerSearch, Estimated, Linf, Problem, Simple, Square, create_model
from ccat.memory import keep_freed
from ccat.models import folded
from ccat.objectives import Objective, cross_entropy, other_class_confidence
from ccat.threats import Threat

Contest = dict[str, Callable[[], object]]
LIMIT = "limit"


def seeded() -> Generator:
    """The same random numbers for everyone."""
    return Generator().manual_seed(0)


def network(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """With statistics of real passes, and images to attack; the paper's batch for the LeNet, smaller ones where a pass takes long."""
    width, count = {"lenet": (None, 100), "resnet20 16": (16, 50), "resnet20 64": (64, 10)}[name]
    model = create_model("lenet", seeded()) if width is None else create_model("resnet20", seeded(), width=width)
    shape = (1, 28, 28) if width is None else (3, 32, 32)
    with torch.no_grad():
        for _ in range(3):
            model.train()(torch.rand(20, *shape, generator=seeded()))
        x = torch.rand(count, *shape, generator=seeded())
        return model.eval(), x, model(x).argmax(1)  # AutoAttack leaves out what is wrong already


def plain_folded(model: nn.Module, x: Tensor) -> nn.Module:
    """The limit's network: batch normalisation folded away, everything else as PyTorch does it."""
    return folded(model, x, tuned=False)


def bare(model: nn.Module, x: Tensor, y: Tensor, objective: Objective, iterations: int) -> None:
    """T+1 forwards and T backwards."""
    for _ in range(iterations):
        image = x.detach().requires_grad_()
        torch.autograd.grad(objective(model(image), y).sum(), image)
    with torch.no_grad():
        objective(model(x), y)


def literal(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, objective: Objective, iterations: int, rate: float) -> Tensor:
    """Algorithm 2 as it is written: the trial is valued, and once more for its gradient; weights ask for theirs, too."""
    delta, best = torch.zeros_like(x), torch.zeros_like(x)
    value_best = torch.full((len(x),), -torch.inf)
    velocity, step = torch.zeros_like(x), torch.full((len(x), 1, 1, 1), rate)
    for _ in range(iterations):
        point = (x + delta).detach().requires_grad_()
        value = objective(model(point), y)
        value.sum().backward()  # type: ignore[no-untyped-call]
        assert point.grad is not None
        better = value.detach() > value_best
        best, value_best = torch.where(better[:, None, None, None], delta, best), torch.where(better, value.detach(), value_best)
        velocity = 0.9 * velocity + 0.1 * threat.ascent(point.grad, point.detach())
        trial = threat.project(x, delta + step * velocity)
        with torch.no_grad():
            accepted = (objective(model((x + trial).clamp(0, 1)), y) >= value)[:, None, None, None]
        delta, step = torch.where(accepted, trial, delta), torch.where(accepted, step, step / 1.1)
    return best


def pgd(name: str, objective: Objective, iterations: int) -> Contest:
    """Ours, the literal one, and others', at equal numbers of iterations."""
    model, x, y = network(name)
    threat, rate = Linf(0.3 if name == "lenet" else 0.03), 0.01 if name == "lenet" else 0.001
    fast = plain_folded(model, x)

    def ours() -> object:
        problem = Problem.of(folded(model, x), x, y, threat, objective)
        return PGD(iterations, rate)(problem, seeded())

    contest: Contest = {
        LIMIT: lambda: bare(fast, x, y, objective, iterations),
        "ours": ours,
        "literal": lambda: literal(model, x, y, threat, objective, iterations, rate),
    }
    return contest | (peers(model, x, y, threat.epsilon, rate, iterations) if objective is cross_entropy else {})


def peers(model: nn.Module, x: Tensor, y: Tensor, epsilon: float, rate: float, iterations: int) -> Contest:
    """foolbox's and torchattacks' PGD and AutoAttack's APGD, which maximise cross-entropy."""
    import foolbox  # noqa: PLC0415
    import torchattacks  # noqa: PLC0415
    from foolbox.models.pytorch import PyTorchModel  # noqa: PLC0415
    from pyautoattack.autopgd_base import APGDAttack  # noqa: PLC0415

    theirs = foolbox.attacks.LinfPGD(steps=iterations, abs_stepsize=rate, random_start=False)
    wrapped = PyTorchModel(model, bounds=(0, 1), device="cpu")
    apgd = APGDAttack(model, n_iter=iterations, norm="Linf", eps=epsilon, loss="ce", device="cpu", seed=0)
    other = torchattacks.PGD(model, eps=epsilon, alpha=rate, steps=iterations, random_start=False)
    return {
        "foolbox": lambda: theirs.run(wrapped, x, y, epsilon=epsilon),
        "torchattacks": lambda: other(x, y),
        "AutoAttack": lambda: apgd.perturb(x, y),
    }


def training(name: str) -> Contest:
    """A step of CCAT with T = 40 on one batch."""
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

    return {LIMIT: least, "ours": lambda: method(model.train(), model, x, y, seeded()).backward(), "literal": written}  # type: ignore[no-untyped-call]


def searching(net: str, attack: object, threat: Threat) -> Contest:
    """An attack that only looks at scores, against as many bare forwards."""
    model, x, y = network(net)
    problem = Problem.of(folded(model, x), x, y, threat, other_class_confidence)
    attack(problem, seeded())  # type: ignore[operator]
    passes = problem.counts.forwards // len(x)
    fast = plain_folded(model, x)

    def forwards() -> None:
        with torch.no_grad():
            for _ in range(passes):
                other_class_confidence(fast(x), y)

    return {LIMIT: forwards, "ours": lambda: attack(Problem.of(folded(model, x), x, y, threat, other_class_confidence), seeded())}  # type: ignore[operator]


def projection() -> Contest:
    """Onto the L1 ball and the box together, against one sort of the same numbers."""
    x = torch.rand(100, 1, 28, 28, generator=seeded())
    delta = torch.randn(x.shape, generator=seeded())
    return {LIMIT: lambda: delta.flatten(1).abs().sort(1), "ours": lambda: L1(18.0).project(x, delta)}


CONTESTS: dict[str, Callable[[], Contest]] = {
    **{
        f"PGD-{kind} {iterations}, {net}": lambda net=net, objective=objective, iterations=iterations: pgd(net, objective, iterations)  # type: ignore[misc]
        for net, counts in (("lenet", (40, 200)), ("resnet20 16", (40,)), ("resnet20 64", (10,)))
        for kind, objective in (("CE", cross_entropy), ("Conf", other_class_confidence))
        for iterations in counts
    },
    "CCAT step, lenet": lambda: training("lenet"),
    **{
        f"{name}, {net}": lambda net=net, attack=attack, threat=threat: searching(net, attack, threat)  # type: ignore[misc]
        for net, count in (("lenet", 200), ("resnet20 16", 20))
        for name, attack, threat in (
            ("QL", PGD(count // 50 + 1, 0.01, gradient=Estimated(50, 0.1)), Linf(0.3)),
            ("Square Linf", Square(count), Linf(0.3)),
            ("Square L2", Square(count), L2(3.0)),
            ("Simple", Simple(count), Linf(0.3)),
        )
    },
    "Corner Search, lenet": lambda: searching("lenet", CornerSearch(50), L0(15)),
    "L1 projection": projection,
}


def measured(contest: Contest, rounds: int) -> dict[str, list[float]]:
    """Ratios to the limit, one per round, after a round that does not count."""
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
    """One line per contestant."""
    torch.set_num_threads(1)
    keep_freed()  # for all alike
    warnings.simplefilter("ignore")
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    file = Path(__file__).with_name("results.json")
    results: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    print(f"{'':44} median  (smallest–largest), in units of the limit")
    for name, make in CONTESTS.items():
        if fnmatchcase(name, pattern):
            for who, ratios in measured(make(), 3 if "64" in name or "200" in name else 5).items():
                results[f"{name}: {who}"] = round(statistics.median(ratios), 3)
                print(f"{name + ': ' + who:44} {statistics.median(ratios):6.2f}  ({min(ratios):.2f}–{max(ratios):.2f})", flush=True)
            file.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
