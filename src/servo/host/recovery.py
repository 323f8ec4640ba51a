"""Recovery of tasks that earlier leaders granted to their own workers.

The workers of a leader live and die with it, and report only to it. A task that an earlier leader
handed to its workers will therefore never be reported, whether that process ended, was suspended
for longer than its lease, or lost the store. Waiting for the lease of the task would only cost
minutes. User code may still be running there: tasks run at least once, and that output is no longer
accepted.
"""

from collections.abc import Callable
from functools import partial

from servo.core.events.envelope import Answer, Batch
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.errors import ServoError, Unavailable
from servo.leader.requests import Reply
from servo.workers.endings import interrupted

_Submit = Callable[[Batch, Reply], None]


class Recovery:
    """Reports executions of earlier leaders as interrupted, whenever this process takes over.

    `is_here` tells which workers belong to this process. Workers that claimed their task from
    a queue belong to no leader: they report to the current one.
    """

    def __init__(self, send: _Submit, actor: str, is_here: Callable[[str], bool]) -> None:
        self._send = send
        self._actor = actor
        self._is_here = is_here
        self._state: State | None = None
        self._left: list[TaskRow] = []

    def look(self, state: State) -> None:
        """After a takeover, and after every entry: called on the leader's thread."""
        if state is not self._state:
            self._state = state
            rows = (state.tasks.rows[key] for key in list(state.index.running))
            self._left = [row for row in rows if self._is_lost(state, row)]
        left, self._left = self._left, []
        for row in left:
            batch = Batch(id=f"done-{row.exec_id}", events=(interrupted(row),), actor=self._actor)
            self._send(batch, partial(self._answered, row))

    def _is_lost(self, state: State, row: TaskRow) -> bool:
        claimed = (row.attempt_id, row.delivery) in state.outbox.rows
        return not claimed and not self._is_here(row.worker_id)

    def _answered(self, row: TaskRow, answer: Answer | ServoError) -> None:
        if isinstance(answer, Unavailable):
            self._left.append(row)
