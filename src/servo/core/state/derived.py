"""What rows say that is not all stored in them.

Wiping an asset must not cost what it has partitions, so it changes one row: that of the asset, in
`wiped_seq`. The row of a partition stays as it is stored, and counts as wiped if it was last
changed before. Whoever reads one looks at both: the fold through `partition_status`, a reader of
what was published by the same rule.

`rows` are those of a state as everybody is to see them.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.row import Row
from servo.core.state.state import State


def partition_status(state: State, row: PartitionStatusRow) -> PartitionStatusRow:
    """The row of a partition after the last wipe of its whole asset."""
    asset = state.assets.rows.get(row.asset_key)
    if asset is None or row.row_version >= asset.wiped_seq:
        return row
    return wiped(row, asset.wiped_seq)


def wiped(row: PartitionStatusRow, seq: int) -> PartitionStatusRow:
    """The row of a partition of which nothing produced before `seq` is the latest any more."""
    return replace(
        row,
        last_materialization_id=None,
        last_materialization_run_id=None,
        last_materialization_at=None,
        last_materialization_seq=None,
        last_materialization_code_version=None,
        last_output_uri="",
        last_data_version="",
        stale_since=None,
        stale_reason_code=None,
        latest_floor=seq,
        row_version=seq,
    )


def rows(state: State, table: str) -> Iterable[Row]:
    """The rows of a table that are in memory, as everybody is to see them."""
    if table == "partition_status":
        return [partition_status(state, row) for row in state.partitions.values()]
    return state.tables[table].values()
