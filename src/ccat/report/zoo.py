"""What was measured of a model that comes with ccat, from its stored evaluation."""

from collections.abc import Mapping
from typing import Any

from ccat.report.formats import markdown, percent


def measured(plain: Mapping[str, Any]) -> str:
    """Return a table of errors, clean and under attack, at each true positive rate.

    Args:
        plain: What `ccat evaluate --format json` printed of the model.
    """
    evaluations = plain["evaluations"]
    head = ["", *(f"{100 * one['tpr_asked']:g} % TPR" for one in evaluations)]
    rows = [
        [name, *(_interval(one["rates"][key]) for one in evaluations)]
        for name, key in (("Err", "error"), ("coverage", "coverage"))
    ]
    for number, attacked in enumerate(evaluations[0]["attacks"]):
        pooled = [one["attacks"][number]["pooled"] for one in evaluations]
        name = f"{_attacked(attacked['condition'])}, {pooled[0]['examples']} images"
        rows.append([name, *(_interval(next(iter(one["rates"].values()))) for one in pooled)])
    for number, proved in enumerate(evaluations[0]["certificates"]):
        bounds = [one["certificates"][number] for one in evaluations]
        name = f"{_attacked(proved['condition'])} at most, {proved['examples']} images"
        rows.append([name, *(_interval(one["upper"]) for one in bounds)])
    about = "In %, with 95 % intervals. “At most” is proved, the rest is what attacks found."
    return f"{markdown(head, rows)}\n\n{about}"


def _attacked(condition: Mapping[str, Any]) -> str:
    """Return the first rate that is measured under a condition, and the condition."""
    if condition["goal"] == "rejection":
        return f"availability within {condition['threat']}"
    if condition["source"] == "noise":
        return f"accepted noise within {condition['threat']}"
    return f"RErr within {condition['threat']}"


def _interval(rate: Mapping[str, float | None]) -> str:
    value, low, high = (rate[part] for part in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return "–"
    return f"{percent(value)} ({percent(low)}–{percent(high)})"
