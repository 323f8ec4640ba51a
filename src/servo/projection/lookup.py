"""The few rows of a table that have certain values, found in Arrow before any becomes a row.

A table is read and merged once, however often it is asked; only what matches is made into rows, so
a question costs what it finds and not what there is.
"""

from collections.abc import Mapping

from servo.core.state.rows.row import Row
from servo.core.state.tables import TABLES
from servo.projection.arrow import ArrowColumn, ArrowTable, pa, pc
from servo.projection.parquet import to_rows
from servo.projection.reader import Snapshot
from servo.projection.schema import VERSION


class Lookup:
    """Rows of one snapshot by the values of their columns."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._tables: dict[str, ArrowTable] = {}

    def rows(self, table: str, *, most: int | None = None, **where: str) -> list[Row]:
        """The rows whose columns have these values, or hold them in a list, newest change first."""
        found = self._matching(table, where)
        order = pc.sort_indices(found, sort_keys=[(VERSION, "descending")])
        chosen = order if most is None else order.slice(0, most)
        return to_rows(TABLES[table], found.take(chosen))

    def values(self, table: str, column: str, **where: str) -> list[str]:
        """What a column holds in those rows, nulls left out."""
        return self._matching(table, where).column(column).drop_null().to_pylist()

    def _matching(self, table: str, where: Mapping[str, str]) -> ArrowTable:
        if table not in self._tables:
            self._tables[table] = self._snapshot.table(table)
        found = self._tables[table]
        for column, value in where.items():
            found = found.filter(_has(found.column(column), value))
        return found


def _has(column: ArrowColumn, value: str) -> ArrowColumn:
    """Which rows of a column have a value, or have it in their list."""
    if not pa.types.is_list(column.type):
        return pc.equal(column, pa.scalar(str(value)).cast(column.type))
    column = column.combine_chunks()
    holders = pc.list_parent_indices(column).filter(pc.equal(pc.list_flatten(column), str(value)))
    return pc.is_in(pa.array(range(len(column)), holders.type), value_set=holders)
