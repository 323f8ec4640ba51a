"""Of several versions of a row, the one that counts.

The greatest `row_version` of a key wins. At equal versions a tombstone beats the row it was
written for, and in a reader's view of both tiers a closed row beats the tombstone that the move
to the closed tier left in the active one. Every order used here is the order of UTF-8 bytes, which
is also Python's order of strings.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

from servo.core.manifest import Tier
from servo.core.state.tables import TableSpec
from servo.projection.files.arrow import ArrowColumn, ArrowTable, pa, pc
from servo.projection.files.schema import DELETED, VERSION, constant, deleted_field

RANK = "_rank"


def marked(table: ArrowTable) -> ArrowTable:
    """The table with a column that tells rows from tombstones."""
    if DELETED in table.column_names:
        return table
    return table.append_column(deleted_field(), constant(False, pa.bool_(), table.num_rows))


def ranked(table: ArrowTable, tier: Tier) -> ArrowTable:
    """The table with what decides between equal versions."""
    rank = pc.cast(table.column(DELETED), pa.int8())
    if tier is Tier.CLOSED:
        rank = pc.add(rank, pa.scalar(2, pa.int8()))
    return table.append_column(RANK, rank)


def newest(spec: TableSpec, tables: Sequence[ArrowTable], *, in_order: bool = True) -> ArrowTable:
    """One row or tombstone per key, from ranked tables, older tables first.

    Sorted by key if `in_order`; without it a large table of which every row counts is not copied.
    """
    table = pa.concat_tables(tables, promote_options="default")
    if table.num_rows > 1:
        winners = _winners(spec, table)
        if in_order or len(winners) < table.num_rows:
            table = table.take(winners)
    return table.drop_columns([RANK])


def newest_of_sorted(spec: TableSpec, tables: Sequence[ArrowTable]) -> ArrowTable:
    """The same, in no particular order, from tables that are sorted by key and have each key once.

    Files are so. Where each of them ends before the next one begins, nothing has to be decided.
    """
    held = _apart(spec, [table for table in tables if table.num_rows])
    if held is None:
        return newest(spec, tables, in_order=False)
    return pa.concat_tables(held or tables[:1], promote_options="default").drop_columns([RANK])


def _apart(spec: TableSpec, tables: Sequence[ArrowTable]) -> list[ArrowTable] | None:
    """The tables in the order of their keys; None if the keys of two of them mingle."""
    ends = [
        (_key_at(spec, table, 0), _key_at(spec, table, table.num_rows - 1), place)
        for place, table in enumerate(tables)
    ]
    ends.sort()
    if any(one[1] >= other[0] for one, other in pairwise(ends)):
        return None
    return [tables[place] for _, _, place in ends]


def _key_at(spec: TableSpec, table: ArrowTable, row: int) -> tuple[str | int, ...]:
    return tuple([table.column(name)[row].as_py() for name in spec.key])


def _winners(spec: TableSpec, table: ArrowTable) -> ArrowColumn:
    names = [*spec.key, VERSION, RANK]
    order = pc.sort_indices(table.select(names), sort_keys=[(name, "ascending") for name in names])
    count = table.num_rows - 1
    keys = [table.column(name).take(order).combine_chunks() for name in spec.key]
    differs = [pc.not_equal(key.slice(0, count), key.slice(1)) for key in keys]
    is_last = pa.concat_arrays([reduce(pc.or_, differs), constant(True, pa.bool_(), 1)])
    return order.filter(is_last)
