"""Frozen dataclasses as plain data: how recipes and cases are stored, hashed and compared.

Plain data is what JSON holds. A dataclass becomes {"kind": its name, field: value, …}, a function
becomes its name. Classes and functions of ccat are known by their names in the table of their kind
(`ATTACKS`, `THREATS`, `METHODS`, `OBJECTIVES`, …); yours are known as `package.module:Name`.

    codec.decode(codec.encode(case), Case) == case
"""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ccat import extensions
from ccat.errors import UntrustedError

T = TypeVar("T")
Table = TypeVar("Table", bound=Mapping[str, Any])
OPAQUE = "opaque"
_TABLES: dict[Any, Mapping[str, Any]] = {}  # by protocol


def register(protocol: Any, table: Table) -> Table:
    """Declare the table that holds ccat's own implementations of a protocol, and return it."""
    _TABLES[protocol] = table
    return table


@dataclasses.dataclass(frozen=True)
class Unresolved:
    """A configuration whose class is not part of ccat and has not been imported.

    It can be shown, compared and stored again, but not used: calling it raises UntrustedError.
    """

    kind: str
    content: str  # the plain data it was read from, as JSON

    @property
    def plain(self) -> dict[str, Any]:
        """The plain data it was read from."""
        return dict(json.loads(self.content))

    def __call__(self, *_: Any, **__: Any) -> Any:
        extensions.resolve(self.kind)
        raise UntrustedError(f"{self.kind} was not trusted when the run was opened: open it again")


def encode(value: Any, where: str = "", *, opaque: bool = False) -> Any:
    """Return plain data that says everything about a configuration.

    Args:
        value: The configuration.
        where: The class and field it belongs to, for messages.
        opaque: Let what cannot be stored be known by its class alone; for results in memory.

    Raises:
        ValueError: If a dataclass is not frozen, or a field holds what cannot be stored; the
            message names the class and the field.
    """
    if isinstance(value, Unresolved):
        return value.plain
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = kind_of(type(value))
        require_frozen(type(value))
        fields = [field.name for field in dataclasses.fields(value)]
        short = type(value).__name__
        return {"kind": kind} | {
            name: encode(getattr(value, name), f"{short}.{name}", opaque=opaque) for name in fields
        }
    if isinstance(value, tuple | list):
        return [encode(item, where, opaque=opaque) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return _encode_function(value, where, opaque)
    if opaque:
        return {OPAQUE: extensions.name_of(type(value))}
    raise ValueError(
        f"{where or 'this'} is a {type(value).__name__}, which cannot be stored: use numbers, "
        f"texts, None, tuples, frozen dataclasses or functions of a module"
    )


def decode(plain: Any, hint: Any = Any) -> Any:
    """Return the configuration that `encode` was given.

    Args:
        plain: What `encode` returned.
        hint: The type it must have. Protocols stand for what their table holds, and for classes
            outside of ccat that implement them.

    Returns:
        The configuration. Where it names a class that nobody has trusted, an `Unresolved`.

    Raises:
        ValueError: If there is no such class or field.
    """
    if isinstance(plain, dict):
        return _decode_dataclass(plain, hint)
    if isinstance(plain, list):
        inner = next(iter(typing.get_args(hint)), Any)
        return tuple(decode(item, inner) for item in plain)
    if isinstance(plain, str) and is_function_type(hint):
        functions = {name: f for table in tables_of(hint) for name, f in table.items()}
        if plain not in functions:
            raise ValueError(f"unknown function {plain!r}; known are {', '.join(functions)}")
        return functions[plain]
    return plain


def digest(plain: Any) -> str:
    """Return a SHA-256 of plain data: the same for the same content, in whatever order."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def seed_from(plain: Any) -> int:
    """Return a seed for a generator that depends on nothing but this plain data."""
    return int(digest(plain)[:15], 16)


def require_storable(value: Any, hint: Any) -> None:
    """Check that a configuration can be stored and read back, before anything is computed.

    Names of your own classes in it are trusted from here on: they come from this process.

    Raises:
        ValueError: If it cannot; names the class and what is wrong with it.
    """
    plain = encode(value)
    json.dumps(plain)
    for name in external_names(plain):
        extensions.trust(name)
        extensions.resolve(name)
    again = decode(plain, hint)
    if again != value:
        raise ValueError(
            f"{kind_of(type(value))} does not come back equal after it is stored: "
            f"{again!r} instead of {value!r}"
        )


def require_implements(value: Any, protocol: type, what: str) -> None:
    """Check that an object of yours is a frozen dataclass with all that a protocol asks for.

    Raises:
        ValueError: Names the class and what is missing.
    """
    if isinstance(value, type):
        name = extensions.name_of(value)
        raise ValueError(f"{what} {name} is a class: make an instance, {value.__name__}(…)")
    name = extensions.name_of(type(value))
    if not dataclasses.is_dataclass(value):
        raise ValueError(f"{what} {name} must be a frozen dataclass: @dataclass(frozen=True)")
    require_frozen(type(value))
    members = [member for member in vars(protocol) if not member.startswith("_")]
    wanted = [*members, "__call__"] if "__call__" in vars(protocol) else members
    if missing := [member for member in wanted if not hasattr(value, member)]:
        raise ValueError(
            f"{what} {name} has no {' and no '.join(missing)}: inherit from "
            f"ccat.{protocol.__name__}, or define it"
        )


def require_frozen(kind: type) -> None:
    """Check that a dataclass is frozen, so that what was stored is what was computed."""
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise ValueError(f"{kind.__name__} must be frozen: @dataclass(frozen=True)")


def kind_of(kind: type) -> str:
    """The name a class is stored under."""
    inside = kind.__module__.split(".")[0] == "ccat"
    own = _name_in(kind, _TABLES.values())
    return own or (kind.__name__ if inside else extensions.name_of(kind))


def short_name(value: Any) -> str:
    """The name of a configuration's class without its module, also if it is unresolved."""
    kind = value.kind if isinstance(value, Unresolved) else kind_of(type(value))
    return kind.partition(":")[2] or kind


def is_opaque(plain: Any) -> bool:
    """True if plain data holds something that is known by its class alone."""
    if isinstance(plain, dict):
        return OPAQUE in plain or any(map(is_opaque, plain.values()))
    return isinstance(plain, list) and any(map(is_opaque, plain))


def is_resolved(value: Any) -> bool:
    """True if every class and function in a configuration has been imported."""
    if isinstance(value, Unresolved) or not dataclasses.is_dataclass(value):
        return not isinstance(value, Unresolved)
    return all(is_resolved(getattr(value, field.name)) for field in dataclasses.fields(value))


def external_names(plain: Any) -> Iterator[str]:
    """All names of the form `package.module:Name` that plain data asks to be imported."""
    if isinstance(plain, dict):
        name = plain.get("kind", plain.get("function"))
        if isinstance(name, str) and extensions.is_name(name):
            yield name
    inside = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ()
    for item in inside:
        yield from external_names(item)


def _encode_function(function: Any, where: str, opaque: bool) -> Any:
    name = extensions.name_of(function)
    if own := _name_in(function, _TABLES.values()):
        return own
    if extensions.is_name(name):
        return {"function": name}
    if opaque:
        return {OPAQUE: name}
    raise ValueError(
        f"{where or 'this'} is {name}, a function that cannot be stored: define it with a name of "
        f"its own in a module"
    )


def _decode_dataclass(plain: Mapping[str, Any], hint: Any) -> Any:
    name = str(plain.get("kind", plain.get("function", "")))
    known = {
        known_name: kind
        for option in options_of(hint)
        for known_name, kind in [
            *([(option.__name__, option)] if isinstance(option, type) else []),
            *_TABLES.get(option, {}).items(),
        ]
        if dataclasses.is_dataclass(kind)
    }
    external = extensions.is_name(name)
    kind = known.get(name)
    if external and not extensions.is_trusted(name):
        return Unresolved(name, json.dumps(plain, sort_keys=True))
    if external:
        kind = extensions.resolve(name)
    if plain.keys() == {"function"} and external:
        return kind
    fields = {field: value for field, value in plain.items() if field != "kind"}
    if kind is None:
        raise ValueError(f"unknown kind {name!r}; known here are {', '.join(sorted(known))}")
    if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
        raise ValueError(f"{name} is not a dataclass")
    hints = typing.get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(set(fields) - names):
        raise ValueError(f"{name} has no field {unknown[0]!r}; it has {', '.join(sorted(names))}")
    decoded = {field: decode(value, hints[field]) for field, value in fields.items()}
    try:
        return kind(**decoded)
    except TypeError as missing:
        raise ValueError(f"{name} cannot be made of what is stored ({missing})") from missing


def options_of(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union type, or the type itself."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint) if union else (hint,)


def tables_of(hint: Any) -> list[Mapping[str, Any]]:
    """Return the tables of ccat's own implementations that a type admits."""
    return [_TABLES[option] for option in options_of(hint) if option in _TABLES]


def is_function_type(hint: Any) -> bool:
    """True if a type stands for functions: a Callable, or a protocol with a table of functions."""
    if any(typing.get_origin(option) is Callable for option in options_of(hint)):
        return True
    return any(
        isinstance(item, types.FunctionType) for table in tables_of(hint) for item in table.values()
    )


def _name_in(thing: Any, tables: Any) -> str | None:
    return next((name for table in tables for name, item in table.items() if item is thing), None)
