"""Rows to Parquet and back.

`decode(encode(rows)) == rows` for every table. A file is sorted by primary key and holds rows and
tombstones: a tombstone is a key, the version it hides (that and every older one) and `_deleted`.
The caller has checked the bytes against their hash before anything here parses them.

Small files are many and short-lived, and zstd costs 25 microseconds a column to set up: they are
written with snappy, which halves the time to write and to read them. Neither kind gets
dictionaries (compression finds the repetitions too), and only large files get statistics.
"""

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import astuple

from servo.core.state.rows.row import Row
from servo.core.state.tables import TableSpec
from servo.errors import Corrupt
from servo.ledger.paths import Paths
from servo.projection.files.arrow import ArrowSchema, ArrowTable, pa, pc, pq
from servo.projection.files.schema import (
    DELETED,
    VERSION,
    Column,
    as_tuple,
    columns,
    constant,
    deleted_field,
    key_parts,
    stored_schema,
)

SMALL_ROWS = 2_048
GROUP_ROWS = 16_384

Tombstone = tuple[Any, int]


def encode(
    spec: TableSpec, rows: Sequence[Row], tombstones: Sequence[Tombstone], where: Paths
) -> bytes:
    """One Parquet file with `rows` and `tombstones` of one table."""
    table = to_table(spec, rows, tombstones, where)
    sink = pa.BufferOutputStream()
    with open_writer(sink, table.schema, rows=table.num_rows) as writer:
        writer.write_table(table, row_group_size=GROUP_ROWS)
    return sink.getvalue().to_pybytes()


def decode(spec: TableSpec, data: bytes) -> list[Row]:
    """The rows of a file, without its tombstones."""
    return to_rows(spec, live(read(data, what=f"a file of {spec.name}")))


# --- rows and Arrow tables ------------------------------------------------------------------------


def to_table(
    spec: TableSpec, rows: Sequence[Row], tombstones: Sequence[Tombstone], where: Paths
) -> ArrowTable:
    """Rows and tombstones as one Arrow table, sorted by primary key."""
    table = _rows_table(spec, sorted(rows, key=key_parts(spec)), where)
    if not tombstones:
        return table
    marked = table.append_column(deleted_field(), constant(False, pa.bool_(), len(rows)))
    both = pa.concat_tables([marked, _tombstones_table(spec, tombstones, where)])
    return both.sort_by([(name, "ascending") for name in spec.key]).combine_chunks()


def _rows_table(spec: TableSpec, rows: Sequence[Row], where: Paths) -> ArrowTable:
    fields = spec.row.__struct_fields__
    if rows:
        held = dict(zip(fields, zip(*map(astuple, rows), strict=True), strict=True))
    else:
        held = dict.fromkeys(fields, ())
    arrays = [column.to_arrow(held[column.name]) for column in columns(spec.row)]
    schema = stored_schema(spec.row, spec.key)
    return pa.Table.from_arrays([*_constants(where, len(rows)), *arrays], schema=schema)


def _tombstones_table(spec: TableSpec, tombstones: Sequence[Tombstone], where: Paths) -> ArrowTable:
    count = len(tombstones)
    parts = zip(*(as_tuple(key) for key, _ in tombstones), strict=True)
    held: dict[str, Any] = dict(zip(spec.key, parts, strict=True))
    held[VERSION] = [version for _, version in tombstones]
    nothing = [None] * count
    arrays = [column.to_arrow(held.get(column.name, nothing)) for column in columns(spec.row)]
    deleted = constant(True, pa.bool_(), count)
    schema = stored_schema(spec.row, spec.key).append(deleted_field())
    return pa.Table.from_arrays([*_constants(where, count), *arrays, deleted], schema=schema)


def _constants(where: Paths, count: int) -> list[Any]:
    return [constant(name, pa.string(), count) for name in (where.tenant, where.workspace)]


def to_rows(spec: TableSpec, table: ArrowTable) -> list[Row]:
    """The rows of an Arrow table that holds no tombstones."""
    names: list[str] = []
    values: list[list[Any]] = []
    present = frozenset(table.column_names)
    for column in columns(spec.row):
        if column.name in present:
            names.append(column.name)
            values.append(_values(spec, column, table))
        elif column.required:
            raise _unreadable(spec, f"it has no column {column.name}")
    row: type[Any] = spec.row
    return [row(**dict(zip(names, parts, strict=False))) for parts in zip(*values, strict=True)]


def _values(spec: TableSpec, column: Column, table: ArrowTable) -> list[Any]:
    name = column.name
    held = table.column(name)
    try:
        values = column.to_python(held)
    except (KeyError, msgspec.MsgspecError) as error:
        raise _unreadable(spec, f"column {name} holds {error}, which is not known") from None
    if held.null_count and not column.optional:
        if column.required:
            raise _unreadable(spec, f"column {name} has no value in some row")
        values = [column.default if value is None else value for value in values]
    return values


def _unreadable(spec: TableSpec, why: str) -> Corrupt:
    return Corrupt(
        f"a file of {spec.name} cannot be read: {why}",
        remedy="upgrade Servo to at least the version that wrote it, or rebuild the projection",
    )


# --- Arrow tables and bytes -----------------------------------------------------------------------


def read(data: bytes, *, what: str, only: Sequence[str] | None = None) -> ArrowTable:
    """A whole file as an Arrow table, or the columns `only` of it."""
    with parsing(what):
        file = pq.ParquetFile(pa.BufferReader(data))
        if only is not None:
            only = _present(file, only)
        return file.read(columns=only, use_threads=file.metadata.num_rows > GROUP_ROWS)


def read_where(
    data: bytes, column: str, value: str, *, what: str, only: Sequence[str]
) -> ArrowTable:
    """The columns `only` of the rows that have a value in a column by which a file is sorted.

    Row groups without the value are not read. Nor is the column, unless requested, in groups that
    hold only this value.
    """
    with parsing(what):
        file = pq.ParquetFile(pa.BufferReader(data))
        groups, alone = _groups_with(file.metadata, column, value)
        wanted = _present(file, only)
        if not alone:
            wanted = list(dict.fromkeys([*wanted, column]))
        threads = len(groups) > 1
        found = file.read_row_groups(groups, columns=wanted, use_threads=threads)
        if alone:
            return found
        return found.filter(pc.equal(found.column(column), value)).select(_present(file, only))


def _present(file: Any, names: Sequence[str]) -> list[str]:
    present = frozenset(file.schema_arrow.names)
    return [name for name in names if name in present]


def _groups_with(metadata: Any, column: str, value: str) -> tuple[list[int], bool]:
    """The groups of rows that may have a value, and whether they have no other."""
    place = next(
        at
        for at in range(metadata.num_columns)
        if metadata.row_group(0).column(at).path_in_schema == column
    )
    found: list[int] = []
    alone = True
    for group in range(metadata.num_row_groups):
        known: Any = metadata.row_group(group).column(place).statistics
        low, high = _ends_of(known)
        if low is None or high is None or low <= value <= high:
            found.append(group)
            alone = alone and low == value == high
    return found, alone


def _ends_of(statistics: Any) -> tuple[str | None, str | None]:
    """The least and the greatest value of a group; small files do not say."""
    if statistics is None or not statistics.has_min_max:
        return None, None
    return statistics.min, statistics.max


@contextmanager
def parsing(what: str) -> Generator[None]:
    """Turns what pyarrow raises on bytes it cannot read into `Corrupt`."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(
            f"{what} is not a Parquet file that can be read: {error}",
            remedy="rebuild the projection from the ledger",
        ) from None


def open_writer(sink: Any, schema: ArrowSchema, *, rows: int) -> Any:
    """A writer for a file of about `rows` rows."""
    small = rows <= SMALL_ROWS
    return pq.ParquetWriter(
        sink,
        schema,
        compression="snappy" if small else "zstd",
        use_dictionary=False,
        write_statistics=not small,
        store_schema=False,
    )


def live(table: ArrowTable) -> ArrowTable:
    """The rows of a table without its tombstones."""
    if DELETED not in table.column_names:
        return table
    return table.filter(pc.invert(table.column(DELETED))).drop_columns([DELETED])


def conform(
    spec: TableSpec, table: ArrowTable, *, only: Collection[str] | None = None
) -> ArrowTable:
    """A table as today's version would have written it, or the columns `only` of that.

    Columns it lacks get their defaults; columns that are not known here come last, untouched, so
    that an older leader merges a newer one's files without losing what it does not understand.
    """
    schema = stored_schema(spec.row, spec.key)
    if table.schema.equals(schema):
        return table
    wanted = [name for name in schema.names if only is None or name in only]
    for column in columns(spec.row):
        if column.name in wanted and column.name not in table.column_names:
            missing = column.to_arrow([column.default] * table.num_rows)
            table = table.append_column(column.name, missing)
    extra = [name for name in table.column_names if name not in wanted]
    return table.select([*wanted, *extra])
