"""What rows say that is not all stored in them.

**Edges.** How an edge was resolved follows from how the task above it ended, so ending a task
writes none of the edges below it: it has as many as there are tasks that wait for it. The row of an
edge stays as it was planned, and what it says is read off the row of the task. A task that changes
after its end (a late report) has its edges written first, so that they keep saying when it ended.

**Partitions.** Wiping an asset must not cost what it has partitions, so it changes one row: that of
the asset, in `wiped_seq`. The row of a partition stays as it is stored, and counts as wiped if it
was last changed before. A reader of what was published applies the same rule.

`rows` are those of a state as everybody is to see them, and `changed` those that have yet to be
published: edges are published as they are seen, partitions as they are stored.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from servo.core.state.index import EdgePk
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.execution import DepSatisfactionRow, TaskRow
from servo.core.state.rows.row import Row
from servo.core.state.state import State
from servo.core.state.states import (
    CANCELLED,
    FAILED,
    SKIPPED,
    SUCCEEDED,
    TERMINAL_TASK_STATES,
    Resolution,
    TaskState,
)

EDGES = "dep_satisfaction"
PARTITIONS = "partition_status"

RESOLUTION: Mapping[TaskState, Resolution] = MappingProxyType(
    {
        SUCCEEDED: Resolution.SUCCESS,
        FAILED: Resolution.FAILED,
        SKIPPED: Resolution.SKIPPED,
        CANCELLED: Resolution.CANCELLED,
    }
)


def rows(state: State, table: str) -> Iterable[Row]:
    """The rows of a table that are in memory, as everybody is to see them."""
    if table == PARTITIONS:
        return [partition_status(state, row) for row in state.partitions.values()]
    if table == EDGES:
        return [edge(state, row) for row in state.edges.values()]
    return state.tables[table].values()


def changed(state: State, table: str) -> dict[Any, Any]:
    """The rows of a table to be published next, by key; None for one that was dropped."""
    dirty = state.tables[table].dirty
    if table != EDGES:
        return dirty
    ended = [row for row in state.tasks.dirty.values() if row and row.state in RESOLUTION]
    return {**dirty, **{key: row for task in ended for key, row in edges_below(state, task)}}


# --- edges ----------------------------------------------------------------------------------------


def edge(state: State, row: DepSatisfactionRow) -> DepSatisfactionRow:
    """The row of an edge, resolved if the task above it has ended."""
    if row.resolution is not None:
        return row
    above = state.tasks.rows.get((row.run_id, row.upstream_task_key))
    if above is None or above.state not in TERMINAL_TASK_STATES:
        return row
    return _resolved(row, above)


def edges_below(state: State, ended: TaskRow) -> Iterator[tuple[EdgePk, DepSatisfactionRow]]:
    """The edges below a task that has ended, as it resolved them."""
    run_id, name = ended.run_id, ended.task_key
    for dependant in state.index.downstream.get((run_id, name), ()):
        key = (run_id, name, dependant)
        row = state.edges.rows[key]
        if row.resolution is None:
            yield key, _resolved(row, ended)


def _resolved(row: DepSatisfactionRow, above: TaskRow) -> DepSatisfactionRow:
    return replace(
        row,
        resolution=RESOLUTION[above.state],
        satisfied=above.state is SUCCEEDED,
        satisfied_at=above.finished_at,
        satisfying_attempt=above.attempt,
        row_version=above.row_version,
    )


# --- partitions -----------------------------------------------------------------------------------


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
        last_content_hash="",
        last_data_version="",
        stale_since=None,
        stale_reason_code=None,
        latest_floor=seq,
        row_version=seq,
    )
