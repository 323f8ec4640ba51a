"""How the rows of each table look as columns.

Every field of a row struct is a column of the same name:

    str, StrEnum          string
    int                   int64
    bool                  bool
    datetime              timestamp[us, UTC]
    tuple[str, ...]       list<string>
    dict[str, str]        map<string, string>     labels['team'] in DuckDB
    anything nested       string with JSON        source->>'$.kind' in DuckDB

`X | None` is X, nullable. Before them stand `tenant_id` and `workspace_id`, which are the same in
every row; `row_version` comes last. A file that holds tombstones has a further column `_deleted`.

Columns are only ever added. A file without a column reads as if every row had the default of the
struct; a column that this version does not know is left alone. So that both can be told from a
value, a required field is never null in a row: null in one means "not written".
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from servo.core.state.rows.row import Row
from servo.core.state.tables import TableSpec
from servo.errors import Internal
from servo.projection.files.arrow import ArrowColumn, ArrowSchema, ArrowType, pa

TENANT = "tenant_id"
WORKSPACE = "workspace_id"
VERSION = "row_version"
DELETED = "_deleted"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Values = Sequence[Any]
Codec = tuple[ArrowType, Callable[[Values], Values], Callable[[ArrowColumn], list[Any]]]


class Column:
    """One field of a row struct: its Arrow type, and the way there and back."""

    __slots__ = ("_prepare", "_restore", "default", "name", "optional", "required", "type")

    def __init__(self, field: inspect.Field, hint: object) -> None:
        inner, self.optional = _without_none(hint)
        self.name = field.name
        self.required = field.required
        self.default: Any = _default_of(field)
        self.type, self._prepare, self._restore = _codec(inner)
        if self.optional and not self.required and self.default is not None:
            raise Internal(
                f"{field.name} is optional and its default is not None",
                remedy="null would mean two things; make it required or default to None",
            )

    def to_arrow(self, values: Values) -> ArrowColumn:
        prepared = self._prepare(values)
        try:
            return pa.array(prepared, type=self.type)
        except OverflowError:
            # A number that somebody reported and no column holds must not stop the workspace.
            return pa.array([_clamped(value) for value in prepared], type=self.type)

    def to_python(self, column: ArrowColumn) -> list[Any]:
        """The values of a column; None where the column has a null, whatever the field allows."""
        return self._restore(column)


@cache
def columns(row: type[Row]) -> tuple[Column, ...]:
    """The columns of a table, `row_version` last."""
    info = inspect.type_info(row)
    if not isinstance(info, inspect.StructType):
        raise Internal(f"{row.__name__} is not a struct", remedy="declare rows as structs")
    hints = get_type_hints(row)
    found = [Column(field, hints[field.name]) for field in info.fields]
    return tuple(sorted(found, key=lambda column: column.name == VERSION))


@cache
def schema(row: type[Row], key: tuple[str, ...]) -> ArrowSchema:
    """The public schema of a table: what a reader gets, with nothing null that cannot be."""
    return _schema(row, lambda column: column.optional and column.name not in key)


@cache
def stored_schema(row: type[Row], key: tuple[str, ...]) -> ArrowSchema:
    """The schema of a file: all but keys and versions nullable, because tombstones have no more."""
    return _schema(row, lambda column: column.name not in key and column.name != VERSION)


def deleted_field() -> Any:
    return pa.field(DELETED, pa.bool_(), nullable=False)


def constant(value: object, kind: ArrowType, count: int) -> ArrowColumn:
    """A column with one value; naming the type spares Arrow a slow guess at it."""
    return pa.repeat(pa.scalar(value, kind), count)


def key_parts(spec: TableSpec) -> Callable[[Any], tuple[Any, ...]]:
    """Reads the primary key of a row as a tuple, also where it is one column."""
    read = attrgetter(*spec.key)
    return read if len(spec.key) > 1 else lambda row: (read(row),)


def as_tuple(key: Any) -> tuple[Any, ...]:
    """A key of a table in memory (the bare value, or a tuple of several) as a tuple."""
    return cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)


def _schema(row: type[Row], nullable: Callable[[Column], bool]) -> ArrowSchema:
    constants = [pa.field(name, pa.string(), nullable=False) for name in (TENANT, WORKSPACE)]
    fields = [pa.field(c.name, c.type, nullable=nullable(c)) for c in columns(row)]
    return pa.schema([*constants, *fields])


def _without_none(hint: object) -> tuple[object, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    members = [member for member in get_args(hint) if member is not NoneType]
    # A union of structs stays whole: it is decoded by its tags.
    inner = members[0] if len(members) == 1 else hint
    return inner, NoneType in get_args(hint)


def _default_of(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def _codec(hint: object) -> Codec:
    match inspect.type_info(hint):
        case inspect.EnumType(cls=kind) if issubclass(kind, StrEnum):
            return pa.string(), _same, _members(kind)
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return pa.list_(pa.string()), _same, _tuples
        case inspect.DictType(key_type=inspect.StrType(), value_type=inspect.StrType()):
            return pa.map_(pa.string(), pa.string()), _items, _dicts
        case info:
            return _scalar(info) or (pa.string(), _to_json, _from_json(hint))


def _scalar(info: inspect.Type) -> Codec | None:
    match info:
        case inspect.StrType():
            return pa.string(), _same, _plain
        case inspect.IntType():
            return pa.int64(), _same, _plain
        case inspect.BoolType():
            return pa.bool_(), _same, _plain
        case inspect.DateTimeType():
            return pa.timestamp("us", tz="UTC"), _same, _instants
        case _:
            return None


def _same(values: Values) -> Values:
    return values


def _clamped(value: int | None) -> int | None:
    return None if value is None else max(-(2**63), min(value, 2**63 - 1))


def _items(values: Values) -> Values:
    return [None if value is None else list(value.items()) for value in values]


def _to_json(values: Values) -> Values:
    encode = msgspec.json.encode
    return [None if value is None else encode(value).decode() for value in values]


def _plain(column: ArrowColumn) -> list[Any]:
    return column.to_pylist()


def _instants(column: ArrowColumn) -> list[Any]:
    # Arrow's own way to a datetime costs six times as much, and rows changed together share one.
    values: list[int | None] = column.cast(pa.int64()).to_pylist()
    known: dict[int | None, datetime | None] = {None: None}
    for value in values:
        if value not in known:
            known[value] = _EPOCH + timedelta(0, 0, cast("int", value))
    return [known[value] for value in values]


def _members(kind: type[StrEnum]) -> Callable[[ArrowColumn], list[Any]]:
    members: dict[str | None, StrEnum | None] = {None: None}
    members |= {member.value: member for member in kind}
    return lambda column: [members[value] for value in column.to_pylist()]


def _tuples(column: ArrowColumn) -> list[Any]:
    return [None if value is None else tuple(value) for value in column.to_pylist()]


def _dicts(column: ArrowColumn) -> list[Any]:
    return [None if value is None else dict(value) for value in column.to_pylist()]


def _from_json(hint: object) -> Callable[[ArrowColumn], list[Any]]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(hint)

    def restore(column: ArrowColumn) -> list[Any]:
        # The same policy or source stands in thousands of rows; values are frozen and shared.
        known: dict[str | None, Any] = {None: None}
        strings: list[str | None] = column.to_pylist()
        for text in strings:
            if text not in known:
                known[text] = decoder.decode(cast("str", text))
        return [known[text] for text in strings]

    return restore
