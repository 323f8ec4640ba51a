"""SQL over one snapshot, by DuckDB.

Every table of the projection is a view of its name, merged: one row per key, the newest. A table
is read when a query scans it and not before, so a question about runs does not fetch the tasks.

Nothing can be changed and nothing outside can be reached: one statement that reads, no files, no
network, no extensions, no variables of this process, and no setting that would allow any of it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any

import msgspec

from servo.core.state.tables import TABLES
from servo.errors import Invalid, ServoError
from servo.projection.arrow import ArrowColumn, ArrowTable, pa
from servo.projection.reader import Snapshot
from servo.projection.schema import schema

_CONFIG = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_READING = frozenset({"SELECT", "EXPLAIN"})


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a query returned.

    Instants are aware, in UTC; differences of them are timedeltas; maps are dicts, lists lists.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def query(snapshot: Snapshot, sql: str) -> Answer:
    """Run one statement that reads; `Invalid` with DuckDB's words if it cannot be run."""
    with _connection() as connection:
        views = {name: _View(snapshot, name) for name in TABLES}
        for name, view in views.items():
            connection.register(name, view)
        try:
            table = connection.sql(_statement(connection, sql)).to_arrow_table()
        except _errors() as error:
            # DuckDB wraps what a view raised into its own words: the cause says more.
            raise _first_failure(views) or _refused(error) from None
        return Answer(columns=tuple(table.column_names), rows=_rows(table))


class _View:
    """A table that DuckDB reads through the Arrow C interface, when it scans it."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        self._snapshot = snapshot
        self._name = name
        self._table: ArrowTable = None
        self.failure: ServoError | None = None

    def __arrow_c_schema__(self) -> Any:
        spec = TABLES[self._name]
        return schema(spec.row, spec.key).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        try:
            if self._table is None:
                self._table = self._snapshot.table(self._name)
        except ServoError as error:
            self.failure = error
            raise
        return self._table.__arrow_c_stream__(requested_schema)


@contextmanager
def _connection() -> Generator[Any]:
    connection = import_module("duckdb").connect(config=_CONFIG)
    try:
        _ = connection.execute("SET TimeZone = 'UTC'")
        _ = connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        # Also what keeps the library from complaining about leaks when the process ends.
        connection.close()


def _statement(connection: Any, sql: str) -> Any:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise Invalid(
            f"there are {len(statements)} statements and there must be one",
            remedy='write one, such as "select * from runs"',
        )
    kind: str = statements[0].type.name
    if kind not in _READING:
        raise Invalid(
            f"{kind} statements are not allowed: the tables are read only",
            remedy="write a SELECT; commands change a workspace, never SQL",
        )
    return statements[0]


def _errors() -> tuple[type[Exception], ...]:
    return (import_module("duckdb").Error,)


def _first_failure(views: dict[str, _View]) -> ServoError | None:
    return next((view.failure for view in views.values() if view.failure is not None), None)


def _refused(error: Exception) -> Invalid:
    return Invalid(
        str(error).partition("\n")[0],
        remedy='see the tables with "show tables" and their columns with "describe runs"',
    )


def _rows(table: ArrowTable) -> list[tuple[Any, ...]]:
    return list(zip(*map(_values, table.columns), strict=True)) if table.num_columns else []


def _values(column: ArrowColumn) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else dict(value) for value in values]
    if pa.types.is_interval(column.type):
        return [None if value is None else _difference(value) for value in values]
    return values


def _difference(interval: Any) -> timedelta:
    """What DuckDB counts in months, days and the rest; a month is thirty days, as it is there."""
    return timedelta(
        days=30 * interval.months + interval.days, microseconds=interval.nanoseconds // 1000
    )
