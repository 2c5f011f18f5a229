"""Models that come with ccat: run directories without what attacks found, by name.

    ccat.load("zoo:mnist-ccat-union")

Each has a recipe, a log, weights with their SHA-256, and thresholds; docs/RESULTS.md says which to
use for what.
"""

import difflib
from functools import cache
from importlib.resources import files
from pathlib import Path

PREFIX = "zoo:"


class UnknownZooError(ValueError):
    """There is no model of this name in the zoo; the message names the nearest ones."""


@cache
def zoo() -> dict[str, Path]:
    """Return the directories of the models that come with ccat, by name."""
    folder = Path(str(files("ccat.catalog"))) / "zoo"
    found = sorted(one for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []
    return {one.name: one for one in found}


def is_zoo_name(name: object) -> bool:
    """True if a name stands for a model of the zoo: `zoo:mnist-ccat-union`."""
    return isinstance(name, str) and name.startswith(PREFIX)


def zoo_path(name: str) -> Path:
    """Return the directory of a model of the zoo.

    Args:
        name: With or without `zoo:` before it.

    Raises:
        UnknownZooError: If there is none of this name.
    """
    short, there = name.removeprefix(PREFIX), zoo()
    if short not in there:
        near = difflib.get_close_matches(short, there, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnknownZooError(
            f"there is no {PREFIX}{short}: {hint}`ccat zoo` lists the models there are"
        )
    return there[short]
