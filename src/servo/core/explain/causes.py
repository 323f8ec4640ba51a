"""From a waiting or skipped task up to the first causes: the tasks that decide its fate.

A task waits for one that is running, failed, was skipped by its own code, or is held up by a limit;
the tasks in between only pass this on. The walk uses a list, so a chain of any length is followed
to its end.
"""

from collections import deque

import msgspec

from servo.core.explain.records import Records
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import Resolution, TaskState, TransitionReason

_WAITING = (TaskState.BLOCKED, TaskState.PLANNED)
_PASSED_ON = (
    TransitionReason.UPSTREAM_FAILED,
    TransitionReason.UPSTREAM_SKIPPED,
    TransitionReason.UPSTREAM_CANCELLED,
)


class Cause(msgspec.Struct, frozen=True):
    """A task that decides the fate of another, and the tasks in between, from the cause down."""

    task: TaskRow
    path: tuple[TaskRow, ...] = ()


def passes_on(task: TaskRow) -> bool:
    """Whether the state of a task only follows from its upstream tasks."""
    return task.state in _WAITING or task.reason in _PASSED_ON


def first_causes(records: Records, task: TaskRow) -> list[Cause]:
    """What a task waits for, or was skipped for, nearest first."""
    tasks, upstream = records.tasks(task.run_id), records.upstream(task.run_id)
    below: dict[str, TaskRow] = {}
    causes: list[Cause] = []
    queue = deque([task])
    while queue:
        lower = queue.popleft()
        for edge in upstream.get(lower.task_key, ()):
            upper = tasks.get(edge.upstream_task_key)
            passed = edge.resolution is Resolution.SUCCESS
            if passed or upper is None or upper.task_key in below:
                continue
            below[upper.task_key] = lower
            if passes_on(upper):
                queue.append(upper)
            else:
                causes.append(Cause(upper, _path(below, upper, task)))
    return causes


def _path(below: dict[str, TaskRow], upper: TaskRow, task: TaskRow) -> tuple[TaskRow, ...]:
    path: list[TaskRow] = []
    lower = below[upper.task_key]
    while lower.task_key != task.task_key:
        path.append(lower)
        lower = below[lower.task_key]
    return tuple(path)
