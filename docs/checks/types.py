"""How the types of fields and columns are written in the reference, derived from the code.

Events, manifests and settings are JSON, tables are Arrow. Each kind of type has one spelling, so
that a description and the code can be compared word for word.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from servo.core.events.envelope import Event, UnknownEvent
from servo.core.state.tables import TableSpec
from servo.projection.files.arrow import pa
from servo.projection.files.schema import columns, schema

_PLAIN: dict[object, str] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    bytes: "bytes",
    datetime: "instant",
    timedelta: "duration",
    NoneType: "null",
    Event: "event",
    UnknownEvent: "unknown event",
}


def field_types(struct: type[Any]) -> dict[str, str]:
    """The fields of a struct, in the order in which they are written, with their types."""
    hints = get_type_hints(struct)
    return {
        field.encode_name: wire_type(hints[field.name]) for field in msgspec.structs.fields(struct)
    }


def field_defaults(struct: type[Any]) -> dict[str, str]:
    """What the absence of each field means: a JSON value, or that it must be there."""
    return {field.encode_name: _default(field) for field in msgspec.structs.fields(struct)}


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.json.encode(field.default_factory()).decode()
    return msgspec.json.encode(field.default).decode()


def wire_type(hint: Any) -> str:
    """A type as the reference writes it: `string`, `list of string`, `Output or null`."""
    hint = getattr(hint, "__supertype__", hint)
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(wire_type(member) for member in get_args(hint))
    if origin is tuple:
        return f"list of {wire_type(get_args(hint)[0])}"
    if origin is dict:
        key, value = (wire_type(part) for part in get_args(hint))
        return "map" if (key, value) == ("string", "string") else f"map to {value}"
    if origin is Literal:
        return wire_type(type(get_args(hint)[0]))
    return _PLAIN.get(hint) or hint.__name__


def nested_types(structs: list[type[Any]]) -> dict[str, type[Any]]:
    """Every struct and enumeration that the fields of `structs` hold, by name, at any depth."""
    found: dict[str, type[Any]] = {}
    waiting = [hint for struct in structs for hint in get_type_hints(struct).values()]
    while waiting:
        hint = waiting.pop()
        waiting.extend(get_args(hint))
        if not isinstance(hint, type) or hint.__name__ in found:
            continue
        if issubclass(hint, msgspec.Struct | StrEnum):
            found[hint.__name__] = hint
        if issubclass(hint, msgspec.Struct):
            waiting.extend(get_type_hints(hint).values())
    return dict(sorted(found.items()))


def column_types(spec: TableSpec) -> dict[str, str]:
    """The columns of a table, in their order, with their types; `?` marks those that may be null.

    Nested values are JSON in a string column, which Arrow does not tell from any other string.
    """
    json = {c.name for c in columns(spec.row) if _is_nested(spec, c.name)}
    public = schema(spec.row, spec.key)
    return {
        field.name: ("json" if field.name in json else _arrow(field.type)) + "?" * field.nullable
        for field in public
    }


def _is_nested(spec: TableSpec, name: str) -> bool:
    hint = get_type_hints(spec.row)[name]
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    inner = [get_args(member)[0] if get_origin(member) is tuple else member for member in members]
    return any(isinstance(member, type) and issubclass(member, msgspec.Struct) for member in inner)


def _arrow(kind: Any) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_list(kind):
        return "list"
    return "map" if pa.types.is_map(kind) else str(kind)
