"""Certify a run: the worst that is possible within a box, proved by interval bounds and stored."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ccat.attacking import BLOCK, block_of, blocks_in
from ccat.bounds import Bounds, certify, require_box
from ccat.data import counted, data_digest
from ccat.engine import Engine
from ccat.errors import PipelineError
from ccat.evaluation.outcome import Outcome, joined
from ccat.pipeline.answers import clean_probabilities, model_of
from ccat.pipeline.workers import Common, common_of, run_of
from ccat.progress import Progress
from ccat.rejection import Confidence
from ccat.runs import Run
from ccat.threats import Condition


class _Unit(NamedTuple):
    """One block of images under one condition, of which the first `rows` are bounded."""

    condition: Condition
    block: int
    rows: int
    bounds: Bounds


def certify_run(
    run: Run,
    conditions: Sequence[Condition],
    examples: int | None,
    engine: Engine,
    device: str,
    progress: Progress,
    bounds: Bounds = "interval",
) -> dict[Condition, Outcome]:
    """Bound what is possible for the first test images, and store it.

    A stored certificate of as many images is kept, unless tighter bounds are asked for.

    Args:
        run: A trained run that rejects by confidence.
        conditions: Boxes around test images, or around noise.
        examples: How many of the first test images; None takes all that attacks may be made on.
        engine: Where to compute, a block of images at a time.
        device: The device of the model.
        progress: Called after each block.
        bounds: Which bounds; linear ones take longer.

    Raises:
        PipelineError: If the run rejects by a detector, or there are not so many images.
        ValueError: If a threat is no box, or a layer of the model has no known bounds.
    """
    if not isinstance(run.rejection, Confidence):
        raise PipelineError(
            f"{run.path} rejects by a detector, and a certificate bounds the confidence: certify "
            f"the run that the detector was made for"
        )
    most = len(counted(run.recipe.dataset))
    size = most if examples is None else examples
    if not 1 <= size <= most:
        raise PipelineError(f"--examples must be 1 to {most}, not {size}")
    for condition in conditions:
        require_box(condition.known_threat)
        if condition.rejects:
            raise PipelineError(
                f"{condition.title} has no certificate: bounds prove that errors are impossible, "
                f"not that rejection is"
            )
    data = data_digest(run.recipe.dataset)
    stored = run.certificates.read(data)
    kept = {one: stored[one] for one in conditions if _kept(run, one, stored, size, bounds)}
    todo = [one for one in conditions if one not in kept]
    units = deque(
        _Unit(one, block, min(BLOCK, size - block * BLOCK), bounds)
        for one in todo
        for block in range(blocks_in(size))
    )
    total, found = len(units), dict[tuple[Condition, int], Outcome]()
    if not units:
        return kept
    with run.writing():
        engine.ready()
        clean_probabilities(run, "cpu" if engine.away else device)
        common = common_of(run, size, engine, device)
        for unit, possible in engine(_compute, common, units):
            found[unit.condition, unit.block] = possible
            progress(len(found), total, f"{unit.condition.title}, {len(found)} of {total} blocks")
        certificates = {one: _all_blocks(found, one, size) for one in todo}
        run.certificates.save(certificates, data, bounds)
    return kept | certificates


def _kept(
    run: Run, condition: Condition, stored: Mapping[Condition, Outcome], size: int, bounds: Bounds
) -> bool:
    """Return True if what is stored is of as many images and not looser than what is asked for."""
    if condition not in stored or len(stored[condition]) < size:
        return False
    return bounds == "interval" or run.certificates.bounds_of(condition) == "linear"


def _all_blocks(
    found: Mapping[tuple[Condition, int], Outcome], condition: Condition, size: int
) -> Outcome:
    return joined([found[condition, block] for block in range(blocks_in(size))])


def _compute(common: Common, unit: _Unit) -> Outcome:
    """Bound one block of images in a worker process."""
    run, images = run_of(common)
    model = model_of(run.path, run.weights, common.device)
    x, y = block_of(images.x, images.y, unit.condition.source, unit.block)
    x, y = x[: unit.rows], y[: unit.rows]
    labels = None if unit.condition.on_noise else y.to(common.device)
    threat = unit.condition.known_threat
    return certify(model, x.to(common.device), labels, threat, common.batch, unit.bounds)
