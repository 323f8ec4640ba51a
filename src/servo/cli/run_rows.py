"""Runs and their tasks, as published."""

from collections.abc import Sequence
from shlex import quote

from servo.cli.output import plural
from servo.core.keys import place_of
from servo.core.partitions import shown_partition
from servo.core.state.rows.assets import CheckResultRow, MaterializationRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import RunState, TaskState
from servo.errors import Conflict, NotFound
from servo.projection.partitions.asset_names import find_asset
from servo.projection.read.lookup import Lookup, Page, Paged
from servo.projection.read.reader import Snapshot


def place_shown(asset_key: str, partition_key: str | None) -> str:
    """An asset, or a partition of it, as people read it."""
    return place_of(asset_key, shown_partition(partition_key))


def task_shown(task_key: str) -> str:
    """A task as people read it."""
    place, _, operation = task_key.rpartition(":")
    asset, _, partition = place.partition("[")
    return f"{place_shown(asset, partition.removesuffix(']') or None)}:{operation}"


def maker_in(snapshot: Snapshot, run_id: str, text: str) -> str:
    """The asset whose tasks make what `text` names, in this run; `NotFound` if it makes none."""
    tasks = Lookup(snapshot).all(TaskRow, run_id=run_id)
    makers = {key: task.asset_key for task in tasks for key in (task.asset_key, *task.also_makes)}
    return makers[find_asset(makers, text)]


def newest_runs(snapshot: Snapshot, page: Page) -> Paged[RunRow]:
    """A page of runs, newest first."""
    return Lookup(snapshot).page(RunRow, page, name="run_id", newest=("created_at",))


def run_and_tasks(snapshot: Snapshot, run_id: str) -> tuple[RunRow, list[TaskRow]]:
    """A run and its tasks, those that failed first."""
    lookup = Lookup(snapshot)
    row = find_run(lookup, run_id)
    tasks = lookup.all(TaskRow, run_id=row.run_id)
    return row, sorted(tasks, key=lambda task: (task.state is not TaskState.FAILED, task.task_key))


def waiting_words(row: RunRow) -> str:
    """That a run waits for somebody who has its code, and how to go on with it."""
    place = quote(row.location)
    told = f"{row.run_id} waits for a worker of location {row.location}"
    return f"{told}: `servo resume {place}` finishes it"


def waiting_runs(snapshot: Snapshot, rows: Sequence[RunRow]) -> list[RunRow]:
    """Those of some runs that could go on and of which nothing runs: nobody has their code."""
    lookup = Lookup(snapshot)
    open_ = [row for row in rows if row.location and row.state is RunState.RUNNING]
    return [row for row in open_ if _waits(lookup.values("tasks", "state", run_id=row.run_id))]


def _waits(states: Sequence[str]) -> bool:
    return TaskState.READY in states and not {TaskState.DISPATCHED, TaskState.RUNNING} & {*states}


def outputs_of(snapshot: Snapshot, run_id: str) -> list[MaterializationRow]:
    """What a run made, in the order it did."""
    made = Lookup(snapshot).all(MaterializationRow, run_id=run_id)
    return sorted(made, key=lambda row: row.created_seq)


def failed_checks(snapshot: Snapshot, run_id: str) -> list[CheckResultRow]:
    """The checks of a run that did not pass the last time they were made, by what they are of."""
    found = Lookup(snapshot).all(CheckResultRow, run_id=run_id)
    last = {
        (row.asset_key, row.partition_key or "", row.check_name): row
        for row in sorted(found, key=lambda row: row.evaluated_at)
    }
    return [last[key] for key in sorted(last) if not last[key].passed]


def failure_shown(row: CheckResultRow) -> str:
    """That a check failed, and how bad that is."""
    return f"failed ({row.severity.value.lower()}{', blocking' if row.blocking else ''})"


def find_run(lookup: Lookup, run_id: str) -> RunRow:
    """The run whose id begins like this."""
    found = lookup.beginning(RunRow, "run_id", run_id)
    exact = [row for row in found if row.run_id == run_id]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise NotFound(f"there is no run {run_id}", remedy="see `servo run list`")
    raise Conflict(f"{plural(len(found), 'run')} begin with {run_id}", remedy="give more of the id")
