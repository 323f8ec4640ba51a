"""Prints what happens in a workspace, line by line.

`begin` and `look` are called by the leader's thread, which must not wait for a terminal. `tell`
prints what they find, on a thread that may.
"""

from collections import deque
from collections.abc import Callable

from rich.text import Text

from servo.cli.rendering.run_display import outcome
from servo.cli.rendering.run_rows import place_shown, waiting_words
from servo.cli.rendering.trigger_narrator import TriggerNarrator
from servo.core.explain.failures import failure_of
from servo.core.locations import HasLocation, any_location
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES, TaskState

_Say = Callable[[Text], None]

_TOLD = frozenset({TaskState.FAILED, TaskState.RETRY_WAIT})


class Narrator:
    """Prints what changed between two looks.

    Runs and backfills that start and finish, and tasks, schedules and sensors that fail.
    """

    def __init__(self, say: _Say, has: HasLocation = any_location) -> None:
        self._print = say
        self._found: deque[Text] = deque()
        self._say = self._found.append
        self._has = has
        self._seq = -1
        self._open: set[str] = set()
        self._over: set[str] = set()
        self._failures: dict[tuple[str, str], int] = {}
        self._triggers = TriggerNarrator(self._say)
        self.hear = self._triggers.hear

    def begin(self, state: State) -> int:
        """Print the unfinished runs; how many there are."""
        self._triggers.begin(state)
        for run in state.runs.values():
            if run.state in TERMINAL_RUN_STATES:
                self._over.add(run.run_id)
            else:
                self._open.add(run.run_id)
                self._say(Text(self._begun(run)))
        return len(self._open)

    def _begun(self, run: RunRow) -> str:
        if not self._has(run.location):
            return waiting_words(run)
        left = run.task_count - run.tasks_succeeded
        return f"resuming {run.run_id}: {left} of {_tasks(run.task_count)} left"

    def tell(self) -> None:
        """Print what was found."""
        self._triggers.tell_heard()
        while self._found:
            self._print(self._found.popleft())

    def look(self, state: State) -> None:
        """Find what is new."""
        if state.seq == self._seq:
            return
        self._seq = state.seq
        self._triggers.look(state)
        for run in state.runs.values():
            if run.run_id not in self._over:
                self._tell(run, state)

    def _tell(self, run: RunRow, state: State) -> None:
        if run.run_id not in self._open:
            self._open.add(run.run_id)
            self._say(Text(f"{run.run_id} started: {_tasks(run.task_count)}"))
        for name in state.index.run_tasks.get(run.run_id, ()):
            task = state.tasks.rows.get((run.run_id, name))
            if task is not None and task.state in _TOLD:
                self._tell_failure(task)
        if run.state in TERMINAL_RUN_STATES:
            self._open.discard(run.run_id)
            self._over.add(run.run_id)
            took = (run.finished_at or run.transitioned_at) - run.created_at
            self._say(outcome(run, took.total_seconds()))

    def _tell_failure(self, task: TaskRow) -> None:
        key = (task.run_id, task.task_key)
        if self._failures.get(key, 0) >= task.attempt:
            return
        self._failures[key] = task.attempt
        why = failure_of(task).partition("\n")[0]
        place = place_shown(task.asset_key, task.partition_key)
        told = Text.assemble((place, "red"), f" failed: {why}")
        if task.state is TaskState.RETRY_WAIT:
            told.append(f" (attempt {task.attempt} of {task.max_attempts}, will be retried)")
        self._say(told)


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
