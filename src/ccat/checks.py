"""Checks of the numbers a configuration is made of.

Each message says which number is wrong, what is allowed, and what was given.
"""

import math


def require_number(
    where: str,
    value: object,
    low: float,
    high: float = math.inf,
    *,
    low_too: bool = False,
    high_too: bool = False,
) -> None:
    """Raise ValueError unless the value is a number between `low` and `high`.

    Args:
        where: What the number is, to begin the message with: "PGD: rate".
        value: What was given.
        low: The lower end, which itself is allowed only if `low_too`.
        high: The upper end, which itself is allowed only if `high_too`.
        low_too: True if `low` is allowed.
        high_too: True if `high` is allowed.
    """
    if not isinstance(value, bool) and isinstance(value, int | float):
        above = value > low or (low_too and value == low)
        below = value < high or (high_too and value == high)
        if above and below:
            return
    least = f"{'at least' if low_too else 'above'} {low:g}"
    most = "finite" if high == math.inf else f"{'at most' if high_too else 'below'} {high:g}"
    raise ValueError(f"{where} must be a number {least} and {most}, not {value!r}")


def require_count(where: str, value: object) -> None:
    """Raise ValueError, which begins with `where`, unless the value is a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{where} must be a whole number of at least 1, not {value!r}")
