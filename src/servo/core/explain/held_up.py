"""The task of a run that could long have run, and does not."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TaskState

PATIENCE = timedelta(seconds=2)
_COULD_RUN = (TaskState.READY, TaskState.DISPATCHED)
_ACTIVE = (TaskState.RUNNING, TaskState.RETRY_WAIT)


def held_up(tasks: Sequence[TaskRow], now: datetime) -> TaskRow | None:
    """The task that has been ready for longest, if a limit or a missing worker holds up the run.

    None while any task of the run is active, or if none has been ready for long.
    """
    if any(task.state in _ACTIVE for task in tasks):
        return None
    ready = [task for task in tasks if task.ready_at and task.state in _COULD_RUN]
    first = min(ready, key=lambda task: (task.ready_at or now, task.task_key), default=None)
    late = first is not None and first.ready_at and now - first.ready_at >= PATIENCE
    return first if late else None
