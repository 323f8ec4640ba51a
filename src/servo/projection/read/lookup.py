"""The few rows of a table that have certain values, found in Arrow before any becomes a row.

A table is read and merged once, however often it is asked; only what matches is made into rows, so
a question costs what it finds and not what there is. Of a question that names the first part of the
key, such as the run of a task, only the files and groups of rows that can hold it are read.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Generic, TypeVar

import msgspec

from servo.core.state.rows.row import Row
from servo.core.state.tables import TABLES, TableSpec
from servo.errors import Invalid, NotFound
from servo.projection.files.arrow import ArrowColumn, ArrowTable, pa, pc
from servo.projection.files.parquet import to_rows
from servo.projection.files.schema import VERSION, schema
from servo.projection.read.reader import Snapshot

R = TypeVar("R", bound=Row)

_SPECS = {spec.row: spec for spec in TABLES.values()}


DEFAULT_LIMIT = 50
MAX_LIMIT = 500


def check_limit(limit: int) -> None:
    """`Invalid` if no page may have this size."""
    if not 1 <= limit <= MAX_LIMIT:
        raise Invalid(f"invalid limit: {limit}", remedy=f"use a whole number from 1 to {MAX_LIMIT}")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The newest `limit` rows, or the newest ones older than the row `before`."""

    limit: int = DEFAULT_LIMIT
    before: str | None = None

    def __post_init__(self) -> None:
        check_limit(self.limit)


class Paged(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """The rows of one page, and the name to go on before if there are older ones."""

    rows: list[R]
    older: str | None = None


class Lookup:
    """Rows of one snapshot by the values of their columns."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._tables: dict[tuple[str, str | None], ArrowTable] = {}

    def rows(self, table: str, *, most: int | None = None, **where: str) -> list[Row]:
        """The rows whose columns have these values, or hold them in a list, newest change first."""
        found = self._matching(table, where)
        order = pc.sort_indices(found, sort_keys=[(VERSION, "descending")])
        chosen = order if most is None else order.slice(0, most)
        return to_rows(TABLES[table], found.take(chosen))

    def all(self, kind: type[R], **where: str) -> list[R]:
        """The same of the table whose rows are of this kind, as they come."""
        return _of(kind, self._matching(_SPECS[kind].name, where))

    def any(self, kind: type[R], column: str, values: Sequence[str]) -> list[R]:
        """The rows in which a column has one of these values."""
        found = self._matching(_SPECS[kind].name, {})
        wanted = pa.array(values, found.column(column).type)
        return _of(kind, found.filter(pc.is_in(found.column(column), value_set=wanted)))

    def beginning(self, kind: type[R], column: str, text: str) -> list[R]:
        """The rows in which a column begins like this."""
        found = self._matching(_SPECS[kind].name, {})
        return _of(kind, found.filter(pc.starts_with(found.column(column), text)))

    def page(
        self, kind: type[R], page: Page, *, name: str, newest: Sequence[str] = (), **where: str
    ) -> Paged[R]:
        """One page of the rows that match, newest first by the columns `newest`.

        `name` is the column by whose values pages begin. A page that begins before a row stays the
        same page, however many newer ones there are by then.
        """
        spec = _SPECS[kind]
        found = self._matching(spec.name, where)
        keys = dict.fromkeys((*newest, VERSION, name))
        order = pc.sort_indices(found, sort_keys=[(key, "descending") for key in keys])
        start = 0 if page.before is None else _after(found.column(name).take(order), page.before)
        chosen = found.take(order.slice(start, page.limit))
        more = start + page.limit < len(order)
        last = str(chosen.column(name)[-1].as_py()) if more else None
        return Paged(rows=_of(kind, chosen), older=last)

    def values(self, table: str, column: str, **where: str) -> list[str]:
        """What a column holds in those rows, nulls left out."""
        return self._matching(table, where).column(column).drop_null().to_pylist()

    def _matching(self, table: str, where: Mapping[str, str]) -> ArrowTable:
        found = self._read(table, where.get(_first_of(table)))
        for column, value in where.items():
            found = found.filter(_has(found.column(column), value))
        return found

    def _read(self, table: str, first: str | None) -> ArrowTable:
        """A table, or what it has of keys whose first part is this."""
        if (table, None) in self._tables:
            first = None
        if (table, first) not in self._tables:
            snapshot = self._snapshot
            self._tables[table, first] = (
                snapshot.table(table) if first is None else snapshot.table_of(table, first)
            )
        return self._tables[table, first]


@cache
def _first_of(table: str) -> str:
    """The first column of a key that has several, if it is a string; none otherwise."""
    spec = TABLES[table]
    is_text = schema(spec.row, spec.key).field(spec.key[0]).type == pa.string()
    return spec.key[0] if is_text and len(spec.key) > 1 else ""


def _of(kind: type[R], found: ArrowTable) -> list[R]:
    spec: TableSpec = _SPECS[kind]
    return [row for row in to_rows(spec, found) if isinstance(row, kind)]


def _after(names: ArrowColumn, before: str) -> int:
    """The place behind the row of this name."""
    place: int = pc.index(pc.cast(names, pa.string()), before).as_py()
    if place < 0:
        raise NotFound(
            f"{before!r} is not in the list",
            remedy="pass the cursor from the previous page",
        )
    return place + 1


def _has(column: ArrowColumn, value: str) -> ArrowColumn:
    """Which rows of a column have a value, or have it in their list."""
    if not pa.types.is_list(column.type):
        return pc.equal(column, pa.scalar(str(value)).cast(column.type))
    column = column.combine_chunks()
    holders = pc.list_parent_indices(column).filter(pc.equal(pc.list_flatten(column), str(value)))
    return pc.is_in(pa.array(range(len(column)), holders.type), value_set=holders)
