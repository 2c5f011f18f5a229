"""Accepted errors found over passes per image: our suite, others' attacks, the paper's.

python benchmarks/found.py RUN [--threat Linf:0.3] [--images 20] [--out found.svg]

Every attack looks for accepted errors at the τ of 99 % TPR; those of AutoAttack and foolbox are
made aware of rejection (`ccat.EveryTarget`). A backward counts as two forwards. Attacks of one line
follow each other on the images that are left; an image rests once it is accepted at that τ.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import foolbox
import matplotlib.pyplot as plt
import torch
from torch import Generator

from ccat import PGD, Attack, AutoAttack, EveryTarget, Foolbox, Linf, Problem
from ccat.catalog.suites import select
from ccat.data import counted, split_of
from ccat.evaluation.metrics import outcome, threshold
from ccat.models import attack_copy
from ccat.models.predict import probabilities
from ccat.objectives import level, other_class_confidence
from ccat.report.figures import COLOURS, RC
from ccat.runs import Run
from ccat.threats import Condition, Threat, label, parse_threat


def lines(shape: tuple[int, ...], threat: Threat) -> Mapping[str, list[Attack]]:
    """The attacks of each line, in their order."""
    ours = select("standard", shape, conditions=[Condition(threat)])
    rate = threat.epsilon / 30
    paper: list[Attack] = [PGD(1000, rate), *(PGD(1000, rate, start="random") for _ in range(10))]
    apgd = AutoAttack("custom", (("attacks", ("apgd-ce",)),))
    square = AutoAttack("custom", (("attacks", ("square",)),))
    attacks: Any = foolbox.attacks
    linf = isinstance(threat, Linf)
    others = [
        Foolbox(attacks.LinfPGD(steps=100) if linf else attacks.L2PGD(steps=100)),
        Foolbox(attacks.LInfFMNAttack(steps=200) if linf else attacks.L2FMNAttack(steps=200)),
        Foolbox(
            (attacks.LinfinityBrendelBethgeAttack if linf else attacks.L2BrendelBethgeAttack)(
                steps=100
            ),
            from_pool=True,
        ),
    ]
    return {
        "ccat, standard": [case.attack for case in ours],
        "AutoAttack, every target": [EveryTarget(apgd), EveryTarget(square)],
        "foolbox, every target": [EveryTarget(one) for one in others],
        "the paper's PGD-Conf": paper,
    }


def main() -> None:
    """Attack, print the points of each line, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--threat", type=parse_threat, default=Linf(0.3))
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("found.svg"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.open(options.run)
    model = run.training.model()
    last = split_of(run.recipe.dataset, "test")[-1000:]
    tau = threshold(outcome(probabilities(model, last.floats()), last.y), 0.99)
    images, pool = counted(run.recipe.dataset)[: options.images], split_of("mnist", "train")[:2000]
    x, y = images.floats(), images.y
    fast = attack_copy(model, x)
    plt.rcParams.update(RC)
    figure, axes = plt.subplots(figsize=(5, 3.2))
    shown = lines(x.shape[1:], options.threat).items()
    for colour, (name, attacks) in zip(COLOURS, shown, strict=False):
        open_, passes = torch.ones(len(x), dtype=torch.bool), 0.0
        points = [(50.0, 0.0)]
        for number, attack in enumerate(attacks):
            rows = open_.nonzero()[:, 0]
            if len(rows) == 0:
                break
            about = (options.threat, other_class_confidence, pool.floats(), None, pool.y)
            problem = Problem.of(fast, x[rows], y[rows], *about)
            problem = replace(problem, tau=tau, enough=level(other_class_confidence, tau))
            found = attack(problem, Generator().manual_seed(number))
            answers = probabilities(model, problem.images(found))
            confidence, answer = answers.max(1)
            open_[rows[(answer != y[rows]) & (confidence >= tau)]] = False
            passes += (problem.counts.forwards + 2 * problem.counts.backwards) / len(x)
            points.append((passes, 100 * (1 - open_.double().mean().item())))
        print(name, ", ".join(f"{two:.0f} % @{one:.0f}" for one, two in points[1:]), flush=True)
        at, share = zip(*points, strict=True)
        axes.step(at, share, where="post", marker="o", markersize=3, color=colour, label=name)
    axes.set(xscale="log", xlabel="passes per image", ylabel="accepted errors found, in %")
    axes.set(ylim=(-2, 102), title=f"{run.path.name}, {label(options.threat)}, {len(x)} images")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(options.out, bbox_inches="tight")


if __name__ == "__main__":
    main()
