"""The table of planted errors: how many each attack was asked to find, and found."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ccat.evaluation.planted import PlantedErrors
from ccat.report.formats import markdown

if TYPE_CHECKING:
    from ccat.threats import Condition

_LEGEND = """
An error is planted at a point on the sphere of radius ε: a head on the model's own features is sure
of it there, and right at sampled points further inside. found: of those asked for; what one attack
has found is not asked of those below it, unless all were asked for everything. docs/DOUBTS.md
explains it."""


def planted_table(checks: Mapping["Condition", PlantedErrors]) -> str:
    """Return a Markdown table with one row for each attack, and one for all together."""
    rows = []
    for condition, one in checks.items():
        rows += [
            [condition.title, attack.name, f"{attack.asked}", f"{attack.found}"]
            for attack in one.attacks
        ]
        rows.append([condition.title, "all together", f"{one.planted}", f"{one.found}"])
    failed = [
        f"{condition.title}: around {one.inseparable} of {one.inseparable + one.planted} images no "
        f"error could be planted, because the model's features do not tell points of the sphere "
        f"from points inside."
        for condition, one in checks.items()
        if one.inseparable
    ]
    table = markdown(["threat", "attack", "asked for", "found"], rows)
    return "\n".join([table, _LEGEND, *failed])
