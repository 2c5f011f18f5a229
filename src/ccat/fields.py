"""Frozen dataclasses as plain data and by dotted name: how recipes and suites are stored, hashed and overridden.

Plain data is what JSON holds. A dataclass becomes {"kind": its class, field: value, …}, an objective becomes its name.
"""

import dataclasses
import difflib
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, TypeVar

from ccat.objectives import OBJECTIVES, Objective

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Plain data that says everything about a configuration."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if callable(value):
        return _objective_name(value)
    return value


def from_plain(plain: Any, kinds: Mapping[str, type]) -> Any:
    """The configuration that `to_plain` was given; only classes of the table `kinds` are made."""
    if isinstance(plain, list):
        return tuple(from_plain(item, kinds) for item in plain)
    if not isinstance(plain, dict):
        return plain
    kind = kinds.get(plain.get("kind", ""))
    if kind is None:
        raise ValueError(f"unknown kind {plain.get('kind')!r}; known are {', '.join(sorted(kinds))}")
    types_of = typing.get_type_hints(kind)
    values = {}
    for name, value in plain.items():
        if name == "kind":
            continue
        if name not in types_of:
            raise ValueError(f"{plain['kind']} has no field {name!r}")
        values[name] = OBJECTIVES[value] if types_of[name] == Objective else from_plain(value, kinds)
    return kind(**values)


def digest(plain: Any) -> str:
    """A SHA-256 of plain data: the same for the same content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Every field that can be overridden, by its dotted name, as text."""
    flat: dict[str, str] = {}
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if dataclasses.is_dataclass(item):
            flat |= flatten(item, f"{prefix}{field.name}.")
        else:
            flat[prefix + field.name] = _objective_name(item) if callable(item) else str(item)
    return flat


def override(value: T, changes: Mapping[str, str]) -> T:
    """A copy with the fields of these dotted names set to what the texts say, each in its own type, all at once."""
    for name in changes:
        names = flatten(_filled(value, name))
        if name not in names and name not in flatten(value):
            near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or list(names)
            raise ValueError(f"there is no field {name!r}; did you mean {' or '.join(near)}?")
        value = _filled(value, name)
    return _override(value, changes, "")


def _filled(value: T, name: str) -> T:
    """With the field that a dotted name begins with, if it is None where a dataclass could be, as that dataclass is by default."""
    field, dot, _ = name.partition(".")
    if not dot or getattr(value, field, 0) is not None:
        return value
    hints: Any = typing.get_args(typing.get_type_hints(type(value))[field])
    kinds = [kind for kind in hints if dataclasses.is_dataclass(kind)]
    return dataclasses.replace(value, **{field: kinds[0]()}) if kinds else value  # type: ignore[type-var, operator]


def _override(value: T, changes: Mapping[str, str], prefix: str) -> T:
    types_of = typing.get_type_hints(type(value))
    new: dict[str, Any] = {}
    for field in {name.removeprefix(prefix).split(".")[0] for name in changes}:
        inner = f"{prefix}{field}."
        if deeper := {name: text for name, text in changes.items() if name.startswith(inner)}:
            new[field] = _override(getattr(value, field), deeper, inner)
        else:
            new[field] = parse(changes[prefix + field], types_of[field], prefix + field)
    return dataclasses.replace(value, **new)  # type: ignore[type-var]


def parse(text: str, kind: Any, name: str) -> Any:
    """The value of a type that a text stands for: `8/255` is a number, `none` is None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        if text.lower() == "none":
            return None
        (kind,) = (option for option in typing.get_args(kind) if option is not types.NoneType)
    if dataclasses.is_dataclass(kind) or getattr(kind, "_is_protocol", False):
        fields = [f"{name}.{field.name}" for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        raise ValueError(f"{name} is set by its fields{': ' * bool(fields)}{', '.join(fields)}, not by {text!r}")
    if kind == Objective:
        return _choice(text, OBJECTIVES, name)
    if typing.get_origin(kind) is Literal:
        return _choice(text, {option: option for option in typing.get_args(kind)}, name)
    if kind is bool:
        return _choice(text.lower(), {"true": True, "false": False}, name)
    try:
        return float(Fraction(text)) if kind is float and "/" in text else kind(text)
    except (ValueError, ZeroDivisionError):
        what = "a whole number" if kind is int else "a number, such as 0.3 or 8/255"
        raise ValueError(f"{name} must be {what}, not {text!r}") from None


def _choice(text: str, options: Mapping[str, Any], name: str) -> Any:
    if text not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, not {text!r}")
    return options[text]


def _objective_name(function: Any) -> str:
    for name, objective in OBJECTIVES.items():
        if objective is function:
            return name
    raise ValueError(f"{function!r} is not in the table of objectives, so it cannot be stored")
