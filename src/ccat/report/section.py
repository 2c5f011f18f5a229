"""One run of a report: what is known of it, what an evaluation made of it, and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ccat.evaluation.results import Evaluation, Picture, RunOutcomes

if TYPE_CHECKING:
    from ccat.threats import Condition


@dataclass(frozen=True, eq=False)
class Section:
    """One run on the page: its outcomes, its evaluation, and pictures by condition."""

    outcomes: RunOutcomes
    evaluation: Evaluation
    pictures: Mapping["Condition", Sequence[Picture]] = field(default_factory=dict)
