"""Whether a table has the columns and types it should have.

Types go by Arrow's names. People write them in many ways, and libraries differ in how wide their
strings are, so both sides are brought to one spelling first: `str`, `utf8` and `large_string` are
`string`, `float64` is `double`. `int`, `float`, `datetime` and the Python types mean any width.
"""

import re
from collections.abc import Mapping
from typing import Any

from servo.errors import Invalid
from servo.execution.checks.rules import CheckSubject, table_of
from servo.sdk.checks.definition import AssetCheckResult

_SAME = {
    "str": "string",
    "text": "string",
    "utf8": "string",
    "varchar": "string",
    "object": "string",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "bytes": "binary",
    "float64": "double",
    "float32": "float32",
    "halffloat": "float16",
    "boolean": "bool",
    "bigint": "int64",
    "date": "date32",
    "date32[day]": "date32",
    "date64[ms]": "date64",
}
_EXACT = {
    *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)),
    *("float16", "float32", "double", "string", "binary", "bool", "null", "date32", "date64"),
}
_ANY = {
    "int": re.compile(r"u?int\d+"),
    "integer": re.compile(r"u?int\d+"),
    "float": re.compile(r"double|float\d+"),
    "number": re.compile(r"u?int\d+|double|float\d+|decimal.*"),
    "datetime": re.compile(r"timestamp.*"),
    "timestamp": re.compile(r"timestamp.*"),
    "decimal": re.compile(r"decimal.*"),
    "list": re.compile(r"(large_|fixed_size_)?list.*"),
    "struct": re.compile(r"struct.*"),
    "any": re.compile(r".*"),
}


def expected(columns: Mapping[str, Any]) -> dict[str, str]:
    """Types as people write them, in one spelling; `Invalid` for one that there is not."""
    return {column: _spelled(column, kind) for column, kind in columns.items()}


def _spelled(column: str, kind: Any) -> str:
    if kind is None:
        return "any"
    text = (kind.__name__ if isinstance(kind, type) else str(kind)).lower().strip()
    text = _SAME.get(text, text)
    if text in _EXACT or text in _ANY or re.search(r"[\[<(]", text):
        return text
    raise Invalid(
        f"unknown type {kind!r} for the column {column}",
        remedy="use a name like int64, double, string, bool, date32, timestamp, or a Python type",
    )


def _name(kind: Any) -> str:
    """The type of a column in the same spelling; one with categories is of their type."""
    text = str(getattr(kind, "value_type", kind) if str(kind).startswith("dict") else kind)
    return {"float": "float32"}.get(text, _SAME.get(text, text))


def schema(
    subject: CheckSubject, *, columns: Mapping[str, str], allow_extra: bool
) -> AssetCheckResult:
    """Whether the columns are there, and of their types."""
    table = table_of(subject.value, subject.key)
    found = {field.name: _name(field.type) for field in table.schema}
    missing = [column for column in columns if column not in found]
    wrong = {
        column: {"expected": kind, "found": found[column]}
        for column, kind in columns.items()
        if column in found and not _fits(kind, found[column])
    }
    extra = [] if allow_extra else [column for column in found if column not in columns]
    told = [f"{column} is missing" for column in missing]
    told += [f"{name} is {both['found']}, not {both['expected']}" for name, both in wrong.items()]
    told += [f"{column} is not expected" for column in extra]
    return AssetCheckResult(
        passed=not told,
        description="; ".join(told) or f"{len(columns)} columns as expected",
        metadata={"missing": missing, "wrong": wrong, "extra": extra} if told else {},
    )


def _fits(kind: str, found: str) -> bool:
    pattern = _ANY.get(kind)
    return found == kind if pattern is None else pattern.fullmatch(found) is not None
