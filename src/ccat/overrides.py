"""Fields of a configuration by dotted name: shown as text, and set from text.

`--method.threat.epsilon 8/255` sets a field of a field of a recipe; every value has the type that
its field declares.
"""

import dataclasses
import difflib
import inspect
import math
import re
import typing
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeVar

from ccat import codec, extensions

T = TypeVar("T")


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Return every field that can be set, by its dotted name, as text."""
    flat: dict[str, str] = {}
    if isinstance(value, codec.Unresolved):
        return _flatten_plain(value.plain, prefix)
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        name = prefix + field.name
        if dataclasses.is_dataclass(item):
            flat |= flatten(item, f"{name}.")
        else:
            flat[name] = _function_name(item) if callable(item) else str(item)
    return flat


class Field(NamedTuple):
    """A field of a configuration: its dotted name, its value as text, and what it means."""

    name: str
    value: str
    meaning: str


def described(value: Any, prefix: str = "") -> list[Field]:
    """Return every field, those of nested configurations after the one that holds them."""
    about, found = meanings(type(value)), list[Field]()
    texts = flatten(value)
    for field in dataclasses.fields(value):
        item, name = getattr(value, field.name), prefix + field.name
        nested = dataclasses.is_dataclass(item)
        text = codec.short_name(item) if nested else texts[field.name]
        found.append(Field(name, text, about.get(field.name, "")))
        if nested:
            found += described(item, f"{name}.")
    return found


def meanings(kind: type) -> dict[str, str]:
    """Return what the fields of a class mean: the `Attributes` of its docstring, by name."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in entries}


def override(value: T, changes: Mapping[str, str]) -> T:
    """Return a copy in which the fields of these dotted names are set to what the texts say.

    Raises:
        ValueError: If there is no such field, or the text does not fit its type.
    """
    # A class of your own comes first: it decides which fields there are to set.
    own = {name: text for name, text in changes.items() if extensions.is_name(text)}
    others = {name: text for name, text in changes.items() if name not in own}
    for part in (own, others):
        for name in part:
            value = _filled(value, name)
            _require_field(value, name)
        value = _override(value, part, "")
    return value


def parse(text: str, kind: Any, name: str) -> Any:
    """Return the value of a type that a text stands for: `8/255` is a number, `none` is None.

    Raises:
        ValueError: Names the field, what it takes, and the text.
    """
    options = [option for option in codec.options_of(kind) if option is not type(None)]
    if len(options) < len(codec.options_of(kind)) and text.lower() == "none":
        return None
    kind = options[0]
    functions = codec.tables_of(kind) if codec.is_function_type(kind) else []
    if functions:
        return _function(text, functions[0], name)
    if codec.tables_of(kind) or dataclasses.is_dataclass(kind):
        if extensions.is_name(text):
            return typed_instance(text)
        fields = [f"{name}.{field}" for field in flatten_type(kind)]
        colon = ": " if fields else ""
        raise ValueError(
            f"{name} is set by its fields{colon}{', '.join(fields)}, or by package.module:Name, "
            f"not by {text!r}"
        )
    if typing.get_origin(kind) is Literal:
        return _choice(text, {option: option for option in typing.get_args(kind)}, name)
    if kind is bool:
        return _choice(text.lower(), {"true": True, "false": False}, name)
    try:
        value = float(Fraction(text)) if kind is float and "/" in text else kind(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        what = "a whole number" if kind is int else "a finite number, such as 0.3 or 8/255"
        raise ValueError(f"{name} must be {what}, not {shortened(text)!r}")
    return value


def shortened(text: str) -> str:
    """Return a text as messages quote it: its first 40 characters."""
    return text if len(text) <= 40 else f"{text[:40]}…"


def typed_instance(name: str) -> Any:
    """Import what was typed as `package.module:Name`: an object, or a class with its defaults.

    Raises:
        ValueError: If it cannot be imported, or the class needs arguments.
    """
    found = extensions.load_typed(name)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except TypeError as wrong:
        raise ValueError(
            f"{name} cannot be made without arguments ({wrong}): give its fields defaults, or "
            f"name an instance, such as {name.partition(':')[0]}:mine with mine = "
            f"{name.partition(':')[2]}(…)"
        ) from wrong


def flatten_type(kind: Any) -> list[str]:
    """The names of the fields of a dataclass; none for a protocol."""
    return (
        [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    )


def _filled(value: T, name: str) -> T:
    """Fill a field that is None, if a dotted name begins with it, with its dataclass's defaults."""
    field, dot, _ = name.partition(".")
    if not dot or getattr(value, field, 0) is not None:
        return value
    hints: Any = typing.get_args(typing.get_type_hints(type(value))[field])
    kinds = [kind for kind in hints if dataclasses.is_dataclass(kind)]
    return dataclasses.replace(value, **{field: kinds[0]()}) if kinds else value  # type: ignore[type-var, operator]


def _require_field(value: Any, name: str) -> None:
    item, names = value, flatten(value)
    for part in name.split("."):
        if not dataclasses.is_dataclass(item) or part not in flatten_type(item):
            near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or list(names)
            raise ValueError(f"there is no field {name!r}; did you mean {' or '.join(near)}?")
        item = getattr(item, part)


def _override(value: T, changes: Mapping[str, str], prefix: str) -> T:
    types_of = typing.get_type_hints(type(value))
    new: dict[str, Any] = {}
    for field in {name.removeprefix(prefix).split(".")[0] for name in changes}:
        name = prefix + field
        item = getattr(value, field)
        if name in changes:
            item = parse(changes[name], types_of[field], name)
        if deeper := {n: text for n, text in changes.items() if n.startswith(f"{name}.")}:
            item = _override(item, deeper, f"{name}.")
        new[field] = item
    return dataclasses.replace(value, **new)  # type: ignore[type-var]


def _function(text: str, table: Mapping[str, Any], name: str) -> Any:
    return extensions.load_typed(text) if extensions.is_name(text) else _choice(text, table, name)


def _function_name(function: Any) -> str:
    name = codec.encode(function)
    return name if isinstance(name, str) else str(name["function"])


def _choice(text: str, options: Mapping[str, Any], name: str) -> Any:
    if text not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, not {text!r}")
    return options[text]


def _flatten_plain(plain: Mapping[str, Any], prefix: str) -> dict[str, str]:
    flat: dict[str, str] = {}
    if plain.keys() == {"function"}:
        return {prefix.removesuffix("."): str(plain["function"])}
    for name, item in plain.items():
        if isinstance(item, dict):
            flat |= _flatten_plain(item, f"{prefix}{name}.")
        elif name != "kind":
            flat[prefix + name] = str(item)
    return flat
