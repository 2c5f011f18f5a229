"""How runs look in every figure: one colour per training method, in a palette that colour-blind readers can tell apart (Okabe & Ito)."""

from collections.abc import Sequence
from typing import NamedTuple

from ccat.results import Measured

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9")
DASHES = ("-", "--", ":", "-.")
_FIRST = {"Normal": 1, "Adversarial": 0, "ConfidenceCalibrated": 2}


class Look(NamedTuple):
    """Numbers of a colour and of a dash pattern."""

    colour: int
    dash: int


def looks(runs: Sequence[Measured]) -> list[Look]:
    """The colour says the method, the dashes tell runs of one method apart."""
    colours = dict(_FIRST)
    dashes: dict[str, int] = {}
    found = []
    for run in runs:
        colours.setdefault(run.method, len(colours) % len(COLOURS))
        dashes[run.method] = dashes.get(run.method, -1) + 1
        found.append(Look(colours[run.method], dashes[run.method] % len(DASHES)))
    return found
