"""Errors from above for a model in memory, within every threat of an evaluation that is a box."""

from collections.abc import Sequence
from typing import get_args

from torch import Tensor, nn

from ccat.api.inputs import device_of
from ccat.attacking import Case, block_of, blocks_in
from ccat.bounds import Bounds, certify, is_box
from ccat.evaluation.outcome import Outcome, joined
from ccat.rejection import Confidence, Rejection
from ccat.threats import Condition


def require_bounds(bounds: Bounds | None, rejection: Rejection) -> None:
    """Raise a ValueError if there are no such bounds, or something else than confidence rejects."""
    if bounds is None:
        return
    if bounds not in get_args(Bounds):
        raise ValueError(f"certify must be one of {', '.join(get_args(Bounds))}, not {bounds!r}")
    if not isinstance(rejection, Confidence):
        raise ValueError("a certificate bounds the confidence: leave rejection or certify out")


def certified_boxes(
    model: nn.Module, cases: Sequence[Case], x: Tensor, y: Tensor, bounds: Bounds | None
) -> dict[Condition, Outcome]:
    """Return the worst that is possible under each condition of some cases that is a box."""
    if bounds is None:
        return {}
    device, found = device_of(model), {}
    for condition in dict.fromkeys(case.condition for case in cases):
        if condition.rejects or not is_box(condition.threat):
            continue
        blocks = []
        for block in range(blocks_in(len(x))):
            images, labels = block_of(x, y, condition.source, block)
            of = None if condition.on_noise else labels.to(device)
            threat = condition.known_threat
            blocks.append(certify(model, images.to(device), of, threat, bounds=bounds))
        found[condition] = joined(blocks)
    return found
