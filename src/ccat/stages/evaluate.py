"""Evaluation: from the probabilities in a run directory to errors with and without rejection. Nothing is attacked here."""

import math

import numpy as np
import torch

from ccat import metrics
from ccat.metrics import Outcome
from ccat.recipes import THREATS, Case, contains, label, seen
from ccat.results import Evaluation, UnderAttack
from ccat.stages.shared import HELD_OUT, StageError, clean_probabilities, images_of
from ccat.store import BLOCK, Attempt, Block, Run
from ccat.threats import Threat


def evaluate(run: Run, tpr: float = 0.99, tau: float | None = None, device: str = "cpu") -> Evaluation:
    """Everything stored against this run. τ comes from the last 1000 test images at the TPR asked for, unless it is given."""
    labels = images_of(run.recipe.dataset, "test").y.numpy()
    everything = metrics.outcome(clean_probabilities(run, device).numpy(), labels)
    tau = metrics.threshold(everything[-HELD_OUT:], tpr) if tau is None else tau
    counted = everything[:-HELD_OUT]
    attempts = _current(run)
    examples = min((sum(len(block.value) for block in blocks) for blocks in attempts.values()), default=0)
    cases = {(attempt.case.source, label(attempt.case.threat)): attempt.case for attempt in attempts}
    return Evaluation(
        run=run.path.name,
        dataset=run.recipe.dataset,
        tau=tau,
        tpr=metrics.tpr(counted, tau),
        coverage=metrics.coverage(counted, tau),
        error=metrics.error(counted, tau),
        error_without_rejection=metrics.error(counted, -math.inf),
        examples=examples,
        attacks=tuple(
            _under_attack(run, attempts, case.threat, case.source, everything[:examples], labels[:examples], tau)
            for case in sorted(cases.values(), key=_order)
        ),
        notes=_notes(run, attempts, examples),
    )


def _under_attack(
    run: Run,
    attempts: dict[Attempt, list[Block]],
    threat: Threat,
    source: str,
    clean: Outcome,
    labels: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    tau: float,
) -> UnderAttack:
    """Pooled over all attempts whose threat lies within this one: a larger ε includes what was found at a smaller one."""
    pooled = [
        torch.cat([block.probabilities for block in blocks])[: len(labels)].numpy()
        for attempt, blocks in attempts.items()
        if attempt.case.source == source and contains(threat, attempt.case.threat)
    ]
    known = seen(run.recipe.method)
    about = (label(threat), source, source == "test" and known is not None and contains(known, threat), len(pooled))
    if source == "noise":
        accepted = Outcome(np.ones(len(labels), dtype=bool), np.max([f.max(1) for f in pooled], axis=0))
        return UnderAttack(*about, metrics.coverage(accepted, tau), metrics.coverage(accepted, -math.inf))
    adversarial = metrics.worst(clean, [metrics.outcome(f, labels) for f in pooled])
    return UnderAttack(*about, *(metrics.robust_error(clean, adversarial, t) for t in (tau, -math.inf)))


def _current(run: Run) -> dict[Attempt, list[Block]]:
    """The stored attempts, which must be on these weights."""
    attempts = run.attempts()
    if stale := [attempt for attempt in attempts if attempt.weights != run.weights]:
        raise StageError(
            f"{run.path}: the weights changed after {len(stale)} stored attempts; `ccat prune {run.path}` deletes them, then attack again"
        )
    return attempts


def _notes(run: Run, attempts: dict[Attempt, list[Block]], examples: int) -> tuple[str, ...]:
    if not attempts:
        return (f"{run.path.name} was not attacked yet: `ccat attack {run.path} --suite quick`",)
    longest = max(len(blocks) for blocks in attempts.values()) * BLOCK
    if examples < longest:
        shortest = min(attempts, key=lambda attempt: len(attempts[attempt])).case
        return (
            f"{run.path.name}: only the first {examples} of {longest} images were attacked by all attempts "
            f"({label(shortest.threat)} {shortest.name} is not finished); `ccat attack {run.path}` goes on",
        )
    return ()


def _order(case: Case) -> tuple[bool, int, float]:
    return case.source == "noise", list(THREATS).index(type(case.threat).__name__), case.threat.epsilon
