"""The stops of the page's slider: thresholds that a TPR chooses, or a coverage of clean images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ccat.evaluation.operating import OperatingPoints, at_coverages, at_given, at_tprs
from ccat.evaluation.outcome import highest_tpr
from ccat.report.section import Section

_PER_MILLE = (*range(500, 900, 20), *range(900, 985, 10), *range(985, 1000))
_SHARES = tuple(share / 1000 for share in _PER_MILLE)


@dataclass(frozen=True)
class Stops:
    """Where the slider stops: at TPRs that all runs support, or at coverages.

    Attributes:
        given: True if a τ was given, or each run has its own TPR: that is a stop of its own then.
        tprs: The true positive rates.
        coverages: The coverages of clean images.
        start: The TPR that tables of all runs are made at; None if a τ was given.
    """

    given: bool
    tprs: tuple[float, ...]
    coverages: tuple[float, ...]
    start: float | None

    @property
    def modes(self) -> list[dict[str, Any]]:
        """The choices of the switch: a name, what its stops are called, and where it starts."""
        modes = [{"name": "given", "stops": ["given"], "start": 0}] if self.given else []
        tpr = self.start if self.start in self.tprs else self.tprs[-1] if self.tprs else None
        return [
            *modes,
            *([_mode("tpr", self.tprs, tpr)] if tpr is not None else []),
            _mode("coverage", self.coverages, tpr if tpr in self.coverages else 0.99),
        ]

    def points(self, section: Section) -> OperatingPoints:
        """Return the thresholds of a run at all stops, mode by mode."""
        calibration, found = section.outcomes.calibration, section.evaluation
        points = at_coverages(calibration, self.coverages)
        if self.tprs:
            points = at_tprs(calibration, self.tprs) + points
        if not self.given:
            return points
        asked = found.tpr_asked
        own = at_given(found.tau) if asked is None else at_tprs(calibration, [asked])
        return own + points


def stops_of(sections: Sequence[Section]) -> Stops:
    """Return the stops at which all of these runs have a threshold."""
    correct = min(int((~one.outcomes.calibration.wrong).sum()) for one in sections)
    asked = {one.evaluation.tpr_asked for one in sections}
    supported = {share for share in _SHARES if share <= highest_tpr(correct)}
    start = asked.pop() if len(asked) == 1 else None
    tprs = supported if start is None else supported | {start}
    return Stops(start is None, tuple(sorted(tprs)), (*_SHARES, 1.0), start)


def _mode(name: str, shares: Sequence[float], start: float) -> dict[str, Any]:
    stops = [f"{100 * share:g}" for share in shares]
    return {"name": name, "stops": stops, "start": shares.index(start)}
