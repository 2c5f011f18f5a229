"""Evaluations as a JSON document, described by evaluation.schema.json beside this file."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ccat.intervals import Estimate
from ccat.results import Evaluation

SCHEMA = 1


def document(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Of one run or several, at one threshold or several. Shares lie between 0 and 1; what does not exist is null."""
    return {"schema": SCHEMA, "evaluations": [_plain(one) for one in evaluations]}


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return {"value": _plain(value.value), "low": _plain(value.low), "high": _plain(value.high)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
