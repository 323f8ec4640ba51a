"""SQL over one snapshot, by DuckDB.

Every table of the projection is a view of its name, merged: one row per key, the newest. A table
is read when a query scans it and not before, so a question about runs does not fetch the tasks.

What is stored of assets is in the schema `data`, under the key of each or, where no other key ends
alike, its last part: data."shop/orders" or data.orders. Only what the text names is read.

Nothing can be changed and nothing outside can be reached: one statement that reads, no files, no
network, no extensions, no variables of this process, and no setting that would allow any of it.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

import msgspec

from servo.core.state.tables import TABLES
from servo.errors import Conflict, Invalid, NotFound, ServoError
from servo.projection.files.arrow import ArrowColumn, ArrowTable, pa
from servo.projection.files.schema import schema
from servo.projection.read.reader import Snapshot

_CONFIG = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
DATA = "data"
_NAMED = re.compile(r'(?i)\b"?data"?\s*\.\s*(?:"((?:[^"]|"")+)"|([a-z_]\w*))')
_ABSENT = re.compile(r"Table with name (.+?) does not exist")
_READING = frozenset({"SELECT", "EXPLAIN"})


class QueryResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a query returned.

    Instants are aware, in UTC; differences of them are timedeltas; maps are dicts, lists lists.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class DataSource(Protocol):
    """What is stored of assets."""

    def names(self) -> list[str]:
        """Every asset that is known."""
        ...

    def table(self, name: str) -> ArrowTable:
        """The data of the asset that is called this; an error that says why there is none."""
        ...


def query(snapshot: Snapshot, sql: str, data: DataSource | None = None) -> QueryResult:
    """Run one statement that reads; `Invalid` with DuckDB's words if it cannot be run."""
    with _connection() as connection:
        views = {name: _View(snapshot, name) for name in TABLES}
        for name, view in views.items():
            connection.register(name, view)
        missing = _add_data(connection, sql, data) if data is not None else {}
        try:
            table = connection.sql(_statement(connection, sql)).to_arrow_table()
        except _errors() as error:
            # DuckDB wraps what a view raised into its own words: the cause says more.
            known = _first_failure(views) or _absent(error, missing, data)
            raise known or _refused(error) from None
        return QueryResult(columns=tuple(table.column_names), rows=_rows(table))


# The form for people of a partition key, as `PartitionKey.display` has it.
_SHOWN_PARTITION = r"""
    CREATE MACRO shown_partition(key) AS array_to_string(
        [
            CASE WHEN contains(key, ',') THEN part.name || '=' ELSE '' END
            || CASE part.tag
                WHEN 's' THEN decode(from_base64(rpad(
                    translate(part.body, '-_', '+/'), ((length(part.body) + 3) // 4 * 4)::INT, '='
                )))
                WHEN 't' THEN replace(part.body, '.000000Z', 'Z')
                ELSE part.body
            END
            FOR part IN [
                regexp_extract(
                    item, '^([a-z][a-z0-9_]*)=([sibdtn]):(.*)$', ['name', 'tag', 'body']
                )
                FOR item IN string_split(key, ',')
            ]
        ],
        ','
    )
"""


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


def _add_data(connection: Any, sql: str, data: DataSource) -> dict[str, ServoError]:
    """A view for all data that the text may mean; why there is none, where there is none.

    The text may mention more than it reads, in a string or as a column: what cannot be had is told
    only if the statement then fails for the want of it.
    """
    found = dict.fromkeys(whole.replace('""', '"') or part for whole, part in _NAMED.findall(sql))
    missing: dict[str, ServoError] = {}
    _ = connection.execute(f"CREATE SCHEMA {DATA}") if found else None
    for place, name in enumerate(found):
        try:
            connection.register(f"{DATA}_{place}", data.table(name))
        except (NotFound, Conflict, Invalid) as error:
            missing[name.lower()] = error
            continue
        quoted = name.replace('"', '""')
        view = f'CREATE OR REPLACE VIEW {DATA}."{quoted}" AS FROM temp.{DATA}_{place}'
        _ = connection.execute(view)
    return missing


def _absent(
    error: Exception, missing: dict[str, ServoError], data: DataSource | None
) -> ServoError | None:
    """Why a table that a statement names is not there, if it was meant to be an asset's."""
    named = _ABSENT.search(str(error))
    if named is None or data is None:
        return None
    name = named[1]
    if name.lower() in missing:
        return missing[name.lower()]
    known = [key for key in data.names() if name in (key, key.rpartition("/")[2])]
    if not known:
        return None
    plain = f"{DATA}.{name}" if name.isidentifier() else f'{DATA}."{name}"'
    return NotFound(f"there is no table {name}", remedy=f"the data of the asset is {plain}")


@contextmanager
def _connection() -> Generator[Any]:
    connection = import_module("duckdb").connect(config=_CONFIG)
    try:
        _ = connection.execute("SET TimeZone = 'UTC'")
        _ = connection.execute(_SHOWN_PARTITION)
        _ = connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        # Also what keeps the library from complaining about leaks when the process ends.
        connection.close()


def _statement(connection: Any, sql: str) -> Any:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise Invalid(
            f"expected one statement, got {len(statements)}",
            remedy='use one, such as "select * from runs"',
        )
    kind: str = statements[0].type.name
    if kind not in _READING:
        raise Invalid(
            f"{kind} statements are not allowed: the tables are read only",
            remedy="use a SELECT; a workspace is changed by commands, not by SQL",
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
