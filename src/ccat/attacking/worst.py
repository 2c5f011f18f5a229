"""The worst case per example: of all perturbations found, the one that is accepted most.

Where the attacker wants rejection it is the one that is accepted least.

Shapes: delta (N, C, H, W), score, by (N,), N up to a hundred.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ccat.attacking.block import Block

NOBODY = -1  # no attempt is wrong


@dataclass(frozen=True)
class Worst:
    """Per example the worst perturbation among some attempts.

    `score` (N,) is −∞ and `by` (N,) is NOBODY where none of them is wrong; `delta` is then zero.
    Where the attacker wants rejection, `score` is minus the judge's, and `by` is never NOBODY.
    `by` is the number of an attempt, the beginning of its key; `of` are the keys of all of them.
    """

    delta: Tensor
    score: Tensor
    by: Tensor
    of: frozenset[str]


def worst_of_block(
    key: str,
    block: Block,
    judge: str,
    labels: Tensor | None,
    delta: Tensor,
    *,
    rejects: bool = False,
) -> Worst:
    """Return one attempt's perturbations of a block where they succeed.

    Args:
        key: The attempt's key.
        block: What it left.
        judge: Whose scores count.
        labels: The right answers; None for noise, to which every answer is wrong.
        delta: Its perturbations.
        rejects: True if the attacker wants rejection, in which every perturbation succeeds more or
            less.
    """
    if rejects:
        by = torch.full(block.value.shape, number_of(key))
        return Worst(delta, -block.scores[judge].double(), by, frozenset([key]))
    answers = block.probabilities.argmax(1)
    wrong = torch.ones_like(answers, dtype=torch.bool) if labels is None else answers != labels
    score = torch.where(wrong, block.scores[judge].double(), -torch.inf)
    by = torch.where(wrong, number_of(key), NOBODY)
    delta = torch.where(wrong[:, None, None, None], delta, 0)
    return Worst(delta, score, by, frozenset([key]))


def merge(one: Worst, other: Worst | None) -> Worst:
    """Return, per example, the worse of two; the order does not matter.

    Examples that only one of them has are taken from it.
    """
    if other is None:
        return one
    longest = max(len(one.by), len(other.by))
    one, other = _filled(one, longest), _filled(other, longest)
    earlier = (one.score == other.score) & (one.by < other.by)
    first = (one.score > other.score) | earlier
    return Worst(
        torch.where(first[:, None, None, None], one.delta, other.delta),
        torch.where(first, one.score, other.score),
        torch.where(first, one.by, other.by),
        one.of | other.of,
    )


def _filled(worst: Worst, count: int) -> Worst:
    """Return the same for more examples, none of which is wrong."""
    more = count - len(worst.by)
    if more == 0:
        return worst
    return Worst(
        torch.cat([worst.delta, worst.delta.new_zeros(more, *worst.delta.shape[1:])]),
        torch.cat([worst.score, worst.score.new_full((more,), -torch.inf)]),
        torch.cat([worst.by, worst.by.new_full((more,), NOBODY)]),
        worst.of,
    )


def number_of(key: str) -> int:
    """The number that stands for an attempt in `Worst.by`; its order is that of the keys."""
    return int(key[:15], 16)
