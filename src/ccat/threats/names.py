"""Names of threats, as tables and the command line write them: `Linf:8/255`.

A name is `NAME:ε`, followed by `,field=value` for every other field that is not at its default.
NAME is the class of ccat's threats, and `package.module:Class` for a threat of your own.
"""

import dataclasses
import difflib
import math
import typing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

from ccat import codec, extensions, overrides
from ccat.errors import UntrustedError
from ccat.threats.balls import L1, L2, Linf
from ccat.threats.pixels import L0, Frame
from ccat.threats.protocol import Threat

THREATS: dict[str, type] = codec.register(
    Threat, {"Linf": Linf, "L2": L2, "L1": L1, "L0": L0, "Frame": Frame}
)

_METHODS = ("size", "project", "ascent", "sample")
_LARGEST = 2**53  # larger whole numbers are not exact as floats


@dataclass(frozen=True)
class UnknownThreat:
    """A threat of somebody else's class, known by its name only because its code is not trusted.

    It can be shown, compared and sorted. Anything that needs the class raises UntrustedError.
    """

    text: str

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in ("epsilon", *_METHODS):
                raise UntrustedError(
                    f"{self.text} is a threat that is not part of ccat, and its code was not "
                    f"imported. Pass --trust to import and run it, if you trust where this run "
                    f"comes from"
                )
            raise AttributeError(f"UnknownThreat has no attribute {name!r}")


def label(threat: Threat | UnknownThreat) -> str:
    """Return the exact name of a threat, which `parse_threat` reads back.

    Raises:
        ValueError: If the threat is not a dataclass with a field for its size.
    """
    if isinstance(threat, UnknownThreat):
        return threat.text
    kind = type(threat)
    size, others = _size_field(kind), []
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # checked by _size_field
        value = getattr(threat, field.name)
        if field.name != size and value != _default(field):
            others.append(f",{field.name}={_write(value)}")
    return f"{_name(kind)}:{_write(getattr(threat, size))}{''.join(others)}"


def parse_threat(text: str) -> Threat:
    """Return the threat that a name stands for; numbers may be fractions such as 8/255.

    Raises:
        UntrustedError: If it is a class outside ccat that nobody has trusted.
        ValueError: If there is no such threat, or it has no such field or no such size.
    """
    kind, name, settings = _split(text)
    size, *others = settings.split(",")
    values = {_size_field(kind): size}
    for other in others:
        field, equals, value = other.partition("=")
        if not equals or field in values:
            raise ValueError(
                f"a threat is written NAME:ε,field=value with every field once, such as "
                f"L0:15,per=entry, not {text!r}"
            )
        values[field] = value
    _require_fields(kind, name, values)
    hints = typing.get_type_hints(kind)
    threat: Threat = kind(
        **{field: _read(value, hints[field], f"{name}: {field}") for field, value in values.items()}
    )
    return threat


def read_threat(text: str) -> Threat | UnknownThreat:
    """Return the threat that a stored name stands for, without importing anybody's code.

    Raises:
        ValueError: If there is no such threat.
    """
    try:
        return parse_threat(text)
    except UntrustedError:
        return UnknownThreat(text)


def contains(larger: Threat | UnknownThreat, smaller: Threat | UnknownThreat) -> bool:
    """Return True if `larger` allows everything that `smaller` allows.

    That is known of two threats that differ in nothing but ε, and of equal ones.
    """
    if type(larger) is not type(smaller):
        return False
    if isinstance(larger, UnknownThreat) or isinstance(smaller, UnknownThreat):
        return larger == smaller
    size = _size_field(type(larger))
    same = all(
        getattr(larger, field.name) == getattr(smaller, field.name)
        for field in dataclasses.fields(larger)  # type: ignore[arg-type]  # checked by _size_field
        if field.name != size
    )
    return same and smaller.epsilon <= larger.epsilon


def order(threat: Threat | UnknownThreat) -> tuple[int, str, float, str]:
    """Return a key that sorts threats: by kind as in THREATS, other kinds last, then by ε."""
    name = label(threat)
    if isinstance(threat, UnknownThreat):
        return len(THREATS), name, math.inf, name
    kind = _name(type(threat))
    place = list(THREATS).index(kind) if kind in THREATS else len(THREATS)
    return place, kind, threat.epsilon, name


def _name(kind: type) -> str:
    """Return the class name of ccat's threats, and the dotted name of others."""
    return kind.__name__ if THREATS.get(kind.__name__) is kind else extensions.name_of(kind)


def _split(text: str) -> tuple[type, str, str]:
    """Return the class that a name begins with, what it is called, and the rest of the name."""
    kind, _, settings = text.partition(":")
    if kind in THREATS and settings:
        return THREATS[kind], kind, settings
    path, _, own_settings = settings.partition(":")
    if own_settings and extensions.is_name(f"{kind}:{path}"):
        name = f"{kind}:{path}"
        found = extensions.resolve(name)
        if not isinstance(found, type) or not all(hasattr(found, one) for one in _METHODS):
            raise ValueError(f"{name} is not a threat: it has no {', '.join(_METHODS)}")
        return found, name, own_settings
    lower = {one.lower(): one for one in THREATS}
    near = difflib.get_close_matches(kind.lower(), lower, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(lower[one] for one in near)}?" if near else ""
    raise ValueError(
        f"a threat is written as one of {', '.join(f'{one}:ε' for one in THREATS)}, such as "
        f"Linf:8/255, or package.module:Class:ε, not {text!r}"
        f"{meant if kind not in THREATS else ''}"
    )


def _size_field(kind: type) -> str:
    """Return the field of a threat's class that is its size: `epsilon`, or else the first one."""
    names = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    if not names:
        raise ValueError(
            f"{_name(kind)} must be a frozen dataclass whose field `epsilon`, or whose first "
            f"field, is its size"
        )
    return "epsilon" if "epsilon" in names else names[0]


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _require_fields(kind: type, name: str, values: dict[str, str]) -> None:
    fields = {one.name: one for one in dataclasses.fields(kind)}
    for field in values:
        if field not in fields:
            raise ValueError(f"{name} has no field {field!r}; it has {', '.join(fields)}")
    for field, one in fields.items():
        if _default(one) is dataclasses.MISSING and field not in values:
            raise ValueError(f"{name} must be given its field {field}: add ,{field}=value")


def _write(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float):
        return str(value)
    exact, short = repr(float(value)), f"{value:g}"
    if float(short) == value:
        return short
    levels = f"{round(value * 255)}/255" if abs(value) < _LARGEST else exact
    return levels if len(levels) < len(exact) and float(Fraction(levels)) == value else exact


def _read(text: str, kind: Any, where: str) -> Any:
    """Return the value of a field's type that a text stands for."""
    value = overrides.parse(text, kind, where)
    if not isinstance(value, int | float | str):
        raise ValueError(f"{where} cannot be written in a name, for it is not a number or a text")
    if isinstance(value, int) and abs(value) >= _LARGEST:
        shown = overrides.shortened(text)
        raise ValueError(f"{where} must be a whole number below {_LARGEST}, not {shown!r}")
    return value
