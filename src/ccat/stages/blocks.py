"""A block of images as attacks see it, and what is kept of what they found around it."""

from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from ccat.attempts import BLOCK, Attempt, Block, Worst, merged
from ccat.data import Images
from ccat.recipes import Case, label
from ccat.stages.shared import StageError, counted
from ccat.store import Run

Keep = Literal["worst", "none"]


@lru_cache(maxsize=1)
def model_of(path: Path, weights: str, device: str) -> nn.Module:
    """The model of a run, loaded once; these weights, or none."""
    run = Run.open(path)
    model = run.model().to(device)
    if run.weights != weights:
        raise StageError(f"the weights of {path} changed while it was attacked: start again")
    return model


def examples_of(images: Images, source: str, block: int) -> tuple[Tensor, Tensor]:
    """The images of a block and their labels; noise has none, so its labels say nothing."""
    part = images[block * BLOCK : (block + 1) * BLOCK]
    if source == "test":
        return part.floats(), part.y
    noise = torch.rand(part.x.shape, generator=Generator().manual_seed(block))
    return noise, torch.zeros_like(part.y)


def keep_block(run: Run, attempt: Attempt, block: int, result: Block, delta: Tensor, keep: Keep) -> None:
    """The perturbations first: should the process be killed in between, the block is computed again and nothing is lost."""
    if keep == "worst":
        _, y = examples_of(counted(run.recipe.dataset), attempt.case.source, block)
        rank = _rank(result, y if attempt.case.source == "test" else None, label(attempt.case.threat))
        by = torch.full(rank.shape, int(attempt.key[:15], 16))
        name = name_of(attempt.case)
        mine = Worst(delta, rank, by, frozenset([attempt.key]))
        run.save_worst(name, block, merged(mine, run.worst(name, block, attempt.data)), attempt.data)
    run.save_block(attempt, block, result)


def _rank(result: Block, y: Tensor | None, threat: str) -> Tensor:
    """How bad an example is: 1 + confidence if it is wrong, otherwise the confidence in the likeliest wrong class.

    Where a detector rejects, its score (between 0 and 1, by a sigmoid) is what counts in place of the confidence.
    """
    probabilities = result.probabilities.double()
    wrong = torch.ones(len(probabilities)) if y is None else (probabilities.argmax(1) != y).double()
    if result.scores:
        score = result.scores.get(threat, next(iter(result.scores.values()))).double()
        return (wrong if y is not None else 0) + score.sigmoid()
    if y is None:
        return probabilities.amax(1)
    return probabilities.scatter(1, y[:, None], 0).amax(1) + wrong


def name_of(case: Case) -> str:
    """What the perturbations of a case are stored under, with those of others of the same threat and images."""
    return label(case.threat) if case.source == "test" else f"noise {label(case.threat)}"
