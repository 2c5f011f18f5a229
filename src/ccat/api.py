"""Any model in three lines: attacked and judged in memory, in this process.

    result = ccat.evaluate(model, images, labels, held_out=(x_val, y_val), threats=[ccat.Linf(8 / 255), ccat.L2(0.5)], suite="standard")
    print(result.table())

What takes hours belongs into a run directory, where it survives a kill: `ccat attack --model package.module:factory --weights FILE`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from torch import Generator, Tensor, nn

from ccat.attacks.inputs import require_batch, require_logits, require_model
from ccat.attacks.problem import frozen
from ccat.attempts import BLOCK, Attempt, Block
from ccat.checks import require_count
from ccat.evaluation import evaluate as evaluate_measured
from ccat.metrics import threshold
from ccat.objectives import other_class_confidence
from ccat.progress import Reporter
from ccat.recipes import Case, Given, label
from ccat.report import as_markdown, tables
from ccat.results import Answers, Attacked, Evaluation, Measured
from ccat.stages.forecast import fitting
from ccat.stages.measure import answers, attacked, groups
from ccat.stages.shared import HELD_OUT, Progress, probabilities_of
from ccat.stages.solving import Function, solve, take_over
from ccat.suites import select
from ccat.threats import Threat

Labelled = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class External:
    """An attack of someone else: a function from images and labels to adversarial images, within a threat. We check and score."""

    name: str
    threat: Threat
    function: Function


@dataclass(frozen=True, eq=False)
class Result:
    """What was measured. `adversarial` has, for each threat, the worst that was found of every attacked image."""

    measured: Measured
    evaluation: Evaluation
    adversarial: Mapping[str, Tensor]

    def at(self, tpr: float = 0.99, tau: float | None = None) -> "Result":
        """The same at another threshold; nothing is attacked again."""
        return Result(self.measured, evaluate_measured(self.measured, tpr, tau), self.adversarial)

    def table(self, name: str = "main") -> str:
        """As Markdown: main (Err, accepted, RErr of every threat, with 95 % intervals), thresholds (with FPR), attacks, strongest, …"""
        found = {table.name: table for table in tables([[self.evaluation]])}
        if name not in found:
            raise ValueError(f"there is no table {name!r}; there are {', '.join(found)}")
        return "\n".join([as_markdown(found[name]), *self.measured.notes])

    def __str__(self) -> str:
        return self.table()


def evaluate(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    held_out: Labelled | None = None,
    threats: Sequence[Threat] = (),
    suite: str | None = "standard",
    attacks: Sequence[External] = (),
    examples: int | None = None,
    seen: Sequence[Threat] = (),
    tpr: float = 0.99,
    name: str = "model",
    progress: Progress | None = None,
    batch: int | None = None,
) -> Result:
    """Attacks a model and says what gets through.

    model: images (N, C, H, W) in [0,1] to logits (N, K), in any mode, on any device; wrap normalisation in with `ccat.Normalised`.
    images, labels: counted; the first `examples` of them, by default all, are attacked. held_out: others that choose τ so that a share
    `tpr` of the correct ones is accepted; without them the last images, up to 1000, but at most half, are split off, and the table says so.
    threats: what the attacker may do, by default the suite's own for such images. suite: which attacks (None: only `attacks`).
    attacks: those of others. seen: the threats it was trained with, which tables mark. batch: how many images go through the model at once,
    by default what memory holds, at most 100.
    """
    (x, y), (x_val, y_val), notes = _split(images, labels, held_out)
    device = next((weight.device for weight in model.parameters()), torch.device("cpu")) if isinstance(model, nn.Module) else "cpu"
    require_model(model, x[:1].to(device))
    _require_answers(model, x, y, device)
    count = len(x) if examples is None else examples
    if not 1 <= count <= len(x):
        raise ValueError(f"examples must be 1 to {len(x)}, the number of images that are counted, not {count}")
    if batch is not None:
        require_count("batch", batch)
    units = _units(suite, x, threats, attacks)
    if not units:
        raise ValueError("there is nothing to attack with: name a suite, or attacks")
    with frozen(model):  # each module and weight is as before afterwards, whatever attacks of others do
        clean, chosen = (answers(probabilities_of(model, part).numpy(), y_of.numpy()) for part, y_of in ((x, y), (x_val, y_val)))
        threshold(chosen.outcome, tpr)  # too few held-out images are refused before anything is attacked
        report = progress or (Reporter(name) if sys.stderr.isatty() else lambda *_: None)
        batch = batch or fitting(model, x[:1], str(device), 1)
        found = _attack(model, x[:count], y[:count], x_val, units, device, report, batch)
    measured = Measured(
        run=name,
        recipe={},
        about={},
        method=type(model).__name__,
        dataset=f"{len(x)} images",
        weights="",
        classes=(),
        labels=y.numpy(),
        clean=clean,
        held_out=chosen.outcome,
        attempts=tuple(attempt for _, attempt, _ in found),
        groups=groups([case for case, _, _ in found], tuple(seen)),
        notes=notes,
    )
    return Result(
        measured, evaluate_measured(measured, tpr), MappingProxyType(_worst(measured, x[:count], [d for _, _, d in found], clean))
    )


Unit = tuple[Case, int, Callable[[nn.Module, Tensor, Tensor, int, Tensor, int], tuple[Block, Tensor]]]


def _units(suite: str | None, x: Tensor, threats: Sequence[Threat], attacks: Sequence[External]) -> list[Unit]:
    """Each restart of each case, as a function of model, images, labels, block, pool and batch."""
    units: list[Unit] = []
    for case in () if suite is None else select(suite, tuple(x.shape[1:]), threats=threats):
        for restart in range(case.restarts):
            attempt = Attempt.of(case, restart, "", "")

            def ours(
                model: nn.Module, x: Tensor, y: Tensor, block: int, pool: Tensor, batch: int, attempt: Attempt = attempt
            ) -> tuple[Block, Tensor]:
                return solve(model, x, y, attempt.case, Generator().manual_seed(attempt.seed_of(block)), pool, batch=batch)

            units.append((case, restart, ours))
    for number, one in enumerate(attacks):

        def theirs(
            model: nn.Module, x: Tensor, y: Tensor, block: int, pool: Tensor, batch: int, one: External = one
        ) -> tuple[Block, Tensor]:
            return take_over(model, x, y, one.threat, one.function, one.name)

        units.append((Case(one.name, one.name, one.threat, Given(str(number)), other_class_confidence), 0, theirs))
    return units


def _attack(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    pool: Tensor,
    units: Sequence[Unit],
    device: torch.device | str,
    progress: Progress,
    batch: int,
) -> list[tuple[Case, Attacked, Tensor]]:
    found = []
    starts = range(0, len(x), BLOCK)
    for number, (case, restart, function) in enumerate(units):
        blocks, deltas = [], []
        for block, start in enumerate(starts):
            part, of = x[start : start + BLOCK].to(device), y[start : start + BLOCK].to(device)
            if case.source == "noise":
                part, of = torch.rand(part.shape, generator=Generator().manual_seed(block)).to(part), torch.zeros_like(of)
            result, delta = function(model, part, of, block, pool.to(device), batch)
            blocks.append(result)
            deltas.append(delta)
            progress(number * len(starts) + block + 1, len(units) * len(starts), f"{label(case.threat)} {case.name}")
        attempt = Attempt.of(case, restart, "", "")
        found.append((case, attacked(attempt, blocks, y.numpy()), torch.cat(deltas)))
    return found


def _worst(measured: Measured, x: Tensor, deltas: Sequence[Tensor], clean: Answers) -> dict[str, Tensor]:
    """For every threat on images: of each example the attempt that is wrong with the highest score, or the image itself."""
    found = {}
    for group in measured.groups:
        if group.source == "test":
            best, images = np.where(clean.outcome.wrong, clean.outcome.score, -np.inf)[: len(x)], x.clone()
            for member in group.members:
                outcome = measured.attempts[member].answers.outcome
                rank = np.where(outcome.wrong, outcome.score, -np.inf)
                better = torch.from_numpy(rank > best)
                images[better] = (x[better] + deltas[member][better].to(x)).clamp(0, 1)
                best = np.maximum(rank, best)
            found[group.threat] = images
    return found


def _split(images: Tensor, labels: Tensor, held_out: Labelled | None) -> tuple[Labelled, Labelled, tuple[str, ...]]:
    """What is counted, what chooses τ, and a note where we had to part them ourselves. On the CPU, in [0,1]."""
    x, y = _checked(images, labels)
    if held_out is not None:
        x_val, y_val = _checked(*held_out)
        if x_val.shape[1:] != x.shape[1:]:
            raise ValueError(f"held_out has images of {tuple(x_val.shape[1:])}, the others are {tuple(x.shape[1:])}")
        return (x, y), (x_val, y_val), ()
    last = min(HELD_OUT, len(x) // 2)
    if last == 0:
        raise ValueError("one image cannot be counted and choose τ as well: give more, or held_out=(images, labels)")
    note = f"No held_out images were given: the last {last} of {len(x)} chose τ and are not counted."
    return (x[:-last], y[:-last]), (x[-last:], y[-last:]), (note,)


def _checked(images: Tensor, labels: Tensor) -> Labelled:
    if isinstance(images, Tensor):
        images = images.detach().cpu()
        images = images.float() / 255 if images.dtype == torch.uint8 else images
    return images, require_batch(images, labels.cpu() if isinstance(labels, Tensor) else labels)


def _require_answers(model: nn.Module, x: Tensor, y: Tensor, device: torch.device | str) -> None:
    """Logits for the first images, and the same ones again."""
    with torch.no_grad(), frozen(model):
        one, two = (model(x[:8].to(device)) for _ in range(2))
    require_logits(one, y[:8].to(device))
    if int(y.max()) >= one.shape[1]:
        raise ValueError(f"labels must be below {one.shape[1]}, the model's number of classes, but reach {int(y.max())}")
    if not one.isfinite().all():
        raise ValueError("the model's logits are not finite on the first images")
    if not one.equal(two) and (one - two).abs().max() > 1e-3 * one.abs().max():
        raise ValueError("the model answers the same images differently each time: attacks on it would be too weak to be believed")
