"""Classes and functions of your own, by name: `package.module:Name`.

A name typed on the command line is trusted for that call and may lie in the working directory. A
name read from a stored run is somebody else's word: it is imported only after `trust_everything`,
which `--trust` calls. Nothing else in ccat imports code by name.
"""

import importlib
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ccat.errors import UntrustedError

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_trusted: set[str] = set()
_EVERYTHING = "*"
_strange: set[Path] = set()  # directories of runs, below which nothing is imported


def is_name(text: str) -> bool:
    """True if the text has the form `package.module:Name`."""
    return _NAME.fullmatch(text) is not None


def name_of(thing: Any) -> str:
    """The name `package.module:Name` of a class or function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def trust(*names: str) -> None:
    """Trust these names, for as long as this process lives."""
    _trusted.update(names)


def trust_everything() -> None:
    """Trust every name a run holds, also where it lies in the working directory (`--trust`)."""
    _trusted.add(_EVERYTHING)
    _look_here()


def distrust_below(path: Path) -> None:
    """Import nothing that lies below a directory, which is a run, unless it is trusted by name."""
    _strange.add(path.resolve())


def trusted() -> frozenset[str]:
    """The names trusted so far, to be handed to worker processes."""
    return frozenset(_trusted)


def is_trusted(name: str) -> bool:
    """True if the name may be imported."""
    return name in _trusted or _EVERYTHING in _trusted


def load_typed(name: str) -> Any:
    """Import what was typed on the command line; it may lie in the working directory.

    Raises:
        ValueError: If the name is malformed, or cannot be imported.
    """
    _require_name(name)
    _look_here()
    trust(name)
    return resolve(name)


def resolve(name: str) -> Any:
    """Import the class, function or object that a trusted name stands for.

    Raises:
        UntrustedError: If nobody has trusted the name; says which file would be imported.
        ValueError: If the name is malformed, or cannot be imported.
    """
    _require_name(name)
    if not is_trusted(name):
        raise UntrustedError(
            f"{name} is code that is not part of ccat ({_where(name)}). Pass --trust to import and "
            f"run it, if you trust where this run comes from"
        )
    inside = [place for place in _strange if place in Path(_where(name)).resolve().parents]
    if inside and name not in _trusted:
        raise UntrustedError(
            f"{name} would be imported from {_where(name)}, which lies inside of the run "
            f"{inside[0]}: a run is data, and code in it is never imported, not even with --trust. "
            f"Move the code elsewhere if you want to run it"
        )
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as failed:  # importing runs code, which may raise anything
        reason = f"{type(failed).__name__}: {failed}"
        raise ValueError(f"{name} cannot be imported ({reason})") from failed
    return found


def _require_name(text: str) -> None:
    if not is_name(text):
        raise ValueError(f"{text!r} is not of the form package.module:Name")


def _look_here() -> None:
    """Let imports find modules in the working directory, after all other places."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _where(name: str) -> str:
    """The file an import would read, found without importing anything."""
    module, path, origin = "", [*sys.path, str(Path.cwd())], ""
    for part in name.partition(":")[0].split("."):
        module = f"{module}.{part}".lstrip(".")
        spec = PathFinder.find_spec(part, path)
        if spec is None:
            own = module in sys.builtin_module_names
            return "a part of Python" if own else f"there is no module {module} here"
        if spec.origin is None:  # a folder without __init__.py
            path = [str(one) for place in path if (one := Path(place) / part).is_dir()]
            origin = path[0]
        else:
            path, origin = [str(Path(spec.origin).parent)], spec.origin
    return origin
