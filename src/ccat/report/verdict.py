"""What an evaluation says of a run in one sentence: the worst that was found, and its doubts."""

import math
from collections.abc import Sequence

from ccat.evaluation.rates import COVERAGE, ERROR
from ccat.evaluation.results import Evaluation, UnderAttack
from ccat.report.certificates import VACUOUS
from ccat.report.formats import percent

_MOST = 4  # threats that are listed by name


def verdict(one: Evaluation) -> str:
    """Return one sentence: what is accepted, the worst error under attack, proofs, and doubts."""
    clean = {name: percent(rate.value) for name, rate in one.rates.items()}
    parts = [
        f"{_threshold(one)} it answers {clean[COVERAGE.name]} % of clean images, "
        f"{clean[ERROR.name]} % of these wrongly",
        *_attacked(one),
        *_proved(one),
        *_doubted(one),
    ]
    return "; ".join(parts) + "."


def _threshold(one: Evaluation) -> str:
    if one.tpr_asked is not None:
        return f"At {100 * one.tpr_asked:g} % TPR"
    return "At the τ given" if math.isfinite(one.tau) else "Where nothing is rejected"


def _attacked(one: Evaluation) -> list[str]:
    """Return the worst case among the threats, and the worst of those that training has seen."""
    threats = [a for a in one.attacks if a.condition.on_errors]
    if not threats:
        return [_without_errors(a) for a in one.attacks]
    if all(a.pooled.headline.value == 0 for a in threats):
        most = percent(max(a.pooled.headline.high for a in threats))
        return [f"within {_names(threats)} attacks found no error that it accepts (0.0–{most} %)"]
    worst, known = _worst(threats), _known(threats)
    rank = f", the worst of {len(threats)} threats," if len(worst) == 1 < len(threats) else ""
    found = [f"within {_names(worst)}{rank} at least {_share(worst)} of what it accepts is wrong"]
    if known:
        found.append(f"within {_names(known)}, seen in training, at least {_share(known)}")
    return found


def _without_errors(a: UnderAttack) -> str:
    if a.condition.on_noise:
        return f"within {a.condition.title} it accepts at least {_share([a])} of the noise"
    return f"within {a.condition.title} at most {_share([a])} of correct images stay accepted"


def _worst(attacks: Sequence[UnderAttack]) -> list[UnderAttack]:
    """Return those whose error is the largest: several, where no digit tells them apart."""
    shown = [percent(a.pooled.headline.value) for a in attacks]
    largest = max(shown, key=float, default="")
    return [a for a, value in zip(attacks, shown, strict=True) if value == largest]


def _known(threats: Sequence[UnderAttack]) -> list[UnderAttack]:
    """Return the worst of those that training has seen, unless one of them is the worst of all."""
    seen = [a for a in threats if a.seen]
    return _worst(seen) if seen and not any(a.seen for a in _worst(threats)) else []


def _share(attacks: Sequence[UnderAttack]) -> str:
    rate, doubted = attacks[0].pooled.headline, "‡" * any(a.doubts for a in attacks)
    return f"{percent(rate.value)} %{doubted} ({percent(rate.low)}–{percent(rate.high)})"


def _proved(one: Evaluation) -> list[str]:
    """Return what certificates allow at most, where they prove anything."""
    return [
        f"within {c.condition.title} a proof allows at most {percent(c.upper.value)} %"
        for c in one.certificates
        if c.upper.value < VACUOUS
    ]


def _doubted(one: Evaluation) -> list[str]:
    """Return why the numbers above may be too low, which others may be, and what is not finished.

    A number of 100 % cannot be too low.
    """
    threats = [a for a in one.attacks if a.condition.on_errors]
    said = [a for a in (*_worst(threats), *_known(threats)) if a.pooled.headline.value < 1]
    parts = [
        f"{a.condition.title} is in doubt (‡), because "
        + ", and because ".join(doubt.text.replace(":", ",") for doubt in a.doubts)
        for a in said
        if a.doubts
    ]
    others = [a for a in one.attacks if a.doubts and not any(a is known for known in said)]
    if others:
        parts.append(f"in doubt (‡) {_are(others)} {'also ' if parts else ''}{_names(others)}")
    if unfinished := [a for a in one.attacks if a.unfinished]:
        parts.append(f"not finished (†) are the attacks within {_names(unfinished)}")
    return parts


def _are(attacks: Sequence[UnderAttack]) -> str:
    return "is" if len(attacks) == 1 else "are"


def _names(attacks: Sequence[UnderAttack]) -> str:
    """Return the names of conditions as one reads them: "Linf:0.3, Linf:0.4 and L2:3"."""
    titles = [a.condition.title for a in attacks]
    if len(titles) > _MOST:
        titles = [*titles[: _MOST - 1], f"{len(titles) - _MOST + 1} more"]
    return " and ".join([", ".join(titles[:-1]), titles[-1]] if len(titles) > 1 else titles)
