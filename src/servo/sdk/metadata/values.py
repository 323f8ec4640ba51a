"""Typed metadata values, which know how they are displayed. `MetadataValue` creates them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.specs import to_key
from servo.sdk.metadata.plain_data import plain_data, type_name, unboxed
from servo.sdk.metadata.tables import TableColumn, TableColumnLineage, TableRecord, TableSchema
from servo.sdk.option_kinds import of_kind, several

# `MetadataValue` has constructors of these names, which hide the types in its own body.
Bool: TypeAlias = bool
Float: TypeAlias = float
Int: TypeAlias = int

_set = msgspec.structs.force_setattr


class MetadataValue(msgspec.Struct, frozen=True):
    """A metadata value with its type. Create one with the constructors below.

        MaterializeResult(metadata={"report": MetadataValue.url("https://example.com/report")})

    Strings, numbers, booleans, lists and dicts need none: they are converted.
    """

    kind: ClassVar[str] = ""

    @property
    def value(self) -> Any:
        """The plain value; the object itself if it has several parts."""
        fields = self.__struct_fields__
        return getattr(self, fields[0]) if len(fields) == 1 else self

    @staticmethod
    def text(text: str) -> "TextMetadataValue":
        """A string."""
        return TextMetadataValue(str(_expect(text, str, "MetadataValue.text")))

    @staticmethod
    def url(url: str) -> "UrlMetadataValue":
        """A link."""
        return UrlMetadataValue(_expect(url, str, "MetadataValue.url"))

    @staticmethod
    def path(path: Any) -> "PathMetadataValue":
        """The path of a file or a folder."""
        return PathMetadataValue(_path_text(path))

    @staticmethod
    def notebook(path: Any) -> "NotebookMetadataValue":
        """The path of a notebook."""
        return NotebookMetadataValue(_path_text(path))

    @staticmethod
    def json(data: Any) -> "JsonMetadataValue":
        """Data that JSON can represent."""
        return JsonMetadataValue(data)

    @staticmethod
    def md(data: str) -> "MarkdownMetadataValue":
        """A string in Markdown."""
        return MarkdownMetadataValue(_expect(data, str, "MetadataValue.md"))

    @staticmethod
    def python_artifact(python_artifact: Callable[..., Any]) -> "PythonArtifactMetadataValue":
        """A class or a function, by its name."""
        module = getattr(python_artifact, "__module__", None)
        if not isinstance(module, str):
            raise Invalid(
                f"MetadataValue.python_artifact got a {type_name(python_artifact)}",
                remedy="pass a class or a function",
            )
        name = getattr(python_artifact, "__qualname__", type(python_artifact).__qualname__)
        return PythonArtifactMetadataValue(module, name)

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
        """A boolean."""
        return BoolMetadataValue(_expect(unboxed(value), Bool, "MetadataValue.bool"))

    @staticmethod
    def timestamp(value: "Float | datetime") -> "TimestampMetadataValue":
        """A point in time: a datetime with a time zone, or seconds since 1970 in UTC."""
        if not isinstance(value, datetime):
            return TimestampMetadataValue(Float(_expect(value, Real, "MetadataValue.timestamp")))
        if value.tzinfo is None:
            raise Invalid(
                f"MetadataValue.timestamp: {value} has no time zone",
                remedy="pass datetime(..., tzinfo=UTC)",
            )
        return TimestampMetadataValue(value.timestamp())

    @staticmethod
    def asset(asset_key: Any) -> "AssetMetadataValue":
        """A link to another asset."""
        return AssetMetadataValue(to_key(asset_key, what="MetadataValue.asset"))

    @staticmethod
    def job(
        job_name: str, location_name: str = "", *, repository_name: str | None = None
    ) -> "JobMetadataValue":
        """A link to a job."""
        return JobMetadataValue(job_name, location_name, repository_name)

    @staticmethod
    def dagster_run(run_id: str) -> "RunMetadataValue":
        """A link to a run, by its id."""
        return RunMetadataValue(_expect(run_id, str, "MetadataValue.dagster_run"))

    run = dagster_run

    @staticmethod
    def table(
        records: Sequence[TableRecord], schema: TableSchema | None = None
    ) -> "TableMetadataValue":
        """A small table; without a schema, the columns of the first record."""
        rows = several(records, what="MetadataValue.table: records")
        for row in rows:
            of_kind(row, TableRecord, what="a record", remedy='use TableRecord({"column": value})')
        return TableMetadataValue(rows, schema or _infer_schema(rows))

    @staticmethod
    def table_schema(schema: TableSchema) -> "TableSchemaMetadataValue":
        """The schema of a table."""
        return TableSchemaMetadataValue(schema)

    @staticmethod
    def table_column_lineage(lineage: TableColumnLineage) -> "TableColumnLineageMetadataValue":
        """The upstream columns that each column is derived from."""
        return TableColumnLineageMetadataValue(lineage)

    column_lineage = table_column_lineage

    @staticmethod
    def null() -> "NullMetadataValue":
        """An explicit null."""
        return NullMetadataValue()


class TextMetadataValue(MetadataValue, frozen=True):
    """A string."""

    kind: ClassVar[str] = "text"

    text: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class UrlMetadataValue(MetadataValue, frozen=True):
    """A link."""

    kind: ClassVar[str] = "url"

    url: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class PathMetadataValue(MetadataValue, frozen=True):
    """The path of a file or a folder."""

    kind: ClassVar[str] = "path"

    path: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class NotebookMetadataValue(MetadataValue, frozen=True):
    """The path of a notebook."""

    kind: ClassVar[str] = "notebook"

    path: str  # pyright: ignore[reportIncompatibleMethodOverride] - hides a constructor


class JsonMetadataValue(MetadataValue, frozen=True):
    """Data that JSON can represent."""

    kind: ClassVar[str] = "json"

    data: Any

    def __post_init__(self) -> None:
        _set(self, "data", plain_data(self.data, "MetadataValue.json"))


class MarkdownMetadataValue(MetadataValue, frozen=True):
    """A string in Markdown."""

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
    """A boolean."""

    kind: ClassVar[str] = "bool"

    value: bool  # pyright: ignore[reportIncompatibleMethodOverride] - hides the property


class TimestampMetadataValue(MetadataValue, frozen=True):
    """A point in time, in seconds since 1970 in UTC."""

    kind: ClassVar[str] = "timestamp"

    value: float  # pyright: ignore[reportIncompatibleMethodOverride] - hides the property


class AssetMetadataValue(MetadataValue, frozen=True):
    """A link to another asset."""

    kind: ClassVar[str] = "asset"

    asset_key: AssetKey


class JobMetadataValue(MetadataValue, frozen=True):
    """A link to a job."""

    kind: ClassVar[str] = "job"

    job_name: str
    location_name: str = ""
    repository_name: str | None = None


class RunMetadataValue(MetadataValue, frozen=True):
    """A link to a run, by its id."""

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
    """The schema of a table."""

    kind: ClassVar[str] = "table_schema"

    schema: TableSchema


class TableColumnLineageMetadataValue(MetadataValue, frozen=True):
    """The upstream columns that each column is derived from."""

    kind: ClassVar[str] = "table_column_lineage"

    column_lineage: TableColumnLineage


class NullMetadataValue(MetadataValue, frozen=True):
    """An explicit null."""

    kind: ClassVar[str] = "null"

    @property
    def value(self) -> None:
        """`None`."""


def _expect(value: Any, kind: type, where: str) -> Any:
    if isinstance(value, kind):
        return value
    raise Invalid(f"{where} got a {type_name(value)}", remedy=f"pass {_WORDS[kind]}")


_WORDS: dict[type, str] = {
    str: "a string",
    Integral: "a whole number",
    Real: "a number",
    bool: "True or False",
}


def _path_text(path: Any) -> str:
    if not isinstance(path, str) and not hasattr(path, "__fspath__"):
        raise Invalid(f"the path {path!r} is not a string", remedy="pass a string or a Path")
    text = path if isinstance(path, str) else path.__fspath__()
    if isinstance(text, str):
        return str(text)
    raise Invalid(f"the path {path!r} is not a string", remedy="decode it first")


def _infer_schema(records: Sequence[TableRecord]) -> TableSchema:
    if not records:
        raise Invalid(
            "MetadataValue.table cannot infer the columns without records",
            remedy="pass schema=TableSchema(...)",
        )
    kinds: dict[type, str] = {bool: "bool", int: "int", float: "float"}
    first = records[0].data
    return TableSchema(
        [TableColumn(name, kinds.get(type(cell), "string")) for name, cell in first.items()]
    )
