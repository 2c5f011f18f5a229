"""Fields of a recipe from a TOML file: what `ccat train --config run.toml` reads.

    recipe = "mnist-ccat-small"
    epochs = 3

    [method]
    rho = 6
    threat.epsilon = 0.1

A file is data: it cannot name code outside of ccat.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ccat import extensions

MOST = 1 << 20  # bytes


def read_config(path: Path) -> tuple[str | None, dict[str, str]]:
    """Return the recipe that a file names, if any, and the fields it sets, by dotted name.

    Raises:
        ValueError: If it cannot be read, or names code; the message says where.
    """
    try:
        if path.stat().st_size > MOST:
            raise ValueError(f"{path} is too large for a configuration")
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as missing:
        raise ValueError(f"{path} cannot be read ({missing.strerror})") from missing
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise ValueError(f"{path} is not TOML: {broken}") from broken
    fields = dict(_flat(plain, ""))
    for name, text in fields.items():
        if extensions.is_name(text):
            raise ValueError(
                f"{path}: {name} names code, {text}, and a file is data: type --{name} {text}"
            )
    return fields.pop("recipe", None), fields


def _flat(plain: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool | int | float | str):
            yield f"{prefix}{key}", str(value)
        else:
            kind = type(value).__name__
            raise ValueError(f"{prefix}{key} is a {kind}; a field is a number or a text")
