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
        images = f", {pooled[0]['examples']} images"
        name = f"RErr {_condition(attacked['condition'])}{images}"
        rows.append([name, *(_interval(one["rates"]["robust_error"]) for one in pooled)])
    for number, proved in enumerate(evaluations[0]["certificates"]):
        bounds = [one["certificates"][number] for one in evaluations]
        name = f"RErr {_condition(proved['condition'])} at most, {proved['examples']} images"
        rows.append([name, *(_interval(one["upper"]) for one in bounds)])
    return f"{markdown(head, rows)}\n\nIn %, with 95 % intervals. RErr is what attacks found."


def _condition(plain: Mapping[str, Any]) -> str:
    """Return the name of a condition, such as Linf:0.3 or distal:Linf:0.3."""
    on_noise = plain["source"] == "noise"
    return f"{'distal:' * on_noise}{plain['threat']}"


def _interval(rate: Mapping[str, float]) -> str:
    low, high = (percent(rate[end]) for end in ("low", "high"))
    return f"{percent(rate['value'])} ({low}–{high})"
