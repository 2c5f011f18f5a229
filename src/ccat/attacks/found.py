"""What attacks find, and how results are combined: example by example, the better one.

Shapes: delta (N, C, H, W); value, condition (N,).
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Found(NamedTuple):
    """Perturbations and what they score. Only a Problem makes one; `best` combines two."""

    delta: Tensor
    value: Tensor


def best(old: Found, new: Found) -> Found:
    """Return, for each example, the result that scores strictly higher, `old` where they are equal.

    Keeping the best iterate, start, restart or candidate of a random search are all this.
    """
    return choose(new.value > old.value, new, old)


def improve(found: Found, trial: Found, rows: Tensor | None = None) -> Found:
    """Do as `best`, but overwrite `found`: for searches that keep nothing but the best so far.

    Args:
        found: The best so far, of N examples.
        trial: What may be better.
        rows: The examples (M,) that the trial is about, each named once; None for all in order.
    """
    if found.delta.device.type != "cpu":
        return best(found, trial) if rows is None else improve_rows(found, rows, trial)
    value = found.value if rows is None else found.value.index_select(0, rows)
    better = (trial.value > value).nonzero()[:, 0]
    if len(better):
        rows = better if rows is None else rows.index_select(0, better)
        found.delta.index_copy_(0, rows, trial.delta.index_select(0, better))
        found.value.index_copy_(0, rows, trial.value.index_select(0, better))
    return found


def improve_rows(found: Found, rows: Tensor, trial: Found) -> Found:
    """Return `found` with the examples `rows` (M,) replaced where the trial (M,) is better."""
    better = (trial.value > found.value.index_select(0, rows)).nonzero()[:, 0]
    rows = rows.index_select(0, better)
    return Found(
        found.delta.index_copy(0, rows, trial.delta.index_select(0, better)),
        found.value.index_copy(0, rows, trial.value.index_select(0, better)),
    )


def choose(condition: Tensor, yes: Found, no: Found) -> Found:
    """Return `yes` for the examples for which the condition (N,) holds, `no` for the others."""
    return Found(pick(condition, yes.delta, no.delta), torch.where(condition, yes.value, no.value))


def pick(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return the rows of `yes` where the condition (N,) holds, those of `no` elsewhere."""
    if condition.device.type != "cpu":
        return torch.where(condition.view(-1, *[1] * (yes.ndim - 1)), yes, no)
    # Choosing rows is several times as fast on a CPU; elsewhere it would wait for the device.
    rows = condition.nonzero()[:, 0]
    if len(rows) in (0, len(no)):
        return yes if len(rows) else no
    return no.index_copy(0, rows, yes.index_select(0, rows))
