"""What people say about what they made: typed values by name.

    MaterializeResult(metadata={"rows": 12, "report": MetadataValue.url("https://...")})

Plain values become typed ones. The stored form is JSON, `{"rows": {"type": "int", "value": 12}}`,
in the order that was given; `decode_metadata` gives back what `encode_metadata` was given. Numbers
that JSON does not have are texts in a float ("nan", "inf", "-inf") and null in JSON and tables.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias, cast

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Corrupt, Invalid
from servo.sdk.specs import to_key

# `MetadataValue` has constructors of these names, which hide the types in its own body.
Bool: TypeAlias = bool
Float: TypeAlias = float
Int: TypeAlias = int

Cell: TypeAlias = str | int | float | bool | None

_set = msgspec.structs.force_setattr

# --- plain data -----------------------------------------------------------------------------------


def _plain(value: Any, where: str) -> Any:
    """`value` as JSON brings it back; `Invalid` with the place of what JSON cannot hold."""
    value = _unboxed(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral | Real):
        return _number(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {_name(k, where): _plain(v, f"{where}.{k}") for k, v in pairs}
    if isinstance(value, list | tuple):
        items = enumerate(cast("Sequence[Any]", value))
        return [_plain(item, f"{where}[{index}]") for index, item in items]
    raise Invalid(
        f"{where} is a {_type_name(value)}, which JSON cannot hold",
        remedy="use texts, numbers, booleans, None, lists and dicts",
    )


def _unboxed(value: Any) -> Any:
    """A number of numpy's as Python's, without importing numpy."""
    return value.item() if getattr(value, "shape", None) == () else value


def _type_name(value: object) -> str:
    kind = type(value)
    own = kind.__module__ == "builtins"
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"


def _number(value: Integral | Real) -> int | float | None:
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isfinite(value) else None


def _name(key: Any, where: str) -> str:
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool | Integral):
        return json.dumps(key if key is None or isinstance(key, bool) else int(key))
    raise Invalid(f"{where} has the key {key!r}", remedy="use texts as keys")


# --- tables ---------------------------------------------------------------------------------------


class TableRecord(msgspec.Struct, frozen=True):
    """One row: texts, numbers and booleans by column."""

    data: Mapping[str, Cell]

    def __post_init__(self) -> None:
        for name, value in self.data.items():
            if isinstance(value, Mapping | list | tuple):
                raise Invalid(
                    f"TableRecord: the column {name!r} holds a {_type_name(value)}",
                    remedy="use texts, numbers, booleans and None",
                )
        _set(self, "data", _plain(self.data, "TableRecord"))


class TableConstraints(msgspec.Struct, frozen=True):
    """What holds for a whole table, in words."""

    other: Sequence[str] = ()

    def __post_init__(self) -> None:
        _set(self, "other", tuple(self.other or ()))


class TableColumnConstraints(msgspec.Struct, frozen=True):
    """What holds for every value of a column."""

    nullable: bool = True
    unique: bool = False
    other: Sequence[str] = ()

    def __post_init__(self) -> None:
        _set(self, "other", tuple(self.other or ()))


class TableColumn(msgspec.Struct, frozen=True):
    """A column: its name, and what is known about it."""

    name: str
    type: str = "string"
    description: str | None = None
    constraints: TableColumnConstraints = TableColumnConstraints()
    tags: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        # Given as None by those who spell all options out.
        _set(self, "constraints", self.constraints or TableColumnConstraints())
        _set(self, "tags", dict(self.tags or {}))


class TableSchema(msgspec.Struct, frozen=True):
    """The columns of a table, and what holds for it."""

    columns: Sequence[TableColumn]
    constraints: TableConstraints = TableConstraints()

    def __post_init__(self) -> None:
        _set(self, "columns", tuple(self.columns))
        _set(self, "constraints", self.constraints or TableConstraints())

    @classmethod
    def from_name_type_dict(cls, name_type_dict: Mapping[str, str]) -> "TableSchema":
        """The schema with these columns."""
        return cls([TableColumn(name, kind) for name, kind in name_type_dict.items()])


class TableColumnDep(msgspec.Struct, frozen=True):
    """A column of another asset."""

    asset_key: Any
    column_name: str

    def __post_init__(self) -> None:
        key = to_key(self.asset_key, what="TableColumnDep")
        _set(self, "asset_key", key)


class TableColumnLineage(msgspec.Struct, frozen=True):
    """The columns that each column is made from."""

    deps_by_column: Mapping[str, Sequence[TableColumnDep]]

    def __post_init__(self) -> None:
        deps = {name: tuple(columns) for name, columns in self.deps_by_column.items()}
        _set(self, "deps_by_column", deps)


# --- values ---------------------------------------------------------------------------------------


class MetadataValue(msgspec.Struct, frozen=True):
    """A value with the way it is to be shown; make one with the constructors here."""

    kind: ClassVar[str] = ""

    @property
    def value(self) -> Any:
        """The value itself; this, where it has several parts."""
        fields = self.__struct_fields__
        return getattr(self, fields[0]) if len(fields) == 1 else self

    @staticmethod
    def text(text: str) -> "TextMetadataValue":
        """A text."""
        return TextMetadataValue(str(_expect(text, str, "MetadataValue.text")))

    @staticmethod
    def url(url: str) -> "UrlMetadataValue":
        """A link."""
        return UrlMetadataValue(_expect(url, str, "MetadataValue.url"))

    @staticmethod
    def path(path: Any) -> "PathMetadataValue":
        """A file or a folder."""
        return PathMetadataValue(_path_text(path))

    @staticmethod
    def notebook(path: Any) -> "NotebookMetadataValue":
        """A notebook, by its path."""
        return NotebookMetadataValue(_path_text(path))

    @staticmethod
    def json(data: Any) -> "JsonMetadataValue":
        """Anything that JSON can hold."""
        return JsonMetadataValue(data)

    @staticmethod
    def md(data: str) -> "MarkdownMetadataValue":
        """A text in Markdown."""
        return MarkdownMetadataValue(_expect(data, str, "MetadataValue.md"))

    @staticmethod
    def python_artifact(python_artifact: Callable[..., Any]) -> "PythonArtifactMetadataValue":
        """A class or a function, by its name."""
        name = getattr(python_artifact, "__qualname__", type(python_artifact).__qualname__)
        return PythonArtifactMetadataValue(python_artifact.__module__, name)

    @staticmethod
    def float(value: Float) -> "FloatMetadataValue":
        """A number."""
        return FloatMetadataValue(Float(_expect(value, Real, "MetadataValue.float")))

    @staticmethod
    def int(value: Int) -> "IntMetadataValue":
        """A whole number."""
        return IntMetadataValue(Int(_expect(value, Integral, "MetadataValue.int")))

    @staticmethod
    def bool(value: Bool) -> "BoolMetadataValue":
        """Yes or no."""
        return BoolMetadataValue(_expect(_unboxed(value), Bool, "MetadataValue.bool"))

    @staticmethod
    def timestamp(value: "Float | datetime") -> "TimestampMetadataValue":
        """An instant: a datetime with its zone, or seconds since 1970 in UTC."""
        if not isinstance(value, datetime):
            return TimestampMetadataValue(Float(value))
        if value.tzinfo is None:
            raise Invalid(
                f"MetadataValue.timestamp: {value} has no time zone",
                remedy="say which: datetime(..., tzinfo=UTC)",
            )
        return TimestampMetadataValue(value.timestamp())

    @staticmethod
    def asset(asset_key: Any) -> "AssetMetadataValue":
        """Another asset."""
        return AssetMetadataValue(to_key(asset_key, what="MetadataValue.asset"))

    @staticmethod
    def job(
        job_name: str, location_name: str = "", *, repository_name: str | None = None
    ) -> "JobMetadataValue":
        """A job."""
        return JobMetadataValue(job_name, location_name, repository_name)

    @staticmethod
    def dagster_run(run_id: str) -> "RunMetadataValue":
        """A run, by its id."""
        return RunMetadataValue(_expect(run_id, str, "MetadataValue.dagster_run"))

    run = dagster_run

    @staticmethod
    def table(
        records: Sequence[TableRecord], schema: TableSchema | None = None
    ) -> "TableMetadataValue":
        """A small table; without a schema, that of its first record."""
        return TableMetadataValue(records, schema or _infer_schema(records))

    @staticmethod
    def table_schema(schema: TableSchema) -> "TableSchemaMetadataValue":
        """The columns of a table."""
        return TableSchemaMetadataValue(schema)

    @staticmethod
    def table_column_lineage(lineage: TableColumnLineage) -> "TableColumnLineageMetadataValue":
        """The columns that each column is made from."""
        return TableColumnLineageMetadataValue(lineage)

    column_lineage = table_column_lineage

    @staticmethod
    def null() -> "NullMetadataValue":
        """Nothing, said on purpose."""
        return NullMetadataValue()


class TextMetadataValue(MetadataValue, frozen=True):
    """A text."""

    kind: ClassVar[str] = "text"

    text: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class UrlMetadataValue(MetadataValue, frozen=True):
    """A link."""

    kind: ClassVar[str] = "url"

    url: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class PathMetadataValue(MetadataValue, frozen=True):
    """A file or a folder."""

    kind: ClassVar[str] = "path"

    path: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class NotebookMetadataValue(MetadataValue, frozen=True):
    """A notebook, by its path."""

    kind: ClassVar[str] = "notebook"

    path: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class JsonMetadataValue(MetadataValue, frozen=True):
    """Anything that JSON can hold."""

    kind: ClassVar[str] = "json"

    data: Any

    def __post_init__(self) -> None:
        _set(self, "data", _plain(self.data, "MetadataValue.json"))


class MarkdownMetadataValue(MetadataValue, frozen=True):
    """A text in Markdown."""

    kind: ClassVar[str] = "md"

    md_str: str


class PythonArtifactMetadataValue(MetadataValue, frozen=True):
    """A class or a function, by its name."""

    kind: ClassVar[str] = "python_artifact"

    module: str
    name: str


class FloatMetadataValue(MetadataValue, frozen=True):
    """A number."""

    kind: ClassVar[str] = "float"

    value: float  # pyright: ignore[reportIncompatibleMethodOverride] - hides the property


class IntMetadataValue(MetadataValue, frozen=True):
    """A whole number."""

    kind: ClassVar[str] = "int"

    value: int  # pyright: ignore[reportIncompatibleMethodOverride] - hides the property


class BoolMetadataValue(MetadataValue, frozen=True):
    """Yes or no."""

    kind: ClassVar[str] = "bool"

    value: bool  # pyright: ignore[reportIncompatibleMethodOverride] - hides the property


class TimestampMetadataValue(MetadataValue, frozen=True):
    """An instant, in seconds since 1970 in UTC."""

    kind: ClassVar[str] = "timestamp"

    value: float  # pyright: ignore[reportIncompatibleMethodOverride] - hides the property


class AssetMetadataValue(MetadataValue, frozen=True):
    """Another asset."""

    kind: ClassVar[str] = "asset"

    asset_key: AssetKey


class JobMetadataValue(MetadataValue, frozen=True):
    """A job."""

    kind: ClassVar[str] = "job"

    job_name: str
    location_name: str = ""
    repository_name: str | None = None


class RunMetadataValue(MetadataValue, frozen=True):
    """A run, by its id."""

    kind: ClassVar[str] = "run"

    run_id: str


class TableMetadataValue(MetadataValue, frozen=True):
    """A small table."""

    kind: ClassVar[str] = "table"

    records: Sequence[TableRecord]
    schema: TableSchema

    def __post_init__(self) -> None:
        _set(self, "records", tuple(self.records))


class TableSchemaMetadataValue(MetadataValue, frozen=True):
    """The columns of a table."""

    kind: ClassVar[str] = "table_schema"

    schema: TableSchema


class TableColumnLineageMetadataValue(MetadataValue, frozen=True):
    """The columns that each column is made from."""

    kind: ClassVar[str] = "table_column_lineage"

    column_lineage: TableColumnLineage


class NullMetadataValue(MetadataValue, frozen=True):
    """Nothing, said on purpose."""

    kind: ClassVar[str] = "null"

    @property
    def value(self) -> None:
        """`None`."""


def _expect(value: Any, kind: type, where: str) -> Any:
    if isinstance(value, kind):
        return value
    raise Invalid(f"{where} was given a {_type_name(value)}", remedy=f"give it {_WORDS[kind]}")


_WORDS: dict[type, str] = {
    str: "a text",
    Integral: "a whole number",
    Real: "a number",
    bool: "True or False",
}


def _path_text(path: Any) -> str:
    text = path if isinstance(path, str) else path.__fspath__()
    if isinstance(text, str):
        return str(text)
    raise Invalid(f"the path {path!r} is no text", remedy="decode it first")


def _infer_schema(records: Sequence[TableRecord]) -> TableSchema:
    if not records:
        raise Invalid(
            "MetadataValue.table: without records there is nothing to see columns in",
            remedy="give a schema",
        )
    kinds: dict[type, str] = {bool: "bool", int: "int", float: "float"}
    first = records[0].data
    return TableSchema(
        [TableColumn(name, kinds.get(type(cell), "string")) for name, cell in first.items()]
    )


# --- by name --------------------------------------------------------------------------------------


def normalize_metadata(metadata: Mapping[str, Any]) -> dict[str, MetadataValue]:
    """Every value as a typed one; `Invalid` names one that is of no known type."""
    return {_checked_name(name): _typed(name, raw) for name, raw in metadata.items()}


def _checked_name(name: Any) -> str:
    if isinstance(name, str):
        return str(name)
    raise Invalid(f"metadata has the name {name!r}", remedy="use texts as names")


def _typed(name: str, raw: Any) -> MetadataValue:
    if isinstance(raw, MetadataValue):
        return raw
    raw = _unboxed(raw)
    if isinstance(raw, Mapping | list | tuple):
        return JsonMetadataValue(_plain(raw, f"metadata {name!r}"))
    if hasattr(raw, "__fspath__"):
        return MetadataValue.path(raw)
    for kind, make in _PLAIN:
        if isinstance(raw, kind):
            return make(raw)
    raise Invalid(
        f"metadata {name!r} is a {_type_name(raw)}, for which there is no metadata value",
        remedy="use a text, a number, a list or dict of such, or MetadataValue.<type>(...)",
    )


# In this order: True is an int too.
_PLAIN: tuple[tuple[type, Callable[[Any], MetadataValue]], ...] = (
    (str, MetadataValue.text),
    (bool, BoolMetadataValue),
    (Integral, MetadataValue.int),
    (Real, MetadataValue.float),
    (AssetKey, AssetMetadataValue),
    (TableSchema, TableSchemaMetadataValue),
    (TableColumnLineage, TableColumnLineageMetadataValue),
    (type(None), lambda _: NullMetadataValue()),
)


# --- stored ---------------------------------------------------------------------------------------


def encode_metadata(metadata: Mapping[str, Any]) -> str:
    """The stored form, in the order that was given; no metadata is an empty text."""
    typed = normalize_metadata(metadata)
    stored = {name: {"type": v.kind, "value": _payload(v)} for name, v in typed.items()}
    if not stored:
        return ""
    text = json.dumps(stored, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        _ = text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only the escaped form can hold
        return json.dumps(stored, allow_nan=False, separators=(",", ":"))
    return text


def decode_metadata(text: str) -> dict[str, MetadataValue]:
    """What was encoded; `Corrupt` if it is no stored form."""
    if not text:
        return {}
    try:
        stored: dict[str, Any] = json.loads(text)
        return {name: _READERS[item["type"]](item["value"]) for name, item in stored.items()}
    except (ValueError, LookupError, TypeError, AttributeError, Invalid) as error:
        raise Corrupt(
            f"stored metadata cannot be read: {type(error).__name__}: {error}",
            remedy="upgrade Servo, or materialize the asset again",
        ) from error


def _payload(value: MetadataValue) -> Any:
    match value:
        case FloatMetadataValue() | TimestampMetadataValue():
            return value.value if isfinite(value.value) else str(value.value)
        case AssetMetadataValue():
            return value.asset_key.canonical()
        case TableColumnLineageMetadataValue():
            deps = value.column_lineage.deps_by_column
            return {column: [_dep(dep) for dep in of] for column, of in deps.items()}
        case TableMetadataValue():
            rows = [record.data for record in value.records]
            return {"records": rows, "schema": msgspec.to_builtins(value.schema)}
        case NullMetadataValue():
            return None
        case _:
            inner = value.value
            return msgspec.to_builtins(inner) if isinstance(inner, msgspec.Struct) else inner


def _dep(dep: TableColumnDep) -> dict[str, str]:
    return {"asset_key": dep.asset_key.canonical(), "column_name": dep.column_name}


def _read_lineage(payload: dict[str, list[dict[str, str]]]) -> MetadataValue:
    deps = {column: [TableColumnDep(**dep) for dep in of] for column, of in payload.items()}
    return TableColumnLineageMetadataValue(TableColumnLineage(deps))


def _read_table(payload: dict[str, Any]) -> MetadataValue:
    records = [TableRecord(row) for row in payload["records"]]
    return TableMetadataValue(records, msgspec.convert(payload["schema"], TableSchema))


_READERS: dict[str, Callable[[Any], MetadataValue]] = {
    "text": TextMetadataValue,
    "url": UrlMetadataValue,
    "path": PathMetadataValue,
    "notebook": NotebookMetadataValue,
    "json": JsonMetadataValue,
    "md": MarkdownMetadataValue,
    "python_artifact": lambda p: msgspec.convert(p, PythonArtifactMetadataValue),
    "float": lambda p: FloatMetadataValue(float(p)),
    "int": IntMetadataValue,
    "bool": BoolMetadataValue,
    "timestamp": lambda p: TimestampMetadataValue(float(p)),
    "asset": lambda p: AssetMetadataValue(to_key(p)),
    "job": lambda p: msgspec.convert(p, JobMetadataValue),
    "run": RunMetadataValue,
    "table": _read_table,
    "table_schema": lambda p: TableSchemaMetadataValue(msgspec.convert(p, TableSchema)),
    "table_column_lineage": _read_lineage,
    "null": lambda _: NullMetadataValue(),
}
