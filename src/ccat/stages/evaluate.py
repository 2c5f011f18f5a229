"""Evaluation: from the probabilities in a run directory to errors with and without rejection. Nothing is attacked here."""

import math
import shlex

import numpy as np
import torch
from numpy.typing import NDArray

from ccat import metrics
from ccat.attempts import BLOCK, Attempt, Block
from ccat.metrics import Outcome
from ccat.recipes import THREATS, Case, contains, label, seen
from ccat.results import Evaluation, UnderAttack
from ccat.stages.shared import HELD_OUT, StageError, clean_probabilities, images_of
from ccat.store import Run


def evaluate(run: Run, tpr: float = 0.99, tau: float | None = None, device: str = "cpu") -> Evaluation:
    """Everything stored against this run. τ comes from the last 1000 test images at the TPR asked for, unless it is given."""
    labels = images_of(run.recipe.dataset, "test").y.numpy()
    everything = metrics.outcome(clean_probabilities(run, device).numpy(), labels)
    tau = metrics.threshold(everything[-HELD_OUT:], tpr) if tau is None else tau
    counted = everything[:-HELD_OUT]
    attempts = _current(run)
    cases = {(attempt.case.source, label(attempt.case.threat)): attempt.case for attempt in attempts}
    return Evaluation(
        run=run.path.name,
        dataset=run.recipe.dataset,
        tau=tau,
        tpr=metrics.tpr(counted, tau),
        coverage=metrics.coverage(counted, tau),
        error=metrics.error(counted, tau),
        error_without_rejection=metrics.error(counted, -math.inf),
        attacks=tuple(_under_attack(run, attempts, case, everything, labels, tau) for case in sorted(cases.values(), key=_order)),
        notes=_notes(run, attempts),
    )


def _under_attack(
    run: Run, attempts: dict[Attempt, list[Block]], case: Case, everything: Outcome, labels: NDArray[np.int64], tau: float
) -> UnderAttack:
    """Pooled over all attempts whose threat lies within the case's: a larger ε includes what was found at a smaller one."""
    pooled = [
        torch.cat([block.probabilities for block in blocks]).numpy()
        for attempt, blocks in attempts.items()
        if attempt.case.source == case.source and contains(case.threat, attempt.case.threat)
    ]
    examples = min(len(probabilities) for probabilities in pooled)  # those that all of them attacked
    if case.source == "noise":
        score = np.max([probabilities[:examples].max(1) for probabilities in pooled], axis=0)
        errors = [metrics.coverage(Outcome(np.ones(examples, dtype=bool), score), t) for t in (tau, -math.inf)]
    else:
        clean = everything[:examples]
        adversarial = metrics.worst(clean, [metrics.outcome(f[:examples], labels[:examples]) for f in pooled])
        errors = [metrics.robust_error(clean, adversarial, t) for t in (tau, -math.inf)]
    known = seen(run.recipe.method)
    return UnderAttack(
        threat=label(case.threat),
        source=case.source,
        seen=case.source == "test" and known is not None and contains(known, case.threat),
        attempts=len(pooled),
        examples=examples,
        error=errors[0],
        error_without_rejection=errors[1],
    )


def _current(run: Run) -> dict[Attempt, list[Block]]:
    """The stored attempts, which must be on these weights."""
    attempts = run.attempts()
    if stale := [attempt for attempt in attempts if attempt.weights != run.weights]:
        raise StageError(
            f"{run.path}: the weights changed after {len(stale)} stored attempts; "
            f"`ccat prune {shlex.quote(str(run.path))}` deletes them, then attack again"
        )
    return attempts


def _notes(run: Run, attempts: dict[Attempt, list[Block]]) -> tuple[str, ...]:
    """What is missing, and the command that makes it."""
    command = f"ccat attack {shlex.quote(str(run.path))}"
    if not attempts:
        return (f"{run.path.name} was not attacked yet: `{command} --suite quick`",)
    stored = {attempt.key: len(blocks) * BLOCK for attempt, blocks in attempts.items()}
    notes = []
    for asked in run.plan():
        short = [key for key in asked["keys"] if stored.get(key, 0) < asked["examples"]]
        if short and asked["weights"] == run.weights:
            again = f"{command} --suite {asked['suite']} --examples {asked['examples']}"
            notes.append(f"{run.path.name}: {len(short)} of {len(asked['keys'])} attempts are not finished, `{again}` goes on")
    return tuple(notes)


def _order(case: Case) -> tuple[bool, int, float]:
    return case.source == "noise", list(THREATS).index(type(case.threat).__name__), case.threat.epsilon
