"""Runs and their tasks, as published."""

from shlex import quote

from servo.core.keys import place_of
from servo.core.partitions import shown_partition
from servo.core.state.rows.assets import CheckResultRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.projection.partitions.asset_names import find_asset
from servo.projection.read.lookup import Lookup
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


def waiting_words(row: RunRow) -> str:
    """That a run waits for somebody who has its code, and how to go on with it."""
    place = quote(row.location)
    told = f"{row.run_id} waits for a worker of location {row.location}"
    return f"{told}: `servo resume {place}` finishes it"


def failure_shown(row: CheckResultRow) -> str:
    """That a check failed, and how bad that is."""
    return f"failed ({row.severity.value.lower()}{', blocking' if row.blocking else ''})"
