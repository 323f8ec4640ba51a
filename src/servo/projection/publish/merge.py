"""Merging files of one table into one.

All inputs are sorted by key, so they are read side by side, a row group at a time: a window of
keys is taken from each, the newest version of every key in it is kept, and the window is written.
Memory holds the inputs' bytes and one window, never all rows.

Nothing is decided here that another process could decide otherwise: the inputs are immutable, the
result is a new object, and only the next manifest puts it in their place. A
crash at any point leaves an object that no manifest refers to, which is collected later.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from servo.core.manifest import FileEntry, Tier
from servo.core.state.tables import TABLES, TableSpec
from servo.projection.files.arrow import ArrowSchema, ArrowTable, pa, pc, pq
from servo.projection.files.parquet import conform, parsing
from servo.projection.files.schema import DELETED, VERSION, stored_schema
from servo.projection.files.segment import RowKey, RowKeys, Segment, SegmentWriter, key_at
from servo.projection.publish.tiering import MergePlan
from servo.projection.read.newest import marked, newest, ranked


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge replaces, and its result; None if no row was left."""

    table: str
    tier: Tier
    inputs: frozenset[str]
    output: FileEntry | None


def merge_files(plan: MergePlan, inputs: Sequence[bytes]) -> Segment | None:
    """One file in place of several; `inputs` are the checked bytes of the plan's, in its order."""
    spec = TABLES[plan.table]
    cursors = [
        _Cursor(spec, data, file.key) for data, file in zip(inputs, plan.inputs, strict=True)
    ]
    buried = any(file.tombstones for file in plan.inputs)
    schema = _schema(spec, cursors, buried=buried)
    writer = SegmentWriter(
        spec,
        schema,
        capacity=sum(file.rows for file in plan.inputs),
        index=spec.indexed and plan.tier is Tier.CLOSED,
    )
    for window in _windows(cursors):
        kept = newest(spec, [ranked(table, plan.tier) for table in window])
        if buried:
            kept = _needed(kept, plan.floor)
        writer.add(_aligned(kept, schema))
    return writer.finish()


def _needed(table: ArrowTable, floor: int | None) -> ArrowTable:
    """Without the tombstones that hide nothing outside this merge."""
    deleted = table.column(DELETED)
    if floor is None:
        return table.filter(pc.invert(deleted))
    useless = pc.and_(deleted, pc.less(table.column(VERSION), pa.scalar(floor, pa.int64())))
    return table.filter(pc.invert(useless))


def _schema(spec: TableSpec, cursors: Sequence["_Cursor"], *, buried: bool) -> ArrowSchema:
    """Today's columns and whatever newer ones an input has; the mark of tombstones last."""
    merged = pa.unify_schemas([stored_schema(spec.row, spec.key), *(c.schema for c in cursors)])
    names = [name for name in merged.names if name != DELETED] + [DELETED] * buried
    return pa.schema([merged.field(name) for name in names])


def _aligned(table: ArrowTable, schema: ArrowSchema) -> ArrowTable:
    """The columns of `schema`; one that no input of this window had is null."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names)


class _Cursor:
    """One input, read a row group at a time."""

    def __init__(self, spec: TableSpec, data: bytes, what: str) -> None:
        self._spec = spec
        self._what = what
        self._next = 0
        self._rows: ArrowTable = None
        with parsing(what):
            self._file = pq.ParquetFile(pa.BufferReader(data))
            self._count: int = self._file.metadata.num_row_groups
            self.schema = marked(conform(spec, self._file.schema_arrow.empty_table())).schema

    @property
    def more(self) -> bool:
        """Whether there are rows behind those at hand."""
        return self._next < self._count

    def fill(self) -> bool:
        """Have rows at hand; False if there are none left."""
        while (self._rows is None or not self._rows.num_rows) and self.more:
            with parsing(self._what):
                table = self._file.read_row_group(self._next, use_threads=False)
            self._rows = marked(conform(self._spec, table)).combine_chunks()
            self._next += 1
        return self._rows is not None and self._rows.num_rows > 0

    @property
    def last_key(self) -> RowKey:
        return key_at(self._spec, self._rows, self._rows.num_rows - 1)

    def take(self, bound: RowKey | None) -> ArrowTable:
        """The rows at hand up to and with the key `bound`; they are at hand no more."""
        table = self._rows
        count = table.num_rows if bound is None else bisect_right(RowKeys(self._spec, table), bound)
        self._rows = table.slice(count)
        return table.slice(0, count)


def _windows(cursors: Sequence[_Cursor]) -> Iterator[list[ArrowTable]]:
    """Tables of successive ranges of keys: every version of a key is in one window."""
    while holding := [cursor for cursor in cursors if cursor.fill()]:
        # What comes after the rows at hand has keys above the last of them, so up to the least
        # such last key everything is at hand.
        bound = min((cursor.last_key for cursor in holding if cursor.more), default=None)
        yield [cursor.take(bound) for cursor in holding]
