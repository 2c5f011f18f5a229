"""Checks of the numbers a configuration is made of. Each message says where, what is allowed, and what was there."""

import math


def require_number(where: str, value: object, low: float, high: float = math.inf, *, low_too: bool = False, high_too: bool = False) -> None:
    """Refuses what is not a number between low and high, the ends themselves only where said so."""
    if not isinstance(value, bool) and isinstance(value, int | float):
        above = value > low or (low_too and value == low)
        below = value < high or (high_too and value == high)
        if above and below:
            return
    least = f"{'at least' if low_too else 'above'} {low:g}"
    most = "finite" if high == math.inf else f"{'at most' if high_too else 'below'} {high:g}"
    raise ValueError(f"{where} must be a number {least} and {most}, not {value!r}")


def require_count(where: str, value: object) -> None:
    """Refuses what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{where} must be a whole number of at least 1, not {value!r}")
