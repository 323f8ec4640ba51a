"""Assets, tasks and checks as people read them."""

from shlex import quote

from servo.core.keys import place_of
from servo.core.partitions import shown_partition
from servo.core.state.rows.assets import CheckResultRow
from servo.core.state.rows.execution import RunRow


def place_shown(asset_key: str, partition_key: str | None) -> str:
    """An asset, or a partition of it, as people read it."""
    return place_of(asset_key, shown_partition(partition_key))


def task_shown(task_key: str) -> str:
    """A task as people read it."""
    place, _, operation = task_key.rpartition(":")
    asset, _, partition = place.partition("[")
    return f"{place_shown(asset, partition.removesuffix(']') or None)}:{operation}"


def waiting_words(row: RunRow) -> str:
    """That a run waits for a worker that has its code, and how to go on with it."""
    told = f"{row.run_id} is waiting for a worker of location {row.location}"
    return f"{told}: start one with `servo resume {quote(row.location)}`"


def failure_shown(row: CheckResultRow) -> str:
    """That a check failed, and how bad that is."""
    return f"failed ({row.severity.value.lower()}{', blocking' if row.blocking else ''})"
