"""Evaluations as a JSON document, and the JSON Schema that describes it.

The schema is made from the type hints and docstrings of the dataclasses in
`ccat.evaluation.results` and from the definitions of the rates.
"""

import dataclasses
import inspect
import math
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from ccat.evaluation import rates
from ccat.evaluation.intervals import Estimate
from ccat.evaluation.parts import Bounds, Share
from ccat.evaluation.rates import Rate
from ccat.evaluation.results import Evaluation
from ccat.overrides import meanings

SCHEMA = 2
_KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: ["number", "null"],
    NoneType: "null",
}


@dataclasses.dataclass(frozen=True)
class ConditionText:
    """What was attacked, and what the attacker was allowed to do: a `ccat.threats.Condition`.

    Attributes:
        threat: Such as Linf:0.3.
        source: What was attacked: test images, or noise, which has no right answer.
        goal: What the attacker wants: errors that are accepted, or correct images rejected.
    """

    threat: str
    source: Literal["test", "noise"]
    goal: Literal["error", "rejection"]


def to_json(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Return evaluations, of one run or several, as what `json.dumps` takes.

    Shares lie between 0 and 1; a number that does not exist is None.
    """
    return {"schema": SCHEMA, "evaluations": [_plain(one) for one in evaluations]}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `to_json` makes."""
    definitions: dict[str, Any] = {}
    items = _schema(Evaluation, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What ccat evaluate makes of runs",
        "description": "Shares lie between 0 and 1. A number that does not exist, such as an AUC "
        "without adversarial examples, is null.",
        **_object(
            {
                "schema": {"description": "The version of this schema.", "const": SCHEMA},
                "evaluations": {
                    "description": "One entry for each run and threshold.",
                    "type": "array",
                    "items": items,
                },
            }
        ),
        "$defs": definitions,
    }


def _plain(value: Any) -> Any:
    if hasattr(value, "on_noise"):  # a Condition; the room of threats needs torch, this one not
        threat = dataclasses.replace(value, source="test", goal="error").title
        value = ConditionText(threat, value.source, value.goal)
    if isinstance(value, Estimate):
        value = value._asdict()
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; those of classes go into `definitions`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1], definitions)
    if origin is not None:
        return _generic(origin, arguments, definitions)
    if hint in _KINDS:
        return {"type": _KINDS[hint]}
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}  # its place in the order
        definitions[hint.__name__] = _class(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _annotated(kind: Any, more: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a number with bounds, or of a mapping from the names of rates."""
    if isinstance(more, Bounds):
        name = "integer" if kind is int else "number"
        largest = {} if more.largest is None else {"maximum": more.largest}
        shown = [name, "null"] if more.nullable else name
        return {"type": shown, "minimum": more.least, **largest}
    values = _schema(get_args(kind)[1], definitions)
    return _anyone([_rates(getattr(rates, name), values) for name in more])


def _generic(origin: Any, arguments: Sequence[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    return _anyone([_schema(one, definitions) for one in arguments])  # a union


def _class(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    about = meanings(kind)
    if kind is Estimate:
        hints: dict[str, Any] = dict.fromkeys(Estimate._fields, Share)
    else:
        hints = get_type_hints(kind, localns={"Condition": ConditionText}, include_extras=True)
    properties = {
        name: ({"description": about[name]} if name in about else {}) | _schema(hint, definitions)
        for name, hint in hints.items()
    }
    return {"description": (inspect.getdoc(kind) or "").split("\n")[0]} | _object(properties)


def _rates(defined: Sequence[Rate], values: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a mapping from the names of rates."""
    return _object(
        {
            rate.name: {"title": rate.title, "description": rate.meaning, **values}
            for rate in defined
        }
    )


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _anyone(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return found[0] if len(found) == 1 else {"anyOf": list(found)}
