"""How findings format times, durations, names and lists."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from servo.core.keys import TaskOperation
from servo.core.partitions import PartitionKey
from servo.core.state.rows.execution import TaskRow
from servo.errors import Invalid

MOST_NAMED = 5

_SECOND = timedelta(seconds=1)
_HALF = timedelta(milliseconds=500)
_UNITS = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "min"),
)


def instant(when: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{when:%Y-%m-%d %H:%M:%S}Z"


def span(length: timedelta) -> str:
    """An approximate duration: in the largest unit of which there are two, or in seconds."""
    length = (length + _HALF) // _SECOND * _SECOND
    for unit, name in _UNITS:
        if length >= 2 * unit:
            return f"{length // unit} {name}"
    return f"{length // _SECOND} s"


def due(when: datetime, now: datetime) -> str:
    """A time, and how far away it is."""
    if when >= now:
        return f"{instant(when)}, in {span(when - now)}"
    return ago(when, now)


def ago(when: datetime, now: datetime) -> str:
    """A time, and how long ago it was."""
    return f"{instant(when)}, {span(max(now - when, timedelta(0)))} ago"


def plural(count: int, one: str, many: str = "") -> str:
    """A count and its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Some names, and how many there are beyond those."""
    shown = list(names[:most])
    left = len(names) - len(shown)
    if left:
        return f"{', '.join(shown)} and {left:,} more"
    if len(shown) > 1:
        return f"{', '.join(shown[:-1])} and {shown[-1]}"
    return "".join(shown)


def partition(key: str) -> str:
    """A partition as people read it; as it is stored if it is not in canonical form."""
    try:
        return PartitionKey.parse(key).display()
    except Invalid:
        return key


def place(asset_key: str, partition_key: str | None) -> str:
    """An asset, or one of its partitions, as `servo why` takes it."""
    return asset_key if partition_key is None else f"{asset_key}:{partition(partition_key)}"


def task(row: TaskRow) -> str:
    """What a task makes, and what it does if that is not making."""
    name = place(row.asset_key, row.partition_key) if row.asset_key else row.task_key
    if not row.asset_key or row.operation is TaskOperation.MATERIALIZE:
        return name
    return f"the {row.operation.value} of {name}"
