"""Metadata: typed values by name.

    MaterializeResult(metadata={"rows": 12, "report": MetadataValue.url("https://...")})

Plain values become typed ones. The stored form is JSON, `{"rows": {"type": "int", "value": 12}}`,
in the given order; `decode_metadata` is the inverse of `encode_metadata`. Numbers that JSON lacks
are strings in a float ("nan", "inf", "-inf") and null in JSON and tables.
"""

import json
from collections.abc import Callable, Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Corrupt, Invalid
from servo.sdk.assets.specs import to_key
from servo.sdk.metadata.plain_data import plain_data, type_name, unboxed
from servo.sdk.metadata.tables import (
    TableColumn,
    TableColumnConstraints,
    TableColumnDep,
    TableColumnLineage,
    TableConstraints,
    TableRecord,
    TableSchema,
)
from servo.sdk.metadata.values import (
    AssetMetadataValue,
    BoolMetadataValue,
    FloatMetadataValue,
    IntMetadataValue,
    JobMetadataValue,
    JsonMetadataValue,
    MarkdownMetadataValue,
    MetadataValue,
    NotebookMetadataValue,
    NullMetadataValue,
    PathMetadataValue,
    PythonArtifactMetadataValue,
    RunMetadataValue,
    TableColumnLineageMetadataValue,
    TableMetadataValue,
    TableSchemaMetadataValue,
    TextMetadataValue,
    TimestampMetadataValue,
    UrlMetadataValue,
)

__all__ = [
    "AssetMetadataValue",
    "BoolMetadataValue",
    "FloatMetadataValue",
    "IntMetadataValue",
    "JobMetadataValue",
    "JsonMetadataValue",
    "MarkdownMetadataValue",
    "MetadataValue",
    "NotebookMetadataValue",
    "NullMetadataValue",
    "PathMetadataValue",
    "PythonArtifactMetadataValue",
    "RunMetadataValue",
    "TableColumn",
    "TableColumnConstraints",
    "TableColumnDep",
    "TableColumnLineage",
    "TableColumnLineageMetadataValue",
    "TableConstraints",
    "TableMetadataValue",
    "TableRecord",
    "TableSchema",
    "TableSchemaMetadataValue",
    "TextMetadataValue",
    "TimestampMetadataValue",
    "UrlMetadataValue",
    "decode_metadata",
    "encode_metadata",
    "normalize_metadata",
]


def normalize_metadata(metadata: Mapping[str, Any]) -> dict[str, MetadataValue]:
    """Convert every value to a typed one; `Invalid` names the first of an unsupported type."""
    return {_checked_name(name): _typed(name, raw) for name, raw in metadata.items()}


def _checked_name(name: Any) -> str:
    if isinstance(name, str):
        return str(name)
    raise Invalid(f"metadata has the key {name!r}", remedy="use strings as keys")


def _typed(name: str, raw: Any) -> MetadataValue:
    if isinstance(raw, MetadataValue):
        return raw
    raw = unboxed(raw)
    if isinstance(raw, Mapping | list | tuple):
        return JsonMetadataValue(plain_data(raw, f"metadata {name!r}"))
    if hasattr(raw, "__fspath__"):
        return MetadataValue.path(raw)
    for kind, make in _PLAIN:
        if isinstance(raw, kind):
            return make(raw)
    raise Invalid(
        f"metadata {name!r} has the unsupported type {type_name(raw)}",
        remedy="use a string, a number, a list or dict of them, or MetadataValue.<type>(...)",
    )


# bool before int, because True is an int.
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
    """The stored form, in the given order; empty if there is no metadata."""
    typed = normalize_metadata(metadata)
    stored = {name: {"type": v.kind, "value": _payload(v)} for name, v in typed.items()}
    if not stored:
        return ""
    text = json.dumps(stored, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        _ = text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only the escaped form can represent
        return json.dumps(stored, allow_nan=False, separators=(",", ":"))
    return text


def decode_metadata(text: str) -> dict[str, MetadataValue]:
    """The metadata of a stored form; `Corrupt` if it is not one."""
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
