"""Recovery of tasks that earlier leaders granted to their own workers.

The workers of a leader live and die with it, and report only to it. A task that an earlier leader
handed to its workers will therefore never be reported, whether that process ended, was suspended
for longer than its lease, or lost the store. Waiting for the lease of the task would only cost
minutes, so a new leader decides at once:

- If the execution has committed its output, the marker carries its result, and this leader adopts
  the result as if it had been reported. Nothing runs again.
- Otherwise it reports the execution as interrupted, and the task runs again. User code may still be
  running there: tasks run at least once, and that output is no longer accepted.

**Who may race.** `look` is called on the leader's thread and only collects; a thread reads the
markers, which may be many and far away. If the execution commits after its marker was looked for,
its output is garbage like that of any other lost execution. A result that the leader refuses is
reported as interrupted after all.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from servo.core.events.envelope import Answer, Batch
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.errors import ServoError, Unavailable
from servo.leader.assignments import TaskResult
from servo.leader.requests import Reply
from servo.workers.endings import interrupted
from servo.workers.reporting import report_of

_Submit = Callable[[Batch, Reply], None]
_ResultOf = Callable[[str, str], TaskResult | None]


class Recovery:
    """Reports executions of earlier leaders, whenever this process takes over.

    `is_here` tells which workers belong to this process. Workers that claimed their task from
    a queue belong to no leader: they report to the current one. `result_of` returns the committed
    result of an execution of an asset, if there is one.
    """

    def __init__(
        self, send: _Submit, actor: str, is_here: Callable[[str], bool], result_of: _ResultOf
    ) -> None:
        self._send = send
        self._actor = actor
        self._is_here = is_here
        self._result_of = result_of
        self._state: State | None = None
        self._left: deque[TaskRow] = deque()

    def look(self, state: State) -> None:
        """After a takeover, and after every entry: called on the leader's thread."""
        if state is not self._state:
            self._state = state
            rows = (state.tasks.rows[key] for key in list(state.index.running))
            self._left = deque(row for row in rows if self._is_lost(state, row))
        # One by one: a thread may be adding to them.
        if left := [self._left.popleft() for _ in range(len(self._left))]:
            threading.Thread(
                target=self._report, args=(left,), name="servo-recovery", daemon=True
            ).start()

    def _is_lost(self, state: State, row: TaskRow) -> bool:
        claimed = (row.attempt_id, row.delivery) in state.outbox.rows
        return not claimed and not self._is_here(row.worker_id)

    def _report(self, rows: Sequence[TaskRow]) -> None:
        for row in rows:
            try:
                result = self._committed(row)
            except Unavailable:
                self._left.append(row)
                continue
            if result is None:
                self._interrupt(row)
            else:
                batch = report_of(row, result, actor=self._actor)
                self._submit(batch, row, refused=partial(self._interrupt, row))

    def _committed(self, row: TaskRow) -> TaskResult | None:
        """The result that an execution committed with its output."""
        assets = (key for key in (row.asset_key, *row.also_makes) if key)
        found = (self._result_of(key, row.exec_id) for key in assets)
        return next((result for result in found if result is not None), None)

    def _interrupt(self, row: TaskRow) -> None:
        batch = Batch(id=f"lost-{row.exec_id}", events=(interrupted(row),), actor=self._actor)
        self._submit(batch, row, refused=lambda: None)

    def _submit(self, batch: Batch, row: TaskRow, *, refused: Callable[[], None]) -> None:
        def answered(answer: Answer | ServoError) -> None:
            if isinstance(answer, Unavailable):
                self._left.append(row)
            elif isinstance(answer, Answer) and not answer.applied:
                refused()

        try:
            self._send(batch, answered)
        except ServoError as error:
            answered(error)
