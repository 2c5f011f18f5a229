"""What an accepted error costs, in passes and seconds: our suites and those of other libraries.

    python benchmarks/found.py [RUN@Linf:0.3 zoo:NAME@L2:3 …] [--images 50] [--out docs/found.svg]

Without names: a normal, an adversarially trained and a CCAT model of the zoo. Tables are printed,
and stored in benchmarks/found.json, from which the figure is drawn. Attacks of one line follow each
other on the images that are left; an image rests once it is wrong and accepted at the τ of 99 %
TPR. “Every target” makes attacks of others look for accepted errors (`ccat.EveryTarget`), where as
published they are content with any wrong answer. A backward counts as two forwards, and seconds are
processor time of one thread.

The pool is what all lines together found. The area is the share of the pool that a line has found,
averaged over the logarithm of the passes from 100 to 100,000.
"""

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import foolbox
import matplotlib.pyplot as plt
import torch
from torch import Generator, Tensor

from ccat import PGD, Attack, AutoAttack, EveryTarget, Foolbox, Images, Linf, Problem, extensions
from ccat.attacks.accepted import CountedModel
from ccat.attacks.external import External
from ccat.attacks.found import Found
from ccat.attacks.passes import Counts
from ccat.catalog.paper import paper_rate
from ccat.catalog.suites import select
from ccat.catalog.zoo import is_zoo_name, zoo_path
from ccat.data import counted, split_of
from ccat.evaluation.metrics import outcome, threshold
from ccat.memory import keep_freed
from ccat.models import attack_copy
from ccat.models.predict import probabilities
from ccat.objectives import level, other_class_confidence
from ccat.report.figures import COLOURS, RC
from ccat.runs import Run
from ccat.threats import Condition, Threat, label, parse_threat

FIRST, LAST = 100, 100_000  # passes between which the area is taken
FEW = 5  # errors that a model must have to be drawn
STORED = Path(__file__).with_name("found.json")
MODELS = [
    "zoo:mnist-normal-small@Linf:0.3",
    "zoo:mnist-at-small@Linf:0.3",
    "zoo:mnist-ccat-small@Linf:0.3",
    "zoo:mnist-at-small@L2:3",
    "zoo:mnist-ccat-small@L2:3",
]


class Point(NamedTuple):
    """After an attack: passes and seconds per image so far, and which images are broken."""

    passes: float
    seconds: float
    broken: Tensor


@dataclass(frozen=True)
class TorchAttacks(Attack):
    """PGD of torchattacks, its passes counted."""

    steps: int = 100
    name: str = "torchattacks PGD"

    def __call__(self, problem: Problem, generator: Generator) -> Found:
        import torchattacks  # noqa: PLC0415 (`make bench` puts it beside)

        kind = torchattacks.PGD if isinstance(problem.threat, Linf) else torchattacks.PGDL2
        size = {"eps": problem.threat.epsilon, "alpha": problem.threat.epsilon / 10}
        assert problem.model is not None
        attack = kind(CountedModel(problem.model, problem.counts), steps=self.steps, **size)
        return External(self.name, attack)(problem, generator)

    def cost(self, shape: tuple[int, int, int]) -> Counts:
        return Counts(1 + self.steps, self.steps)


def lines(shape: tuple[int, ...], threat: Threat) -> Mapping[str, list[Attack]]:
    """The attacks of each line, in their order."""
    linf, attacks = isinstance(threat, Linf), cast_any(foolbox.attacks)
    boundary = attacks.LinfinityBrendelBethgeAttack if linf else attacks.L2BrendelBethgeAttack
    others: list[Attack] = [
        Foolbox(attacks.LinfPGD(steps=100) if linf else attacks.L2PGD(steps=100)),
        Foolbox(attacks.LInfFMNAttack(steps=200) if linf else attacks.L2FMNAttack(steps=200)),
        Foolbox(boundary(steps=100), from_pool=True),
    ]
    parts = {
        one: AutoAttack("standard", (("attacks", (one,)),))
        for one in ("apgd-ce", "apgd-t", "fab-t", "square")
    }
    aware = [parts["apgd-ce"], parts["square"]]  # the others aim at classes themselves
    zero = PGD(1000, paper_rate(threat, 30))
    paper = [zero, *10 * [replace(zero, start="random")]]
    found: dict[str, list[Attack]] = {
        f"ccat, {suite}": [
            one.attack for one in select(suite, shape, conditions=[Condition(threat)])
        ]
        for suite in ("demo", "standard")
    }
    return found | {
        "AutoAttack": list(parts.values()),
        "AutoAttack, every target": [EveryTarget(one) for one in aware],
        "foolbox": others,
        "foolbox, every target": [EveryTarget(one) for one in others],
        "torchattacks": [TorchAttacks()],
        "torchattacks, every target": [EveryTarget(TorchAttacks())],
        "the paper's PGD-Conf": list(paper),
    }


def cast_any(module: object) -> Any:
    """Return a module whose names have no types."""
    return module


def followed(run: Run, threat: Threat, images: Images) -> dict[str, list[Point]]:
    """Attack some images of a run with every line, and print each as it ends."""
    model = run.training.model()
    last = split_of(run.recipe.dataset, "test")[-1000:]
    tau = threshold(outcome(probabilities(model, last.floats()), last.y), 0.99)
    pool = split_of(run.recipe.dataset, "train")[:2000]
    x, y = images.floats(), images.y
    fast = attack_copy(model, x)
    about = (threat, other_class_confidence, pool.floats(), None, pool.y)
    answers = probabilities(model, x)
    wrong = (answers.argmax(1) != y) & (answers.amax(1) >= tau)
    found: dict[str, list[Point]] = {}
    for name, attacks in lines(tuple(x.shape[1:]), threat).items():
        points = [Point(1, 0, wrong.clone())]
        for number, attack in enumerate(attacks):
            rows = (~points[-1].broken).nonzero()[:, 0]
            if len(rows) == 0:
                break
            problem = Problem.of(fast, x[rows], y[rows], *about)
            problem = replace(problem, tau=tau, enough=level(other_class_confidence, tau))
            begin = time.process_time()
            delta = attack(problem, Generator().manual_seed(number))
            seconds = time.process_time() - begin
            given = probabilities(model, problem.images(delta))
            broken = points[-1].broken.clone()
            broken[rows[(given.argmax(1) != y[rows]) & (given.amax(1) >= tau)]] = True
            passes = problem.counts.forwards + 2 * problem.counts.backwards
            before = points[-1]
            each = (before.passes + passes / len(x), before.seconds + seconds / len(x))
            points.append(Point(*each, broken))
        found[name] = points
        text = ", ".join(f"{int(one.broken.sum())} @{one.passes:.0f}" for one in points)
        print(f"{run.path.name} {label(threat)} {name}: {text}", flush=True)
    return found


def area(points: Sequence[Point], pool: int) -> float:
    """Return the share of the pool found, averaged over log passes from FIRST to LAST."""
    total, ends = 0.0, [*(one.passes for one in points[1:]), math.inf]
    for point, end in zip(points, ends, strict=True):
        low, high = max(point.passes, FIRST), min(end, LAST)
        if high > low:
            total += int(point.broken.sum()) / pool * math.log(high / low)
    return total / math.log(LAST / FIRST)


def row(points: Sequence[Point], pool: int) -> dict[str, Any]:
    """Return what the table says of one line, and its curve: passes, seconds, images broken."""
    reached = [one for one in points if int(one.broken.sum()) >= 0.95 * pool]
    last = points[-1]
    return {
        "found": int(last.broken.sum()),
        "pool": pool,
        "area": area(points, pool),
        "passes": last.passes,
        "seconds": last.seconds,
        "passes to 95 %": reached[0].passes if reached else None,
        "seconds to 95 %": reached[0].seconds if reached else None,
        "images": len(last.broken),
        "curve": [
            (round(one.passes, 1), round(one.seconds, 4), int(one.broken.sum())) for one in points
        ],
    }


def table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the lines of one model as a table in Markdown."""
    head = ("found of pool", "area", "passes", "seconds", "passes to 95 %", "seconds to 95 %")
    text = [f"| {title} | {' | '.join(head)} |", f"|---|{len(head) * '---:|'}"]
    for name, one in rows.items():
        shown = [f"{one['found']} of {one['pool']}", f"{one['area']:.2f}"]
        for key, digits in (("passes", 0), ("seconds", 2)):
            shown.append(f"{one[key]:,.{digits}f}")
        for key, digits in (("passes to 95 %", 0), ("seconds to 95 %", 2)):
            shown.append("–" if one[key] is None else f"{one[key]:,.{digits}f}")
        text.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(text)


def draw(stored: Mapping[str, Mapping[str, Any]], out: Path) -> None:
    """Draw a panel for each model: accepted errors over passes, a line for each contestant.

    Where fewer than FEW errors are known there is nothing to see.
    """
    plt.rcParams.update(RC)
    stored = {
        title: of_lines
        for title, of_lines in stored.items()
        if max(one["pool"] for one in of_lines.values()) >= FEW
    }
    if not stored:
        return
    wide = min(3, len(stored))
    high = math.ceil(len(stored) / wide)
    size = (3.6 * wide, 2.7 * high + 0.9)
    figure, axes = plt.subplots(high, wide, figsize=size, squeeze=False, sharey=True)
    for one, (title, of_lines) in zip(axes.flat, stored.items(), strict=False):
        for number, (name, found) in enumerate(of_lines.items()):
            colour = COLOURS[number // 2 % len(COLOURS)]
            style = "-" if number in (1, 3, 5, 7, 8) else "--"
            at = [max(passes, 10) for passes, *_ in found["curve"]]
            share = [100 * broken / found["images"] for *_, broken in found["curve"]]
            one.step(at, share, style, where="post", color=colour, label=name)
            one.plot(at[-1], share[-1], "o", markersize=3, color=colour)
        one.set(xscale="log", xlabel="passes per image", title=title)
        one.set(ylim=(-3, 103), xlim=(10, 200_000))
        one.set_xticks([10, 100, 1000, 10_000, 100_000], ["10", "100", "1,000", "10,000", "10⁵"])
    for row in axes:
        row[0].set(ylabel="accepted errors, %")
    for spare in list(axes.flat)[len(stored) :]:
        spare.set_axis_off()
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncol=3, frameon=False)
    figure.tight_layout(rect=(0, 0.8 / size[1], 1, 1))
    figure.savefig(out, metadata={"Date": None})


def opened(name: str) -> Run:
    """Return a run, or a model of the zoo as one."""
    return Run.open(zoo_path(name) if is_zoo_name(name) else Path(name))


def main() -> None:
    """Attack every run with every line; print tables, store them, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="*", metavar="RUN@THREAT", default=MODELS)
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("docs/found.svg"))
    parser.add_argument("--add", action="store_true", help="keep what is stored of other runs")
    parser.add_argument("--trust", action="store_true", help="import factories that runs name")
    options = parser.parse_args()
    if options.trust:
        extensions.trust_everything()
    torch.set_num_threads(1)
    keep_freed()
    stored = json.loads(STORED.read_text()) if options.add and STORED.exists() else {}
    for given in options.runs:
        name, _, text = given.partition("@")
        run, threat = opened(name), parse_threat(text or "Linf:0.3")
        images = counted(run.recipe.dataset)[: options.images]
        title = f"{run.path.name}, {Condition(threat).title}"
        of_lines = followed(run, threat, images)
        pool = int(torch.stack([one[-1].broken for one in of_lines.values()]).any(0).sum())
        stored[title] = {name: row(points, max(pool, 1)) for name, points in of_lines.items()}
        print(f"\n{table(title, stored[title])}\n", flush=True)
        STORED.write_text(json.dumps(stored, indent=1) + "\n")
        draw(stored, options.out)


if __name__ == "__main__":
    main()
