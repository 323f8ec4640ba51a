"""Runs and their tasks, as published."""

from collections.abc import Iterable

from servo.cli.output import plural
from servo.core.keys import place_of
from servo.core.state.rows.assets import MaterializationRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TaskState
from servo.errors import Conflict, NotFound
from servo.projection.reader import Snapshot
from servo.worker.instance_records import shown_partition


def place_shown(asset_key: str, partition_key: str | None) -> str:
    """An asset, or a partition of it, as people read it."""
    return place_of(asset_key, shown_partition(partition_key))


def all_runs(snapshot: Snapshot) -> list[RunRow]:
    """Every run, newest first."""
    rows = [row for row in snapshot.rows("runs") if isinstance(row, RunRow)]
    return sorted(rows, key=lambda row: row.created_at, reverse=True)


def run_and_tasks(snapshot: Snapshot, run_id: str) -> tuple[RunRow, list[TaskRow]]:
    row = find(all_runs(snapshot), run_id)
    rows = [task for task in snapshot.rows("tasks") if isinstance(task, TaskRow)]
    mine = [task for task in rows if task.run_id == row.run_id]
    return row, sorted(mine, key=lambda task: (task.state is not TaskState.FAILED, task.task_key))


def outputs_of(snapshot: Snapshot, run_id: str) -> list[MaterializationRow]:
    """What a run made, in the order it did."""
    rows = snapshot.rows("materializations")
    made = [row for row in rows if isinstance(row, MaterializationRow) and row.run_id == run_id]
    return sorted(made, key=lambda row: row.created_seq)


def find(rows: Iterable[RunRow], run_id: str) -> RunRow:
    """The run whose id begins like this."""
    found = [row for row in rows if row.run_id.startswith(run_id)]
    exact = [row for row in found if row.run_id == run_id]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise NotFound(f"there is no run {run_id}", remedy="see `servo run list`")
    raise Conflict(f"{plural(len(found), 'run')} begin with {run_id}", remedy="give more of the id")
